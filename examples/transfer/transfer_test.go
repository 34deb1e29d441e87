package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/examples/internal/runtest"
	"github.com/holdfast-go/holdfast/examples/internal/server"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestRun_TheTotalStays(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		out := runtest.Run(t, run, append(args, "-accounts", "4", "-for", "500ms")...)
		runtest.InOrder(t, out, "20 clerks in two offices move money between 4 accounts for 500ms",
			"to an account with a higher number", "scripts in all", "total 4000",
			"Done: the total is what it was, and nobody waited in a circle.")
		require.NotRegexp(t, `\b0 (transfers|to one with a lower)`, out, "both ways")
	})
}

func TestRun_Interrupted(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		out, err := runtest.Interrupt(t, run, "Server:", append(args, "-for", "1h")...)
		require.NoError(t, err)
		require.Contains(t, out, "Done: the total is what it was")
	})
}

func TestRun_NoServer(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), t.Output(), []string{"-redis", runtest.Nowhere(t)}), "Without -redis")
}

func TestRun_FlagsThatMakeNoSense(t *testing.T) {
	for _, args := range [][]string{{"-accounts", "1"}, {"-clerks", "0"}, {"-for", "0s"}} {
		require.ErrorContains(t, run(t.Context(), io.Discard, args), "must be positive")
	}
}

func TestLedger_RefusesAllIfOneIsStale(t *testing.T) {
	l := newLedger(2, 10)
	require.NoError(t, l.write(change{0, 9, 1}, change{1, 11, 5}))
	require.NoError(t, l.write(change{0, 8, 1}, change{1, 12, 5}), "a holder may write more than once")
	require.ErrorContains(t, l.write(change{0, 7, 2}, change{1, 13, 4}), "stale: token 4 for account 1, but 5")
	require.Equal(t, int64(8), l.balance(0), "not half of it")
	require.Equal(t, int64(20), l.total())
}

// The check has to find what it looks for: here, a clerk who has lost both locks.
func TestTransfer_OfALostLockIsRefused(t *testing.T) {
	srv, err := server.Open("")
	require.NoError(t, err)
	defer srv.Close()
	m, err := lockmgr.Dial(srv.Option(), lockmgr.Options{})
	require.NoError(t, err)
	defer m.Close(t.Context())
	b := &bank{ledger: newLedger(2, 10), names: []string{"a", "b"}}

	slow, err := m.LockAll(t.Context(), lockmgr.All(b.names...), lockmgr.Fenced())
	require.NoError(t, err)
	_, err = m.ForceUnlock(t.Context(), "a")
	require.NoError(t, err)
	<-slow.Lost()
	require.NoError(t, b.transfer(t.Context(), m, 0, 1, 3))
	require.Equal(t, int64(7), b.ledger.balance(0))
	err = b.ledger.write(change{0, 5, slow.TokenOf("a")}, change{1, 15, slow.TokenOf("b")})
	require.ErrorContains(t, err, "stale")
	require.Equal(t, int64(20), b.ledger.total())

	// An empty account gives nothing.
	require.NoError(t, b.transfer(t.Context(), m, 0, 1, 8))
	require.Equal(t, int64(7), b.ledger.balance(0))
}
