package server_test

import (
	"flag"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// See doc.go for what they make of a run.
var (
	gaps    = flag.Int("gaps", 5, "how often each kind of connection is killed under a waiter")
	pauses  = flag.Int("pauses", 4, "how often a process is stopped for longer than its lease")
	waiters = flag.Int("waiters", 50, "waiters in each of the 8 processes whose holder is killed")
	flood   = flag.Int("flood", 50_000, "messages on the channel of one lock")
	locks   = flag.Int("locks", 300, "locks that are held when the server runs out of memory")
)

func TestMain(m *testing.M) {
	if role := os.Getenv(envRole); role != "" {
		beChild(role)
	}
	redistest.Parallel(12)
	leakcheck.Main(m)
}
