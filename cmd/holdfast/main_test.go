//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// patient is longer than any step takes on a busy machine.
const patient = time.Minute

// binary is the program, which TestMain builds.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "holdfast")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as README.md installs it
	out, err := build.CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s", out)
		os.Exit(1)
	}
	for _, s := range passedOn {
		if signal.Ignored(s) { // as SIGHUP by nohup: a process inherits that, unless its parent handles the signal
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// A world is a server and a manager of another process.
type world struct {
	*redistest.Server
	t *testing.T
	m *lockmgr.Manager
}

func newWorld(t *testing.T) *world {
	t.Parallel()
	s := redistest.Start(t).Unrestricted()
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{s.Addr()}}, lockmgr.Options{Process: lockmgr.Process{Program: "billing", Host: "web-3", PID: 411}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	return &world{s, t, m}
}

// lock takes a lock in another process than the program's.
func (w *world) lock(name string, opts ...lockmgr.LockOption) *lockmgr.Lock {
	w.t.Helper()
	l, err := w.m.Lock(w.t.Context(), name, opts...)
	require.NoError(w.t, err)
	return l
}

// start starts the program.
func (w *world) start(args ...string) *process { return w.command(exec.Command(binary, args...)) }

// command starts a command that runs the program.
func (w *world) command(c *exec.Cmd) *process {
	c.Env = append(os.Environ(), "HOLDFAST_REDIS=redis://"+w.Addr())
	p := &process{Cmd: c, t: w.t, ended: make(chan struct{})}
	if c.Stdout == nil {
		c.Stdout, c.Stderr = &p.out, &p.err
	}
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without the terminal of the tests
	}
	c.WaitDelay = time.Second
	require.NoError(w.t, c.Start())
	go func() { _ = c.Wait(); close(p.ended) }()
	w.t.Cleanup(func() { _ = c.Process.Kill(); <-p.ended })
	return p
}

// run runs the program to its end, and returns its exit code and output.
func (w *world) run(args ...string) (code int, out, err string) {
	p := w.start(args...)
	return p.wait(), p.out.String(), p.err.String()
}

// free waits until nobody holds a lock. A record that nobody renews would take longer.
func (w *world) free(name string) {
	w.t.Helper()
	info, err := w.m.Inspect(context.Background(), name)
	require.NoError(w.t, err)
	require.False(w.t, info.Locked, "%s is left behind", name)
}

type process struct {
	*exec.Cmd
	t        *testing.T
	out, err output
	ended    chan struct{}
}

// An output may be read while it is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patient):
		p.t.Fatal("the program does not end")
	}
	return p.ProcessState.ExitCode()
}

// requireAllCommands requires that calls have a call of each command, but of some.
func requireAllCommands(t *testing.T, calls [][]string, but ...string) {
	t.Helper()
	for _, c := range newRoot().Commands() {
		called := slices.ContainsFunc(calls, func(args []string) bool { return len(args) > 0 && args[0] == c.Name() })
		require.Equal(t, !slices.Contains(but, c.Name()), called, "is %s called?", c.Name())
	}
}

// Help and completion work without a server.
func TestHelp(t *testing.T) {
	w := newWorld(t)
	calls := [][]string{{"--help"}}
	for _, c := range newRoot().Commands() {
		calls = append(calls, []string{c.Name(), "--help"})
	}
	for _, args := range calls {
		code, out, _ := w.run(append([]string{"--redis", "redis://127.0.0.1:1"}, args...)...)
		require.Zero(t, code)
		require.Contains(t, out, "Usage:")
		for line := range strings.Lines(out) {
			require.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), 120, line)
		}
		if len(args) > 1 {
			require.Contains(t, out, "Examples:")
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		code, out, _ := w.run("completion", shell)
		require.Zero(t, code)
		require.Contains(t, out, "holdfast")
	}
}

// Git ignores the program that go build leaves in the folder.
func TestBuild_LeavesNothingForGit(t *testing.T) {
	out, err := exec.Command("git", "-c", "safe.directory=*", "check-ignore", "holdfast", "main.go").CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) || strings.Contains(string(out), "not a git repository") {
		t.Skip("SKIPPED: this is no clone, so what git ignores is not tested")
	}
	require.NoError(t, err, string(out))
	require.Equal(t, "holdfast\n", string(out))
}
