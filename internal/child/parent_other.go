//go:build !linux

package child

import "os/exec"

// KillWithParent does nothing: this system has no such request. A process that is killed leaves its
// children behind.
func KillWithParent(*exec.Cmd) {}
