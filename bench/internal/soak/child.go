package soak

import (
	"os"
	"os/exec"
	"runtime"
)

// A child is a process that was started. It is killed when this process dies,
// where the system can do that: a stopped one would not notice its end of input.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was waited for
	err  error         // why it ended; read after done
}

// startChild starts cmd. To the kernel a child's parent is the thread that
// forked it, so one goroutine stays locked to that thread until the child ends.
func startChild(cmd *exec.Cmd) (*child, error) {
	killWithParent(cmd)
	c := &child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		// Process.Wait and not Cmd.Wait, which would close the pipes before
		// all was read from them.
		state, err := cmd.Process.Wait()
		if err == nil && !state.Success() {
			err = &exec.ExitError{ProcessState: state}
		}
		c.err = err
		close(c.done)
	}()
	return c, <-started
}

// signal fails when the child has ended. It can't hit a stranger.
func (c *child) signal(s os.Signal) error { return c.cmd.Process.Signal(s) }

// kill ends the child, stopped or not, and waits for it.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // fails only when it has ended already
	<-c.done
}
