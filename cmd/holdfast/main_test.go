//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
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
	out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput()
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

// marker returns a path, and a shell command that creates it.
func marker(t *testing.T) (path, touch string) {
	path = filepath.Join(t.TempDir(), "marker")
	return path, "echo $$ > " + path + ".new; mv " + path + ".new " + path
}

func awaitFile(t *testing.T, path string) string {
	t.Helper()
	var text []byte
	require.Eventually(t, func() (ok bool) { var err error; text, err = os.ReadFile(path); return err == nil }, patient, 5*time.Millisecond, path)
	return strings.TrimSpace(string(text))
}

// The exit code tells how it ended, and no lock is left behind.
func TestRun_ExitCodes(t *testing.T) {
	w := newWorld(t)
	notRunnable := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.WriteFile(notRunnable, []byte("x"), 0o755))
	for _, c := range []struct {
		code int
		args []string
		says string
	}{
		{0, []string{"run", "a", "--", "true"}, ""},
		{3, []string{"run", "a", "--", "sh", "-c", "exit 3"}, ""},
		{128 + 15, []string{"run", "a", "--", "sh", "-c", "kill -TERM $$"}, ""},
		{127, []string{"run", "a", "--", "no-such-command"}, "no-such-command"},
		{126, []string{"run", "a", "--", notRunnable}, "data"},
		{64, []string{"run", "a", "true"}, "want NAME -- COMMAND"},
		{64, []string{"run", "a", "--"}, "want NAME -- COMMAND"},
		{64, []string{"run", "--shared", "--fair", "a", "--", "true"}, "exclude each other"},
		{64, []string{"run", "--nowait", "--wait", "1s", "a", "--", "true"}, "exclude each other"},
		{64, []string{"run", "--lease", "1ms", "a", "--", "true"}, "Lease"},
		{64, []string{"run", "--keep", "1s", "--fair", "a", "--", "true"}, "plain locks"},
		{64, []string{"run", "--nosuch", "a", "--", "true"}, "unknown flag"},
		{64, []string{"run", "a{b", "--", "true"}, "braces"},
		{69, []string{"--redis", "redis://127.0.0.1:1", "run", "a", "--", "true"}, "unavailable"},
		{64, []string{"--redis", "nonsense", "run", "a", "--", "true"}, "URL"},
		{64, []string{"nosuch"}, "unknown command"},
	} {
		code, _, err := w.run(c.args...)
		require.Equal(t, c.code, code, "%v: %s", c.args, err)
		require.Contains(t, err, c.says, c.args)
		if c.says == "" {
			require.Empty(t, err, c.args)
		}
		w.free("a")
	}
	secret := "redis://u:pa#ss@host:1"
	_, _, err := w.run("--redis", secret, "ls")
	require.NotContains(t, err, "pa#ss")
}

// A lock that others hold ends it with 75, at once or after the wait, and says who holds it.
func TestRun_Busy(t *testing.T) {
	w := newWorld(t)
	l, err := w.m.Lock(t.Context(), "a", lockmgr.Note("invoice 42"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		code, _, text := w.run("run", "-n", "a", "--", "true")
		require.Equal(t, 75, code)
		return strings.Contains(text, "held by billing@web-3, pid 411") && strings.Contains(text, "invoice 42")
	}, patient, 100*time.Millisecond)
	begin := time.Now()
	code, _, text := w.run("run", "-w", "300ms", "a", "--", "true")
	require.Equal(t, 75, code)
	require.Contains(t, text, "wait timed out")
	require.GreaterOrEqual(t, time.Since(begin), 300*time.Millisecond)
	code, _, text = w.run("run", "-q", "-n", "a", "--", "true")
	require.Equal(t, 75, code)
	require.Empty(t, text)

	// It waits, and runs when the lock comes free.
	waiting := w.start("run", "a", "--", "true")
	require.Eventually(t, func() bool { info, err := w.m.Inspect(t.Context(), "a"); return err == nil && info.Subscribers > 0 }, patient, 5*time.Millisecond)
	require.NoError(t, l.Unlock(t.Context()))
	require.Zero(t, waiting.wait())
	w.free("a")
}

// Two commands under one lock never run at once.
func TestRun_Excludes(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "inside")
	var all []*process
	for range 6 {
		all = append(all, w.start("run", "a", "--", "sh", "-c", "mkdir "+dir+" && sleep 0.05 && rmdir "+dir))
	}
	for _, p := range all {
		require.Zero(t, p.wait(), p.err.String())
	}
}

