package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/examples/internal/runtest"
)

func TestRun_TakenOver(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		out := runtest.Run(t, run, args...)
		runtest.InOrder(t, out, "3 processes", "begins the job", "the ledger has the run\n", "begins the job", "dies at work\n",
			"begins the job", "the ledger has the run\n", "Done: the ledger has a run of each of 2 intervals.")
		_, after, _ := strings.Cut(out, "the ledger has the run\n")
		untilDeath, afterDeath, _ := strings.Cut(after, "dies at work\n")
		require.Equal(t, 1, strings.Count(untilDeath, "begins the job"), out)
		_, after, _ = strings.Cut(afterDeath, "the ledger has the run\n")
		require.NotContains(t, after, "begins the job", out)
	})
}

func TestRun_Interrupted(t *testing.T) {
	t.Parallel()
	_, err := runtest.Interrupt(t, run, "dies at work")
	require.Error(t, err)
}

func TestRun_NoServer(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), t.Output(), []string{"-redis", runtest.Nowhere(t)}), "Without -redis")
}

func TestRun_FlagsThatMakeNoSense(t *testing.T) {
	for _, n := range []string{"1", "101"} {
		require.ErrorContains(t, run(t.Context(), io.Discard, []string{"-processes", n}), "must be from")
	}
}
