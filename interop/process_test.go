package interop

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/child"
)

// A process is a child that is killed at the latest when this process ends.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr *tail
	ended  chan struct{} // closed when the child has ended and its output was read
}

// spawn starts a child and calls line with each line of its standard output, on a goroutine of its
// own.
func spawn(cmd *exec.Cmd, line func(string)) (*process, error) {
	p := &process{cmd: cmd, stderr: new(tail), ended: make(chan struct{})}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, cmd.Stderr = in, p.stderr
	child.KillWithParent(cmd)
	started := make(chan error)
	go func() {
		// To the kernel, a child's parent is the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		defer close(p.ended)
		lines := bufio.NewReader(out)
		for {
			text, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			line(strings.TrimSuffix(text, "\n"))
		}
		_ = cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", cmd.Path, err)
	}
	return p, nil
}

// kill ends the child with SIGKILL and waits for it. It may have ended before.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// A tail keeps the last part of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = append([]byte(nil), t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
