package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/examples/internal/runtest"
)

func TestRun_NeverMoreThanPermits(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		out := runtest.Run(t, run, append(args, "-for", "2s")...)
		runtest.InOrder(t, out, "12 clerks of two services, and 3 permits.", "it is given back", "its export was told",
			"the nightly export got all 3 permits", "exports, at most 3 permits in use at a time", "Done: there were never more permits in use")
	})
}

func TestRun_Interrupted(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		out, err := runtest.Interrupt(t, run, "its export was told", append(args, "-for", "1h")...)
		require.NoError(t, err)
		require.Contains(t, out, "Done: there were never more permits in use")
	})
}

func TestRun_NoServer(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), t.Output(), []string{"-redis", runtest.Nowhere(t)}), "Without -redis")
}

func TestRun_FlagsThatMakeNoSense(t *testing.T) {
	for _, args := range [][]string{{"-limit", "0"}, {"-limit", "257"}, {"-clerks", "0"}, {"-for", "0s"}} {
		require.ErrorContains(t, run(t.Context(), io.Discard, args), "must be positive")
	}
}
