//go:build unix

package server

import (
	"os/exec"
	"syscall"
)

// detach puts the child in a process group of its own, out of reach of the
// terminal's signals.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
