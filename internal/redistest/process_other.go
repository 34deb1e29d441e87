//go:build !linux

package redistest

import "os/exec"

// KillWithParent does nothing: other systems have no such request. There a
// test binary that is killed leaves its server behind.
func KillWithParent(*exec.Cmd) {}
