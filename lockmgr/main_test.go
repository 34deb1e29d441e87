package lockmgr_test

import (
	"runtime/debug"
	"testing"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // an eighth of these tests' time goes to the collector otherwise
	redistest.Parallel(8)
	leakcheck.Main(m)
}
