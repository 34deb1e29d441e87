package main

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/examples/internal/cli"
	"github.com/holdfast-go/holdfast/examples/internal/runtest"
	"github.com/holdfast-go/holdfast/examples/internal/server"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestRun_Report(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		out := runtest.Run(t, run, append(args, "-workers", "200", "-names", "20", "-for", "500ms")...)
		runtest.InOrder(t, out,
			"200 workers share 20 locks for 500ms",
			"grants", "passed in memory", "scripts sent", "wait, median", "wait, 99 %",
			"locks lost                    0",
			"held twice                    0",
			"Done: no lock was ever held by two workers at once.")
		require.NotContains(t, out, "\r", "no animation where there is no terminal")
		require.NotContains(t, out, "\x1b")
	})
}

// Who is interrupted still sees what was counted until then.
func TestRun_Interrupted(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		out, err := runtest.Interrupt(t, run, "Server:", append(args, "-for", "1h")...)
		require.NoError(t, err)
		runtest.InOrder(t, out, "scripts sent", "Stopped early: no lock was ever held by two workers at once.")
	})
}

func TestRun_NoServer(t *testing.T) {
	err := run(t.Context(), t.Output(), []string{"-redis", runtest.Nowhere(t)})
	require.ErrorContains(t, err, "Without -redis")
}

func TestRun_FlagsThatMakeNoSense(t *testing.T) {
	for _, args := range [][]string{{"-workers", "0"}, {"-names", "0"}, {"-for", "0s"}, {"-hold", "-1s"}} {
		require.ErrorContains(t, run(t.Context(), io.Discard, args), "must be positive")
	}
	require.IsType(t, cli.Usage("wrong"), run(t.Context(), io.Discard, []string{"-names", "-1"}))
}

// The check itself has to find what it looks for: here, somebody who is there under another lock.
func TestCheck_FindsTwoAtOnce(t *testing.T) {
	srv, err := server.Open("")
	require.NoError(t, err)
	defer srv.Close()
	m, err := lockmgr.Dial(srv.Option(), lockmgr.Options{})
	require.NoError(t, err)
	defer m.Close(t.Context())

	f := newFleet(m, 1, 0)
	require.NoError(t, f.work(t.Context(), 0))
	require.Zero(t, f.overlaps.Load())

	other, err := m.Lock(t.Context(), "another name")
	require.NoError(t, err)
	f.holders[0].Store(other)
	require.NoError(t, f.work(t.Context(), 0))
	require.EqualValues(t, 1, f.overlaps.Load())

	// One who has lost the lock, and does not know yet, is no second holder.
	_, err = m.ForceUnlock(t.Context(), "another name")
	require.NoError(t, err)
	<-other.Lost()
	f.holders[0].Store(other)
	require.NoError(t, f.work(t.Context(), 0))
	require.EqualValues(t, 1, f.overlaps.Load())
}

func TestProgress_NeedsATerminal(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer f.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	showProgress(ctx, f, time.Hour, func() string { return "text" })
	require.NoError(t, ctx.Err(), "it returns at once")
	info, err := f.Stat()
	require.NoError(t, err)
	require.Zero(t, info.Size())
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		require.Equal(t, want, count(n))
	}
}
