package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// WorkerArg is the first argument of a process that is a worker. The program (and a test binary)
// must then call [Worker] and do nothing else.
const WorkerArg = "internal-worker"

// A worker is another process that takes part in a measurement. It is told what to do by lines on
// its standard input, and answers by lines of JSON. It ends when its input does, so that none
// outlives the one that started it.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// A job is the first line to a worker.
type job struct {
	Spec   Spec
	Number int
}

// spawn starts a worker. It is killed when ctx ends, or with the measurement.
func (b *bench) spawn(ctx context.Context, number int, s Spec) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w, err := b.child(ctx, func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, self, WorkerArg) })
	if err != nil {
		return nil, err
	}
	return w, json.NewEncoder(w.in).Encode(job{s, number})
}

// child starts a process that talks in lines.
func (b *bench) child(ctx context.Context, command func(context.Context) *exec.Cmd) (w *worker, err error) {
	ctx, cancel := context.WithCancel(ctx)
	w = &worker{cmd: command(ctx)}
	w.cmd.Stderr = os.Stderr
	w.in, err = w.cmd.StdinPipe()
	out, err2 := w.cmd.StdoutPipe()
	if err = errors.Join(err, err2); err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	w.out = bufio.NewReader(out)
	b.onEnd = append(b.onEnd, func() {
		w.in.Close()
		cancel()
		_ = w.cmd.Wait()
	})
	return w, nil
}

// tell sends a line.
func (w *worker) tell(line string) error {
	_, err := fmt.Fprintln(w.in, line)
	return err
}

// hear reads an answer. It blocks until there is one or the worker is gone.
func (w *worker) hear(answer any) error {
	line, err := w.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("a worker process ended: %w", err)
	}
	var e struct{ Error string }
	if err := json.Unmarshal(line, &e); err == nil && e.Error != "" {
		return partial(e.Error)
	}
	return json.Unmarshal(line, answer)
}

// Worker is the life of a worker process. It returns when its input ends.
func Worker(in io.Reader, out io.Writer) {
	lines := bufio.NewScanner(in)
	answer := json.NewEncoder(out)
	var j job
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &j) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.Spec.Limit)
	defer cancel()
	// Whatever the client does, the process ends with its input.
	commands := make(chan string)
	go func() {
		for lines.Scan() {
			commands <- strings.TrimSpace(lines.Text())
		}
		os.Exit(0)
	}()
	b := &bench{Spec: j.Spec, values: map[string]float64{}}
	err := b.work(ctx, j.Number, commands, answer)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("stopped by the watchdog after %v", j.Spec.Limit)
		}
		_ = answer.Encode(struct{ Error string }{err.Error()})
	}
	// The last word is read before the input is closed.
	select {
	case <-commands:
	case <-time.After(j.Spec.Limit):
	}
}
