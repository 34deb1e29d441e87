package network

import (
	"flag"
	"testing"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
)

var rounds = flag.Int("rounds", 1, "play the scene so often for each position")

func TestMain(m *testing.M) {
	flag.Parse()
	// Most of what these tests do is to wait, for leases to end and the like.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("16")
	}
	leakcheck.Main(m)
}
