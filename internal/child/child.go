// Package child runs child processes that end at the latest when this process does, where the
// system can do that (Linux). A test or a bench that is killed leaves no child behind.
package child

import (
	"os"
	"os/exec"
	"runtime"
)

// A Process is a child. Its methods may be called from any goroutine.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // read after done
}

// Start starts cmd, which must not have been started, and returns when it runs. The caller closes
// the pipes that it asked cmd for, and does not call cmd.Wait.
//
// On Linux the child is to be killed when its parent dies. To the kernel, the parent is the thread
// that forked, and the Go runtime ends threads. So the goroutine that forks stays locked to its
// thread until the child has ended.
func Start(cmd *exec.Cmd) (*Process, error) {
	KillWithParent(cmd)
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		// cmd.Wait would close the pipes before all was read from them.
		state, err := cmd.Process.Wait()
		if err == nil && !state.Success() {
			err = &exec.ExitError{ProcessState: state}
		}
		p.err = err
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID returns the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns why the child ended: nil if it exited with status 0. It is valid once Done is closed.
func (p *Process) Err() error { return p.err }

// Signal sends a signal. It fails with [os.ErrProcessDone] if the child has ended, and never
// reaches another process that has got the same process id since.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Kill ends the child, stopped or not, and returns when it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only when it has ended already
	<-p.done
}
