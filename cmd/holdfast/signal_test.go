//go:build unix

package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// says waits until the program has printed a line.
func (p *process) says(line string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return strings.Contains("\n"+p.out.String(), "\n"+line+"\n") }, patient, 5*time.Millisecond, line)
}

// waits returns when a process waits for a lock.
func (w *world) waits(name string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { info, err := w.m.Inspect(w.t.Context(), name); return err == nil && info.Waiting > 0 }, patient, 5*time.Millisecond)
}

// A command that does not handle a signal is ended by it.
func TestRun_SignalEndsTheCommand(t *testing.T) {
	w := newWorld(t)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
		p := w.start("run", "a", "--", "sh", "-c", "echo up; exec sleep 1000")
		p.says("up")
		require.NoError(t, p.Process.Signal(s))
		require.Equal(t, 128+int(s), p.wait(), s)
		w.free("a")
	}
}

// The lock is held until the command has ended, however long that takes after the signal.
func TestRun_HoldsTheLockUntilTheCommandHasEnded(t *testing.T) {
	w := newWorld(t)
	goOn, touch := marker(t)
	p := w.start("run", "a", "--", "sh", "-c", `trap "echo caught" TERM; echo up; while ! [ -e `+goOn+` ]; do sleep 0.01; done`)
	p.says("up")
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	p.says("caught")
	code, _, _ := w.run("run", "-n", "a", "--", "true")
	require.Equal(t, 75, code)
	require.NoError(t, exec.Command("sh", "-c", touch).Run())
	require.Zero(t, p.wait())
	w.free("a")
}

// nohup starts a program with SIGHUP ignored.
func TestRun_SignalThatIsIgnoredStaysIgnored(t *testing.T) {
	w := newWorld(t)
	l, err := w.m.Lock(t.Context(), "a")
	require.NoError(t, err)
	p := w.command(exec.Command("sh", "-c", `trap "" HUP; exec "$0" run a -- echo ran`, binary))
	w.waits("a")
	require.NoError(t, p.Process.Signal(syscall.SIGHUP))
	require.NoError(t, l.Unlock(t.Context()))
	require.Zero(t, p.wait(), p.err.String())
	require.Equal(t, "ran\n", p.out.String())
}

// Ctrl-C ends each command, whatever the server does not answer, and the exit code says so. The end
// of a wait bounds the dial, too.
func TestSignal_ServerIsSilent(t *testing.T) {
	w := newWorld(t)
	calls := [][]string{
		{"ls"}, {"show", "a"}, {"break", "a"}, {"limit", "a"}, {"limit", "a", "3"}, {"check"}, {"top", "--json"},
		{"run", "a", "--", "true"}, {"run", "--permits", "2", "a", "--", "true"},
	}
	requireAllCommands(t, calls, "man")
	for _, args := range calls {
		for when, greets := range map[string]bool{"from the start": false, "after the dial": true} {
			t.Run(strings.Join(append(args, when), " "), func(t *testing.T) {
				t.Parallel()
				silent := make(chan string, 16)
				addr := fake(t, func(args []string) string {
					if text, ok := resp.Greet(args); ok && greets {
						return text
					}
					silent <- args[0]
					return ""
				})
				p := w.start(append([]string{"--redis", "redis://" + addr + "?dial_timeout=1h"}, args...)...)
				select {
				case <-silent:
				case <-time.After(patient):
					require.Fail(t, "the server was asked for nothing")
				}
				require.NoError(t, p.Process.Signal(os.Interrupt))
				p.wait()
				if ok := args[0] == "top" && greets; !ok {
					require.Contains(t, []string{"signal: interrupt", "exit status 130"}, p.ProcessState.String())
				}
				require.Empty(t, p.err.String())
			})
		}
	}
	addr := fake(t, func([]string) string { return "" })
	code, _, text := w.run("--redis", "redis://"+addr+"?dial_timeout=1h", "run", "-w", "100ms", "a", "--", "true")
	require.Equal(t, 69, code)
	require.Equal(t, "holdfast: the server did not answer in time\n", text)
}
