package lockmgr_test

import (
	"runtime/debug"
	"testing"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // otherwise the garbage collector takes an eighth of the time
	redistest.Parallel(8)
	leakcheck.Main(m)
}
