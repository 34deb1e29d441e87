package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/child"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Some faults befall whole processes. The test binary runs itself as a child for them, which plays
// one role and talks to its parent line by line.

const (
	envRole = "HOLDFAST_FAULTS_ROLE"
	envTask = "HOLDFAST_FAULTS_TASK"
)

// A task is what a child is told when it starts.
type task struct {
	Addr, Name string
	Lease      time.Duration
	Waiters    int
}

// A parent is what a child sees of its test. Its methods may be called from any goroutine.
type parent struct {
	task
	lines chan string // what the test says
	mu    sync.Mutex
}

func (p *parent) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Printf(format+"\n", args...)
}

func (p *parent) dial(o lockmgr.Options) *lockmgr.Manager {
	o.Lease, o.CommandTimeout = p.Lease, 3*p.Lease/10
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{p.Addr}}, o)
	p.must(err)
	return m
}

// must ends a child that can't go on.
func (p *parent) must(err error) {
	if err != nil {
		p.say("failed: %v", err)
		os.Exit(1)
	}
}

// beChild plays a role until it is over or the test hangs up.
func beChild(role string) {
	p := &parent{lines: make(chan string)}
	p.must(json.Unmarshal([]byte(os.Getenv(envTask)), &p.task))
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			p.lines <- in.Text()
		}
		os.Exit(0)
	}()
	switch role {
	case "pausable":
		pausable(p)
	case "holder":
		holder(p)
	case "crowd":
		crowd(p)
	default:
		p.must(fmt.Errorf("no role %q", role))
	}
	os.Exit(0)
}

// A subprocess is what its test sees of a child.
type subprocess struct {
	*child.Process
	in    io.WriteCloser
	lines chan string // closed when the child has ended
}

// spawn starts a child. It is killed at the end of the test.
func spawn(t testing.TB, role string, what task) *subprocess {
	t.Helper()
	text := redistest.Must(json.Marshal(what))(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"="+role, envTask+"="+string(text))
	cmd.Stderr = os.Stderr
	in := redistest.Must(cmd.StdinPipe())(t)
	out := redistest.Must(cmd.StdoutPipe())(t)
	p := redistest.Must(child.Start(cmd))(t)
	c := &subprocess{Process: p, in: in, lines: make(chan string, 64)}
	go func() {
		defer close(c.lines)
		defer in.Close()
		defer out.Close()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.lines <- lines.Text()
		}
		<-p.Done()
	}()
	t.Cleanup(c.kill)
	return c
}

// kill ends the child at once, stopped or not, and returns when it is gone and its output was read.
func (c *subprocess) kill() {
	c.Kill()
	for range c.lines {
	}
}

func (c *subprocess) signal(t testing.TB, sig os.Signal) {
	t.Helper()
	require.NoError(t, c.Signal(sig))
}

func (c *subprocess) say(t testing.TB, line string) {
	t.Helper()
	redistest.Must(io.WriteString(c.in, line+"\n"))(t)
}

// hear waits for the next line that begins with a word, and returns the rest.
func (c *subprocess) hear(t testing.TB, word string) string {
	t.Helper()
	timeout := time.After(faults.Patience)
	for {
		select {
		case line, ok := <-c.lines:
			require.True(t, ok, "the child has ended, no %q", word)
			require.False(t, strings.HasPrefix(line, "failed"), line)
			if rest, ok := strings.CutPrefix(line, word); ok {
				return strings.TrimSpace(rest)
			}
		case <-timeout:
			require.FailNow(t, "the child does not say it", word)
		}
	}
}
