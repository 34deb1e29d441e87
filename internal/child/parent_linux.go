package child

import (
	"os/exec"
	"syscall"
)

// KillWithParent has the kernel kill the child when the thread that starts it ends, that is, at the
// latest when this process does.
func KillWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
