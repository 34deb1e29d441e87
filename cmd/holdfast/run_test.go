//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

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
		{64, []string{"run", "--lease", "0", "a", "--", "true"}, "--lease must be positive"},
		{64, []string{"run", "--lease", "1ms", "a", "--", "true"}, "Lease"},
		{64, []string{"run", "--keep", "1s", "--fair", "a", "--", "true"}, "plain locks"},
		{64, []string{"run", "--nosuch", "a", "--", "true"}, "unknown flag"},
		{64, []string{"run", "a{b", "--", "true"}, "braces"},
		{69, []string{"--redis", "redis://127.0.0.1:1", "run", "-n", "a", "--", "true"}, "unavailable"},
		{69, []string{"--redis", "redis://127.0.0.1:1", "run", "-q", "-w", "50ms", "a", "--", "true"}, "unavailable"},
		{64, []string{"run", "--token", "--permits", "2", "a", "--", "true"}, "exclude each other"},
		{64, []string{"run", "--permits", "0", "a", "--", "true"}, "must be positive"},
		{64, []string{"run", "--wait", "1", "a", "--", "true"}, "missing unit in duration \"1\"\nholdfast: see holdfast run --help\n"},
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
	require.Eventually(t, func() bool { info, err := w.m.Inspect(t.Context(), "a"); return err == nil && info.Waiting > 0 }, patient, 5*time.Millisecond)
	require.NoError(t, l.Unlock(t.Context()))
	require.Zero(t, waiting.wait())
	w.free("a")
}

// So do permits that others have. Three of five are named.
func TestRun_NoPermitLeft(t *testing.T) {
	w := newWorld(t)
	_, err := w.m.Permits("p", 5).Acquire(t.Context(), 5, lockmgr.Note("invoice 42"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		code, _, text := w.run("run", "-n", "--permits", "5", "p", "--", "true")
		require.Equal(t, 75, code)
		require.Contains(t, text, "; 2 more\n")
		return len(regexp.MustCompile(`held by billing@web-3, pid 411, for \d+s: invoice 42; `).FindAllString(text, -1)) == 3
	}, patient, 100*time.Millisecond)
	_, _, text := w.run("run", "-q", "-n", "--permits", "5", "p", "--", "true")
	require.Empty(t, text)
}

// The number of permits that counts is that of the server. A user who asks for another learns it
// before the wait.
func TestRun_SaysHowManyPermitsThereAre(t *testing.T) {
	w := newWorld(t)
	run := func(code int, says string, args ...string) {
		t.Helper()
		got, _, text := w.run(append(append([]string{"run"}, args...), "p", "--", "true")...)
		require.Equal(t, code, got, text)
		require.Equal(t, says, text)
	}
	run(0, "", "--permits", "3")
	run(0, "", "--permits", "3")
	run(0, "holdfast: p has 3 permits, and not 7: see holdfast limit\n", "--permits", "7")
	run(0, "", "-q", "--permits", "7")
	require.NoError(t, w.m.Permits("p", 1).SetLimit(t.Context(), 0))
	waiting := w.start("run", "--permits", "3", "p", "--", "true")
	require.Eventually(t, func() bool {
		return waiting.err.String() == "holdfast: p has 0 permits, and not 3: see holdfast limit\n"
	}, patient, 5*time.Millisecond)
	run(75, "", "-q", "-n", "--permits", "3")
	require.NoError(t, w.m.Permits("p", 1).SetLimit(t.Context(), 1))
	require.Zero(t, waiting.wait())
}

// A wait outlasts an outage, one that began before the wait and one that comes later.
func TestRun_WaitsOutAnOutage(t *testing.T) {
	w := newWorld(t)
	w.lock("a")
	waiting := w.start("run", "a", "--", "echo", "ran")
	w.waits("a")
	w.Kill()
	late := w.start("run", "-w", "1h", "late", "--", "echo", "ran")
	quiet := w.start("run", "-q", "quiet", "--", "echo", "ran")
	for _, p := range []*process{waiting, late} {
		require.Eventually(t, func() bool { return strings.Contains(p.err.String(), "holdfast: waiting for the server: ") }, patient, 5*time.Millisecond)
	}
	code, _, text := w.run("run", "-w", "2500ms", "a", "--", "true")
	require.Equal(t, 69, code)
	require.Equal(t, 1, strings.Count(text, "waiting for the server"), text)
	w.Restart() // without its data, so that "a" is free
	for _, p := range []*process{waiting, late, quiet} {
		require.Zero(t, p.wait(), p.err.String())
		require.Equal(t, "ran\n", p.out.String())
	}
	require.Empty(t, quiet.err.String())
}

