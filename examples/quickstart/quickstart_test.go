package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/examples/internal/runtest"
)

func TestRun_Story(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		out := runtest.Run(t, run, append(args, "-pause", "1ms")...)
		runtest.InOrder(t, out,
			"1. One holds",
			"anna     HOLDS the lock, with token 1",
			`ben      tries it: "lockmgr: lock`, `: lock not acquired"`,
			"ben      HOLDS the lock, with token 2",
			"2. The lock is lost",
			"anna     HOLDS the lock, with token 3",
			"ben      writes with token 2: REFUSED",
			"ben      LOST the lock",
			`ben      unlocks: "lockmgr: unlock`, `: lease lost`,
			"3. Closing",
			"not locked, nobody waiting, last token 3",
			"Done in", "3 holders")
	})
}

// Whenever it is interrupted, it gives back what it holds.
func TestRun_Interrupted(t *testing.T) {
	for _, text := range []string{"1. One holds", "tries it", "unlocks", "token 2", "by force", "LOST", "3. Closing"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			runtest.OnServers(t, func(t *testing.T, args []string) {
				out, err := runtest.Interrupt(t, run, text, append(args, "-pause", "1ms")...)
				require.ErrorIs(t, err, context.Canceled)
				require.NotContains(t, out, "Done")
			})
		})
	}
}

func TestRun_NoServer(t *testing.T) {
	url := runtest.Nowhere(t)
	err := run(t.Context(), t.Output(), []string{"-redis", url})
	require.ErrorContains(t, err, "can't use the server at "+url[len("redis://"):])
	require.ErrorContains(t, err, "refused")
	require.ErrorContains(t, err, "Without -redis")
}

func TestStore_RefusesWhatIsStale(t *testing.T) {
	var s store
	require.NoError(t, s.write(1))
	require.NoError(t, s.write(1), "a holder may write more than once")
	require.NoError(t, s.write(7))
	require.ErrorContains(t, s.write(6), "stale")
}
