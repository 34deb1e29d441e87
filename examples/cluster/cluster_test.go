package main

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/examples/internal/runtest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestRun_LocksSurviveAFailover(t *testing.T) {
	redistest.Need(t)
	out := runtest.Run(t, run, "-locks", "60", "-calm", "300ms")
	runtest.InOrder(t, out, "3 masters, each with a replica", "60 locks are held", "60 of 60 locks are held", "is killed",
		"has taken over", "60 of 60 locks are held", "Done: 60 of 60 locks survived")
}

func TestRun_Interrupted(t *testing.T) {
	redistest.Need(t)
	_, err := runtest.Interrupt(t, run, "locks are held; slowest", "-locks", "10", "-calm", "1h")
	require.ErrorIs(t, err, context.Canceled)
}

func TestRun_FlagsThatMakeNoSense(t *testing.T) {
	for _, args := range [][]string{{"-locks", "0"}, {"-calm", "0s"}} {
		require.ErrorContains(t, run(t.Context(), io.Discard, args), "must be positive")
	}
}
