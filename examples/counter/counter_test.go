package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/examples/internal/runtest"
)

func TestRun_InTheOrderOfArrival(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		out := runtest.Run(t, run, args...)
		runtest.InOrder(t, out, "12 customers of two shops, and one counter.", "12 customers wait. Customer 1 loses patience and leaves.",
			"customer 0 of shop 1", "customer 2 of shop 1", "customer 3 of shop 1", "customer 4 of shop 2", "customer 11 of shop",
			"Done: 11 customers were served in the order in which they came.")
		require.NotContains(t, out, "customer 1 of")
	})
}

func TestRun_NoServer(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), t.Output(), []string{"-redis", runtest.Nowhere(t)}), "Without -redis")
}

func TestRun_FlagsThatMakeNoSense(t *testing.T) {
	for _, n := range []string{"1", "1001"} {
		require.ErrorContains(t, run(t.Context(), io.Discard, []string{"-customers", n}), "must be from")
	}
}
