package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/examples/internal/runtest"
)

func TestRun(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		runtest.InOrder(t, runtest.Run(t, run, args...), "This process has the lock hello as ")
	})
}

func TestRun_NoServer(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), t.Output(), []string{"-redis", runtest.Nowhere(t)}), "Without -redis")
}