// A signal ends the wait for a server.
func TestRun_SignalEndsTheWaitForAServer(t *testing.T) {
	w := newWorld(t)
	w.Kill()
	p := w.start("run", "a", "--", "true")
	require.Eventually(t, func() bool { return strings.Contains(p.err.String(), "waiting for the server") }, patient, 5*time.Millisecond)
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 128+15, p.wait())
}

// A name that begins with - comes after --.
func TestNames_ThatBeginWithADash(t *testing.T) {
	w := newWorld(t)
	p := w.start("run", "-n", "--", "-x", "--", "sh", "-c", `echo "$HOLDFAST_NAME $*"; exec sleep 60`, "sh", "--", "-y")
	p.says("-x -- -y")
	for _, command := range []string{"ls", "show", "break --yes"} {
		code, out, text := w.run(append(strings.Fields(command), "--", "-x")...)
		require.Zero(t, code, text)
		require.Contains(t, out, "-x ", command)
	}
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 76, p.wait())
	for _, args := range [][]string{{"run", "--", "-x"}, {"run", "--", "-x", "--"}, {"run", "--", "-x", "true"}, {"run", "--", "--", "true"}, {"show", "-x"}} {
		code, _, _ := w.run(args...)
		require.Equal(t, 64, code, args)
	}
	_, _, text := w.run("show", "-x")
	require.Contains(t, text, "begins with -")
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

// The command has the name, a token that was asked for, and the standard streams.
func TestRun_Environment(t *testing.T) {
	w := newWorld(t)
	p := w.start("run", "--token", "orders:1", "--", "sh", "-c", `echo "$HOLDFAST_NAME $HOLDFAST_TOKEN"; echo oops >&2`)
	require.Zero(t, p.wait())
	require.Equal(t, "orders:1 1\n", p.out.String())
	require.Equal(t, "oops\n", p.err.String())
	_, out, _ := w.run("run", "--token", "orders:1", "--", "sh", "-c", `echo $HOLDFAST_TOKEN`)
	require.Equal(t, "2\n", out)
}

// A lock without a token leaves nothing on the server.
func TestRun_LeavesNoCounter(t *testing.T) {
	w := newWorld(t)
	_, out, _ := w.run("run", "a", "--", "sh", "-c", `echo "[$HOLDFAST_TOKEN]"`)
	require.Equal(t, "[]\n", out)
	keys, err := w.Do("KEYS", "*{a}*")
	require.NoError(t, err)
	require.Empty(t, keys)
}

