package interop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/child"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	buildTimeout = 4 * time.Minute
	agentStart   = time.Minute
	// answerTimeout bounds commands that wait for nothing but the machine.
	answerTimeout = 30 * time.Second
)

// A request is one command to an agent: see Request.java. Times are in ms.
type request struct {
	ID       int64    `json:"id"`
	Op       string   `json:"op"`
	Client   string   `json:"client,omitempty"`
	Thread   string   `json:"thread,omitempty"`
	Kind     string   `json:"kind,omitempty"`
	Name     string   `json:"name,omitempty"`
	Names    []string `json:"names,omitempty"`
	IDs      []string `json:"ids,omitempty"`
	Wait     int64    `json:"wait"`  // negative: tryLock without arguments
	Lease    int64    `json:"lease"` // negative: the watchdog's
	Port     int      `json:"port,omitempty"`
	Ports    []int    `json:"ports,omitempty"`
	Classic  bool     `json:"classic,omitempty"`
	Watchdog int64    `json:"watchdog,omitempty"`
	FairWait int64    `json:"fairWait,omitempty"`
	Codec    string   `json:"codec,omitempty"`
	Prefix   string   `json:"prefix,omitempty"`
	Counter  string   `json:"counter,omitempty"`
	Inside   string   `json:"inside,omitempty"`
	Readers  string   `json:"readers,omitempty"`
	Threads  int      `json:"threads,omitempty"`
	Times    int64    `json:"times,omitempty"`
	Hold     int64    `json:"hold,omitempty"` // µs
	Limit    int64    `json:"limit,omitempty"`
	Millis   int64    `json:"millis,omitempty"`
	Permits  int      `json:"permits,omitempty"`
	Most     int      `json:"most,omitempty"`
}

// An answer is what an agent says to a request.
type answer struct {
	ID      int64           `json:"id"`
	Value   json.RawMessage `json:"value"`
	Error   string          `json:"error"` // the exception's class
	Message string          `json:"message"`

	at time.Time // when it was read
}

// A call is a request that was sent.
type call struct {
	agent *agent
	what  string
	done  chan struct{} // closed when answer is set
	answer
}

// An agent is a JVM with Redisson.
type agent struct {
	*process
	version string

	mu    sync.Mutex
	id    int64
	calls map[int64]*call
}

// buildAgent builds the agent for a version of Redisson and returns its class path.
func buildAgent(version string) (string, error) {
	target := filepath.Join("agent", "target", version)
	path := filepath.Join(target, "classes") + string(os.PathListSeparator) + filepath.Join(target, "lib", "*")
	sum, err := sourceSum()
	if err != nil {
		return "", err
	}
	stamp := filepath.Join(target, "built-from")
	if text, err := os.ReadFile(stamp); err == nil && string(text) == sum {
		return path, nil
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", fmt.Errorf("the agent cannot be built: %w", err)
	}
	// Left from other sources, or from a build that was stopped.
	if err := os.RemoveAll(target); err != nil {
		return "", err
	}
	// To the kernel, the parent of a child is the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var out []byte
	for _, mode := range []string{"-o", "-U"} { // offline, and if that fails with the repositories
		ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
		cmd := exec.CommandContext(ctx, mvn, "-B", "-q", mode, "-Dredisson.version="+version, "process-classes")
		cmd.Dir = "agent"
		child.KillWithParent(cmd)
		// Of its children, none may keep the pipe open.
		cmd.WaitDelay = time.Second
		out, err = cmd.CombinedOutput()
		cancel()
		if err == nil {
			return path, os.WriteFile(stamp, []byte(sum), 0o600)
		}
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return "", fmt.Errorf("building the agent for Redisson %s: %w\n%s", version, err, strings.Join(lines[max(0, len(lines)-30):], "\n"))
}

// sourceSum returns a hash of all that the agent is built from.
func sourceSum() (string, error) {
	h := sha256.New()
	err := fs.WalkDir(os.DirFS("agent"), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name == "target":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		text, err := os.ReadFile(filepath.Join("agent", name))
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// startAgent starts a JVM on a class path and returns when it reads commands.
func startAgent(version, classPath string) (*agent, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, err
	}
	a := &agent{version: version, calls: make(map[int64]*call)}
	ready := a.expect("start")
	cmd := exec.Command(java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		// Old versions use internals of the JDK.
		"--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED",
		"-Dfile.encoding=UTF-8", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", classPath, "holdfast.interop.Agent")
	if a.process, err = spawn(cmd, a.read); err != nil {
		return nil, err
	}
	if _, err := ready.await(agentStart); err != nil {
		a.kill()
		return nil, fmt.Errorf("the agent for Redisson %s: %w\n%s", version, err, a.stderr)
	}
	return a, nil
}

// expect registers a call. The first one has the ID 0, which is that of the agent's first line.
func (a *agent) expect(what string) *call {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &call{agent: a, what: what, done: make(chan struct{}), answer: answer{ID: a.id}}
	a.calls[a.id] = c
	a.id++
	return c
}

// read handles a line of the agent.
func (a *agent) read(line string) {
	got := answer{at: time.Now()}
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		fmt.Fprintf(a.stderr, "interop: not an answer: %q\n", line)
		return
	}
	a.mu.Lock()
	c := a.calls[got.ID]
	delete(a.calls, got.ID)
	a.mu.Unlock()
	if c == nil {
		fmt.Fprintf(a.stderr, "interop: an answer to no command: %q\n", line)
		return
	}
	c.answer = got
	close(c.done)
}

// send gives the agent a command.
func (a *agent) send(t testing.TB, r request) *call {
	t.Helper()
	c := a.expect(r.Op + " of thread " + r.Thread)
	r.ID = c.ID
	text := redistest.Must(json.Marshal(r))(t)
	a.mu.Lock()
	_, err := a.in.Write(append(text, '\n'))
	a.mu.Unlock()
	require.NoError(t, err, "%s: the agent has ended", c.what)
	return c
}

// await returns the answer, or an error if none came in time.
func (c *call) await(limit time.Duration) (answer, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.done:
		return c.answer, nil
	case <-c.agent.ended:
		if c.answered() {
			return c.answer, nil
		}
		return answer{}, fmt.Errorf("%s: the agent has ended", c.what)
	case <-timer.C:
		return answer{}, fmt.Errorf("%s: no answer within %v", c.what, limit)
	}
}

// answered reports whether the answer is there.
func (c *call) answered() bool { return faults.Closed(c.done) }

// result waits for the answer and returns its error, if it is one. A missing answer fails the test.
func (c *call) result(t testing.TB) error {
	t.Helper()
	got := redistest.Must(c.await(answerTimeout))(t)
	if got.Error != "" {
		return errors.New(got.Error + ": " + got.Message)
	}
	return nil
}

func (c *call) got(t testing.TB) time.Time {
	t.Helper()
	require.NoError(t, c.result(t))
	return c.at
}

// into waits for the answer and stores its value.
func (c *call) into(t testing.TB, value any) {
	t.Helper()
	require.NoError(t, c.result(t), c.what)
	require.NoError(t, json.Unmarshal(c.Value, value), "%s: %s", c.what, c.Value)
}

// stop ends the agent. It has no work of its own to finish.
func (a *agent) stop() {
	_ = a.in.Close()
	a.kill()
}