// The command has the name and the token in its environment, and the standard streams.
func TestRun_Environment(t *testing.T) {
	w := newWorld(t)
	p := w.start("run", "orders:1", "--", "sh", "-c", `echo "$HOLDFAST_NAME $HOLDFAST_TOKEN"; echo oops >&2`)
	require.Zero(t, p.wait())
	require.Equal(t, "orders:1 1\n", p.out.String())
	require.Equal(t, "oops\n", p.err.String())
	_, out, _ := w.run("run", "orders:1", "--", "sh", "-c", `echo $HOLDFAST_TOKEN`)
	require.Equal(t, "2\n", out)
	_, out, _ = w.run("run", "--token=false", "orders:1", "--", "sh", "-c", `echo "[$HOLDFAST_TOKEN]"`)
	require.Equal(t, "[]\n", out)
	_, out, _ = w.run("run", "--permits", "2", "p", "--", "sh", "-c", `echo "[$HOLDFAST_TOKEN]"`)
	require.Equal(t, "[]\n", out)
}

// Each kind of lock is taken as such.
func TestRun_Kinds(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		flags []string
		kind  string
	}{
		{nil, "plain"}, {[]string{"--fair"}, "fair"}, {[]string{"--shared"}, "read"}, {[]string{"--exclusive"}, "write"},
		{[]string{"--permits", "3"}, "permits 1/3"},
	} {
		name := "k" + strings.Join(c.flags, "")
		path, touch := marker(t)
		p := w.start(append(append([]string{"run"}, c.flags...), name, "--", "sh", "-c", touch+"; exec sleep 60")...)
		awaitFile(t, path)
		_, out, _ := w.run("show", name)
		require.Contains(t, out, "("+c.kind+")")
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		require.Equal(t, 128+15, p.wait())
		code, _, _ := w.run("show", name)
		if c.kind != "permits 1/3" {
			require.Equal(t, 1, code, "it is free")
		}
	}
}

// --keep leaves the lock taken after the command.
func TestRun_Keep(t *testing.T) {
	w := newWorld(t)
	code, _, _ := w.run("run", "-n", "--keep", "1h", "a", "--", "true")
	require.Zero(t, code)
	code, _, _ = w.run("run", "-n", "--keep", "1h", "a", "--", "true")
	require.Equal(t, 75, code)
	code, out, _ := w.run("break", "--yes", "a")
	require.Zero(t, code)
	require.Contains(t, out, "broken: a")
	code, _, _ = w.run("run", "-n", "a", "--", "true")
	require.Zero(t, code)
	code, out, _ = w.run("run", "-n", "--keep", "-1h", "a", "--", "echo", "ran")
	require.Equal(t, 64, code)
	require.Empty(t, out)
}

// A permit that never expires is shown as such, beside one that does.
func TestShow_PermitWithoutEnd(t *testing.T) {
	w := newWorld(t)
	l, err := w.m.Permits("p", 3).Acquire(t.Context(), 1)
	require.NoError(t, err)
	_, err = w.Do("ZADD", "{p}:timeout", "9223372036854775807", "0123456789abcdef")
	require.NoError(t, err)
	_, out, _ := w.run("show", "p")
	require.Contains(t, out, "no end")
	require.NoError(t, l.Unlock(t.Context()))
}

// Signals are passed on, and the lock is given back when the command has ended.
func TestRun_PassesSignalsOn(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			w := newWorld(t)
			path, touch := marker(t)
			caught, _ := marker(t)
			name := strings.TrimPrefix(strings.ToUpper(map[syscall.Signal]string{syscall.SIGTERM: "term", syscall.SIGHUP: "hup", syscall.SIGINT: "int"}[s]), "SIG")
			p := w.start("run", "a", "--", "sh", "-c", "trap 'touch "+caught+"; exit 7' "+name+"; "+touch+"; while :; do sleep 0.01; done")
			awaitFile(t, path)
			require.NoError(t, p.Process.Signal(s))
			require.Equal(t, 7, p.wait())
			awaitFile(t, caught)
			w.free("a")
		})
	}
}

// A signal ends a wait, and nothing is left behind.
func TestRun_SignalEndsAWait(t *testing.T) {
	w := newWorld(t)
	l, err := w.m.Lock(t.Context(), "a")
	require.NoError(t, err)
	p := w.start("run", "a", "--", "true")
	require.Eventually(t, func() bool { info, err := w.m.Inspect(t.Context(), "a"); return err == nil && info.Subscribers > 0 }, patient, 5*time.Millisecond)
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 128+15, p.wait())
	require.NoError(t, l.Unlock(t.Context()))
	w.free("a")
}

