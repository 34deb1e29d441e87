package server_test

import (
	"os/exec"
	"syscall"
)

// killWithParent has the kernel end a child with the test binary, even one
// that is stopped.
func killWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
