package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/examples/internal/runtest"
)

func TestRun_NobodySeesHalfAChange(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		out := runtest.Run(t, run, append(args, "-readers", "20", "-every", "20ms", "-for", "500ms")...)
		runtest.InOrder(t, out, "20 readers and a writer share a price list for 500ms", "reads", "changes", "scripts in all",
			"Done: no reader saw half a change.")
	})
}

func TestRun_Interrupted(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		out, err := runtest.Interrupt(t, run, "Server:", append(args, "-for", "1h")...)
		require.NoError(t, err)
		require.Contains(t, out, "Done: no reader saw half a change.")
	})
}

func TestRun_NoServer(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), t.Output(), []string{"-redis", runtest.Nowhere(t)}), "Without -redis")
}

func TestRun_FlagsThatMakeNoSense(t *testing.T) {
	for _, args := range [][]string{{"-readers", "0"}, {"-every", "0s"}, {"-for", "0s"}} {
		require.ErrorContains(t, run(t.Context(), io.Discard, args), "must be positive")
	}
}
