package redistest

import (
	"os"
	"os/exec"
	"runtime"
)

// process is a running child.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended and was waited for
	err  error         // why it ended; read after done
}

// spawn starts cmd and returns when it runs.
//
// On Linux the child is to be killed when its parent dies. To the kernel the
// parent is not the process but the thread that forked, and the Go runtime
// ends threads when it likes. So one goroutine forks, stays locked to its
// thread, and holds on to it until the child has ended.
func spawn(cmd *exec.Cmd) (*process, error) {
	KillWithParent(cmd)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// ended reports whether the child has ended by itself or by a signal.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal fails with os.ErrProcessDone when the child has ended. It cannot hit
// a stranger that was given the same pid since.
func (p *process) signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// kill ends the child, stopped or not, and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only when it has ended already
	<-p.done
}