// A command has the variables of its own lock only, also inside of another run, and the URL of the
// server only if that was asked for.
func TestRun_EnvironmentOfItsOwn(t *testing.T) {
	w := newWorld(t)
	show := `env | grep -iE '^HOLDFAST_(NAME|TOKEN|REDIS)=' | sort | tr '\n' ' '`
	url := "HOLDFAST_REDIS=redis://" + w.Addr() + " "
	for _, c := range []struct{ flags, inner, want string }{
		{"--token --pass-redis", "--permits 2", "HOLDFAST_NAME=inner "},
		{"--token --pass-redis", "", "HOLDFAST_NAME=inner "},
		{"--pass-redis", "--token", "HOLDFAST_NAME=inner HOLDFAST_TOKEN=1 "},
		{"--pass-redis", "--permits 2 --pass-redis", "HOLDFAST_NAME=inner " + url},
		{"", "--redis redis://" + w.Addr() + " --permits 2 --pass-redis", "HOLDFAST_NAME=inner " + url},
	} {
		_, err := w.Do("FLUSHALL")
		require.NoError(t, err)
		args := append(append([]string{"run"}, strings.Fields(c.flags)...), "outer", "--", "env", "holdfast_token=7", binary, "run")
		args = append(append(args, strings.Fields(c.inner)...), "inner", "--", "sh", "-c", show)
		code, out, text := w.run(args...)
		require.Zero(t, code, text)
		require.Equal(t, c.want, out, c)
	}
	for _, inner := range [][]string{{"run", "inner", "--", "true"}, {"ls"}} {
		code, _, text := w.run(append([]string{"run", "outer", "--", binary}, inner...)...)
		require.Equal(t, 64, code, "it must not guess a server")
		require.Contains(t, text, "--pass-redis")
	}
	_, out, _ := w.run("run", "--token", "a", "--", "sh", "-c", show)
	require.Equal(t, "HOLDFAST_NAME=a HOLDFAST_TOKEN=1 ", out)
	_, out, _ = w.run("--redis", "redis://"+w.Addr()+"/0", "run", "--token", "--pass-redis", "a", "--", "sh", "-c", show)
	require.Equal(t, "HOLDFAST_NAME=a "+strings.TrimSpace(url)+"/0 HOLDFAST_TOKEN=2 ", out)
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

// --keep leaves the lock taken after the command. All outputs say who ran it, and when that ended.
func TestRun_Keep(t *testing.T) {
	w := newWorld(t)
	code, _, _ := w.run("run", "-n", "--keep", "1h", "--note", "nightly dump", "a", "--", "true")
	require.Zero(t, code)
	code, _, text := w.run("run", "-n", "--keep", "1h", "a", "--", "true")
	require.Equal(t, 75, code)
	for _, args := range [][]string{{"ls"}, {"show", "a"}} {
		_, out, _ := w.run(args...)
		text += out
	}
	who, until := `by +holdfast run@\S+, pid \d+, ended \d+[ms0-9]* ago after \d+s`, `kept until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d`
	require.Regexp(t, `^holdfast: .*: `+until+` `+who+`: nightly dump\n`, text)
	require.Regexp(t, `(?m)^a +plain +kept `+who+` +- +59m\d+s +0 +nightly dump$`, text)
	require.Regexp(t, `(?m)^  kept `+who+`\n    from   .* to .*\n    note   nightly dump\n    ID     .*\n  TTL      59m\d+s: `+until+`\n  waiting  0\n`, text)
	_, out, _ := w.run("ls", "--json")
	r := requireJSON[row](t, out)[0].Holders[0]
	require.True(t, r.Kept)
	require.Equal(t, "holdfast run", r.Program)
	require.Equal(t, "nightly dump", r.Note)
	require.WithinRange(t, *r.Ended, *r.Since, time.Now())
	snap := newSource(w.m, "").look(t.Context(), time.Now())
	require.InDelta(t, r.Ended.Sub(*r.Since).Seconds(), snap.Locks[0].HeldFor, 0.001, "top, too")
	require.False(t, snap.Locks[0].AtLeast)
	top := screen{snap: snap, looked: true, sort: 'n', width: 200, height: 9}
	require.Regexp(t, `\na +plain +kept `+who+` +- +59m\d+s +0 +0 +nightly dump\n`, top.text())
	code, out, _ = w.run("break", "--yes", "a")
	require.Zero(t, code)
	require.Contains(t, out, "broken: a")
	code, _, _ = w.run("run", "-n", "a", "--", "true")
	require.Zero(t, code)
	code, out, _ = w.run("run", "-n", "--keep", "-1h", "a", "--", "echo", "ran")
	require.Equal(t, 64, code)
	require.Empty(t, out)
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
	require.Eventually(t, func() bool { info, err := w.m.Inspect(t.Context(), "a"); return err == nil && info.Waiting > 0 }, patient, 5*time.Millisecond)
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

// A lock that can't be given back stays taken. The exit code is that of the command.
func TestRun_ServerIsSilentAtTheEnd(t *testing.T) {
	w := newWorld(t)
	code, _, text := w.run("run", "a", "--", "sh", "-c", "kill -STOP "+strconv.Itoa(w.PID())+"; exit 3")
	w.Thaw()
	require.Equal(t, 3, code)
	require.Regexp(t, `^holdfast: the lock may stay taken until its lease ends: lockmgr: unlock "a": server unavailable: .*\n$`, text)
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
