package soak

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == WorkerArg {
		Worker(os.Stdin, os.Stdout) // the tests start workers too
		os.Exit(0)
	}
	leakcheck.Main(m)
}
