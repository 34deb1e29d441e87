package soak

import (
	"os/exec"
	"syscall"
)

// killWithParent also puts the child in a process group of its own, out of
// reach of the terminal's signals: the run ends its children itself.
func killWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
