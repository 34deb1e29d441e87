//go:build unix

package child

import (
	"os/exec"
	"syscall"
)

// Detach puts the child in a process group of its own, so that Ctrl-C does not reach it.
func Detach(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
}
