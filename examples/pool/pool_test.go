package main

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/examples/internal/runtest"
)

func TestRun_NoneLost(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		out := runtest.Run(t, run, append(args, "-jobs", "5000")...)
		runtest.InOrder(t, out, "1000 goroutines, 5000 jobs, 200 keys.", "Done: 5000 jobs were counted, none was lost.")
	})
}

func TestRun_Interrupted(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		_, err := runtest.Interrupt(t, run, "Server:", append(args, "-jobs", "1000000000")...)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestRun_NoServer(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), t.Output(), []string{"-redis", runtest.Nowhere(t)}), "Without -redis")
}

func TestRun_FlagsThatMakeNoSense(t *testing.T) {
	for _, flag := range []string{"-goroutines", "-jobs", "-keys"} {
		require.ErrorContains(t, run(t.Context(), io.Discard, []string{flag, "0"}), "must be positive")
	}
}