// A command whose lock is lost gets SIGTERM. One that does not end gets SIGKILL after the grace.
func TestRun_Loss(t *testing.T) {
	for name, ends := range map[string]bool{"ends": true, "does not end": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			path, touch := marker(t)
			asked, touchAsked := marker(t)
			grace, exit := "300ms", ""
			if ends {
				grace, exit = "1h", "; exit 0"
			}
			p := w.start("run", "--lease", "600ms", "--grace", grace, "a", "--", "sh", "-c", "trap '"+touchAsked+exit+"' TERM; "+touch+"; while :; do sleep 0.01; done")
			awaitFile(t, path)
			_, err := w.Do("DEL", "a")
			require.NoError(t, err)
			require.Equal(t, 76, p.wait())
			require.Contains(t, p.err.String(), `"a": the lock was lost while the command ran`)
			awaitFile(t, asked)
		})
	}
}

// When holdfast is killed, the command gets SIGTERM, and the lock is free after the lease.
func TestRun_Killed(t *testing.T) {
	w := newWorld(t)
	path, touch := marker(t)
	ended, _ := marker(t)
	p := w.start("run", "--lease", "2s", "a", "--", "sh", "-c", "trap 'touch "+ended+"; exit' TERM; "+touch+"; while :; do sleep 0.01; done")
	awaitFile(t, path)
	require.NoError(t, p.Process.Kill())
	awaitFile(t, ended)
	l, err := w.m.Lock(t.Context(), "a", lockmgr.MaxWait(patient))
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
}

// A command that is killed gives the lock back at once.
func TestRun_CommandKilled(t *testing.T) {
	w := newWorld(t)
	path, touch := marker(t)
	p := w.start("run", "a", "--", "sh", "-c", touch+"; exec sleep 60")
	pid, err := strconv.Atoi(awaitFile(t, path))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Equal(t, 128+9, p.wait())
	w.free("a")
}

// ls, show and break tell of all kinds of locks.
func TestLs_ShowAndBreak(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, err := w.m.Lock(ctx, "app:a", lockmgr.Fenced(), lockmgr.Note("invoice 42"))
	require.NoError(t, err)
	_, err = w.m.Permits("app:p", 3).Acquire(ctx, 2)
	require.NoError(t, err)
	_, err = w.m.Lock(ctx, "app:\x1b[31m\n", lockmgr.Shared())
	require.NoError(t, err)
	_, err = w.m.Lock(ctx, "other")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, out, _ := w.run("ls", "app:")
		require.NotContains(t, out, "\x1b")
		require.NotContains(t, out, "other")
		return strings.Count(out, "billing@web-3, pid 411") == 3 && strings.Contains(out, "invoice 42") &&
			strings.Contains(out, "permits 2/3") && strings.Contains(out, `"app:\x1b[31m\n"`)
	}, patient, 100*time.Millisecond)
	code, out, _ := w.run("ls", "--json", "app:a")
	require.Zero(t, code)
	var r row
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, "app:a", r.Name)
	require.Equal(t, "billing", r.Holders[0].Program)
	require.NotNil(t, r.Holders[0].Since)
	require.Positive(t, r.TTL)

	code, out, _ = w.run("show", "app:a")
	require.Zero(t, code)
	for _, text := range []string{"app:a (plain)", "billing@web-3, pid 411", "invoice 42", "token    1", "TTL"} {
		require.Contains(t, out, text)
	}
	code, out, _ = w.run("show", "nothing")
	require.Equal(t, 1, code)
	require.Equal(t, "nothing is free\n", out)

	code, _, text := w.run("break", "app:a")
	require.Equal(t, 64, code)
	require.Contains(t, text, "--yes")
	for _, name := range []string{"app:a", "app:p", "app:\x1b[31m\n"} {
		code, out, text = w.run("break", "--yes", name)
		require.Zero(t, code, text)
		require.Contains(t, out, "billing@web-3, pid 411")
		require.Contains(t, out, "broken: "+shown(name))
		code, _, text = w.run("break", "--yes", name)
		require.Equal(t, 1, code)
		require.Contains(t, text, "is free")
	}
	_, out, _ = w.run("ls", "app:")
	require.Equal(t, 1, strings.Count(out, "\n"), out)
}

