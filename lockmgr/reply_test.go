package lockmgr

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A record that lives for longer than a time.Duration can tell is not one that
// has no end, nor one that is over.
func TestALifeOfThousandsOfYears(t *testing.T) {
	for _, ms := range []int64{math.MaxInt64, math.MaxInt64 / 1000, 18446744073710} {
		a := answer{kind: answerInt, n: ms}
		r := a.reply(&core.Op{Kind: core.KindAcquire})
		require.Greater(t, r.TTL, core.Forever/2, "%d", ms)
	}
	a := answer{kind: answerInt, n: -1}
	require.Negative(t, a.reply(&core.Op{Kind: core.KindAcquire}).TTL)
}
