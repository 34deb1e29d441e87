package redistest

import (
	"os/exec"
	"syscall"
)

// KillWithParent has the kernel kill the child when the thread that starts it
// ends, that is, at the latest when this process does.
func KillWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