// check names what is missing, and ends with 77 if plain locks need it.
func TestCheck(t *testing.T) {
	w := newWorld(t)
	code, out, _ := w.run("check", "app:")
	require.Zero(t, code)
	require.Contains(t, out, "plain locks work")
	require.Contains(t, out, "server: ")
	_, err := w.Do("ACL", "SETUSER", "locker", "on", ">secret", "~*", "&*", "+@all", "-pttl", "-scan")
	require.NoError(t, err)
	code, out, text := w.run("--redis", "redis://locker:secret@"+w.Addr(), "check")
	require.Equal(t, 77, code, text)
	require.Contains(t, out, "missing (needed): +pttl")
	require.Contains(t, out, "missing (optional): +scan for Scan")
	require.Contains(t, text, "+pttl")
	code, _, text = w.run("--redis", "redis://locker:secret@"+w.Addr(), "ls")
	require.Equal(t, 77, code, text)
}

// check says which masters of a cluster lack a permission.
func TestCheck_OfACluster(t *testing.T) {
	w := newWorld(t)
	c := redistest.StartCluster(t, 2, 0)
	_, err := c.Nodes[1].Do("ACL", "SETUSER", "default", "-zcard")
	require.NoError(t, err)
	code, out, text := w.run("--redis", "redis://"+c.Nodes[0].Addr(), "check", "app:")
	require.Zero(t, code, text)
	require.Contains(t, out, "missing (optional): +zcard for Permits at "+c.Nodes[1].Addr()+"\n")
}

// top --json prints a snapshot a look, and counts changes of holders.
func TestTop_JSON(t *testing.T) {
	w := newWorld(t)
	l, err := w.m.Lock(t.Context(), "a")
	require.NoError(t, err)
	p := w.start("top", "--json", "--every", "100ms")
	printed := func(text string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(p.out.String(), text) }, patient, 5*time.Millisecond, text)
	}
	printed(l.HolderID())
	require.NoError(t, l.Unlock(t.Context()))
	l, err = w.m.Lock(t.Context(), "a")
	require.NoError(t, err)
	printed(l.HolderID())
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.Zero(t, p.wait(), p.err.String())
	var last snapshot
	changed := false
	for line := range strings.Lines(p.out.String()) {
		require.NoError(t, json.Unmarshal([]byte(line), &last))
		require.Empty(t, last.Error)
		changed = changed || len(last.Locks) == 1 && last.Locks[0].Changes > 0
	}
	require.True(t, changed)
	require.Len(t, last.Locks, 1)
}

// A source remembers what it found.
func TestSource(t *testing.T) {
	var rows []row
	var failing error
	s := &source{known: map[string]*track{}, scan: func(context.Context) ([]row, error) { return rows, failing }}
	begin := time.Now()
	at := func(seconds int) snapshot { return s.look(t.Context(), begin.Add(time.Duration(seconds)*time.Second)) }
	rows = []row{{Name: "a", Holders: []holder{{Owner: "1"}}}}
	at(0)
	got := at(10).Locks[0]
	require.EqualValues(t, 10, got.HeldFor)
	require.True(t, got.AtLeast)
	require.Zero(t, got.Changes)
	rows[0].Holders[0].Owner = "2"
	got = at(20).Locks[0]
	require.Zero(t, got.HeldFor)
	require.EqualValues(t, 0.05, got.Changes)
	rows[0].Holders[0].Since = &begin
	got = at(30).Locks[0]
	require.EqualValues(t, 30, got.HeldFor)
	require.False(t, got.AtLeast)
	failing = errors.New("away")
	require.Equal(t, "away", at(40).Error)
	failing, rows = nil, nil
	require.Empty(t, at(50).Locks)
	require.Len(t, s.known, 1)
	at(120)
	require.Empty(t, s.known)
}

