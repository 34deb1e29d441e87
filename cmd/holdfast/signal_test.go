//go:build unix

package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
