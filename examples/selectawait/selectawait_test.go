package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/examples/internal/runtest"
)

func TestRun_Story(t *testing.T) {
	t.Parallel()
	runtest.OnServers(t, func(t *testing.T, args []string) {
		out := runtest.Run(t, run, append(args, "-pause", "0s")...)
		runtest.InOrder(t, out,
			"1. A future in a select",
			"Cancel() is true", `: cancelled"`, "cleo     holds the lock: it passed ben by",
			"2. A Cancel that comes too late",
			"the lock has come: Cancel() is true", "cleo     holds the lock, so it was given back",
			"her own Cancel() is false", "valid is true",
			"3. Time-outs",
			`Await(ctx) with a time-out: "lockmgr: lock`, `it was not free: context deadline exceeded (waited `,
			`MaxWait(300ms): "lockmgr: lock`, `: lock not acquired: wait timed out: it was not free (waited `,
			`TryLock, which never waits: "lockmgr: lock`, `: lock not acquired"`,
			"4. Callbacks", "1000 callbacks wait", "each of them has had the lock",
			"5. futures.All", "cleo     holds red and green",
			"6. futures.Any", "ben      holds green",
			"7. Work that stops",
			"Lost() ends her loop", "Context() ends her query", `Unlock: "lockmgr: unlock`, `: lease lost`,
			"Done in", "nothing held, nobody waiting")
	})
}

// Whichever scene is interrupted, nothing stays behind.
func TestRun_Interrupted(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"cleo waits", "dora", "callbacks wait", "holds blue", "either", "not longer"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			runtest.OnServers(t, func(t *testing.T, args []string) {
				_, err := runtest.Interrupt(t, run, text, append(args, "-pause", "0s")...)
				require.ErrorIs(t, err, context.Canceled)
			})
		})
	}
}

func TestRun_NoServer(t *testing.T) {
	err := run(t.Context(), t.Output(), []string{"-redis", runtest.Nowhere(t)})
	require.ErrorContains(t, err, "Without -redis")
}
