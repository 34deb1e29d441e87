package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/examples/internal/runtest"
)

func TestRun_OneAtATime(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		out := runtest.Run(t, run, args...)
		runtest.InOrder(t, out, "3 processes.", "leads in term 1\n", "leads in term 2\n", "leads in term 3\n",
			"runs the job for the time no. 1\n", "no. 2\n", "no. 3\n", "Done: each process led once, and the job ran 3 times.")
		for _, process := range []string{"1", "2", "3"} {
			require.Equal(t, 1, strings.Count(out, "process "+process+" leads"), out)
		}
	})
}

func TestRun_Interrupted(t *testing.T) {
	t.Parallel()
	_, err := runtest.Interrupt(t, run, "leads in term 2")
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
