//go:build !unix

package child

import "os/exec"

// Detach does nothing: this system has no process groups.
func Detach(*exec.Cmd) {}