// The screen sorts, filters, scrolls and fits its size.
func TestScreen(t *testing.T) {
	s := &screen{ctx: t.Context(), every: time.Second, sort: 'n'}
	require.Contains(t, s.View(), "looking")
	s.Update(tea.WindowSizeMsg{Width: 100, Height: 10})
	snap := snapshot{At: time.Now()}
	for i := range 50 {
		snap.Locks = append(snap.Locks, topRow{HeldFor: float64(i), Changes: float64(50 - i), row: row{
			Name: fmt.Sprintf("lock-%02d", i), Kind: "plain", TTL: int64(i * 1000), Waiting: int64(i % 7), Holders: []holder{{Owner: "x\x1b[31m"}},
		}})
	}
	s.Update(snap)
	lines := func() []string {
		all := strings.Split(s.View(), "\n")
		require.LessOrEqual(t, len(all), 10)
		for _, line := range all {
			require.NotContains(t, line, "\x1b[31m")
		}
		return all
	}
	key := func(keys ...string) {
		for _, k := range keys {
			msg := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(k)}
			switch k {
			case "enter":
				msg = tea.KeyMsg{Type: tea.KeyEnter}
			case "pgdown":
				msg = tea.KeyMsg{Type: tea.KeyPgDown}
			case "down":
				msg = tea.KeyMsg{Type: tea.KeyDown}
			}
			s.Update(msg)
		}
	}
	require.Contains(t, lines()[2], "lock-00")
	require.Contains(t, lines()[0], "50 locks")
	key("down")
	require.Contains(t, lines()[2], "lock-01")
	for range 30 {
		key("pgdown")
	}
	require.Contains(t, lines()[2], "lock-49")
	key("g", "f")
	require.Contains(t, lines()[2], "lock-49")
	key("c")
	require.Contains(t, lines()[2], "lock-00")
	key("w")
	require.Contains(t, lines()[2], "lock-06")
	key("/", "4", "2", "enter")
	require.Contains(t, lines()[2], "lock-42")
	require.NotContains(t, s.View(), "lock-41")
	key(" ")
	require.Contains(t, lines()[0], "PAUSED")
	s.Update(snapshot{Error: "server\x1b[31maway"})
	require.Contains(t, s.View(), "lock-42", "what was found before stays")
	require.Contains(t, lines()[len(lines())-1], "away")
	for _, size := range [][2]int{{1, 1}, {20, 3}, {300, 100}} {
		s.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		s.View()
	}
	_, quit := s.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("q")})
	require.IsType(t, tea.QuitMsg{}, quit())
}

// The page is served on loopback only, to those who ask for an address of loopback.
func TestWeb(t *testing.T) {
	w := newWorld(t)
	_, err := w.m.Lock(t.Context(), "<script>alert(1)</script>")
	require.NoError(t, err)
	p := w.start("top", "--web", "127.0.0.1:0")
	var url string
	require.Eventually(t, func() bool {
		url = strings.TrimSpace(p.err.String())
		return strings.HasPrefix(url, "http://127.0.0.1:")
	}, patient, 5*time.Millisecond)
	get := func(path, host string) (*http.Response, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		require.NoError(t, err)
		if host != "" {
			r.Host = host
		}
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer, string(body)
	}
	answer, body := get("", "")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.Contains(t, body, "<title>holdfast: locks</title>")
	answer, body = get("locks.json", "")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "nosniff", answer.Header.Get("X-Content-Type-Options"))
	var snap snapshot
	require.NoError(t, json.Unmarshal([]byte(body), &snap))
	require.Equal(t, "<script>alert(1)</script>", snap.Locks[0].Name)
	require.NotContains(t, body, "<script>", "JSON escapes it")
	for _, host := range []string{"evil.example", "evil.example:7117", "10.0.0.1", ""} {
		if host != "" {
			answer, _ = get("locks.json", host)
			require.Equal(t, http.StatusForbidden, answer.StatusCode, host)
		}
	}
	answer, _ = get("nosuch", "")
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	posted, err := http.Post(url+"locks.json", "text/plain", nil)
	require.NoError(t, err)
	posted.Body.Close()
	require.Equal(t, http.StatusMethodNotAllowed, posted.StatusCode)
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.Zero(t, p.wait())
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "example.com:80", "7117"} {
		code, _, _ := w.run("top", "--web", addr)
		require.Equal(t, 64, code, addr)
	}
}

// Help and completion work without a server.
func TestHelp(t *testing.T) {
	w := newWorld(t)
	for _, args := range [][]string{{"--help"}, {"run", "--help"}, {"ls", "--help"}, {"show", "--help"}, {"break", "--help"}, {"check", "--help"}, {"top", "--help"}} {
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

func TestAge(t *testing.T) {
	for d, text := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 59 * time.Second: "59s", 125 * time.Second: "2m5s", 250 * time.Minute: "4h10m", 73 * time.Hour: "3d",
	} {
		require.Equal(t, text, age(d))
	}
	for text, want := range map[string]string{"a:b": "a:b", "": `""`, " a": `" a"`, "a\nb": `"a\nb"`, "é": "é", "\xff": `"\xff"`} {
		require.Equal(t, want, shown(text))
	}
}
