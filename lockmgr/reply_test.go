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

// A renewal tells of each lease by itself: the first was renewed, the second is
// lost, the third could not be renewed and may be tried again.
func TestARenewalTellsOfEachLease(t *testing.T) {
	batch := &core.Renewal{Entries: make([]core.RenewalEntry, 3)}
	refused := answer{kind: answerArray, array: []answer{{kind: answerInt, n: 3}, {kind: answerText, text: "OOM command not allowed"}}}
	a := answer{kind: answerArray, array: []answer{{kind: answerInt, n: 2}, refused}}
	a.renewed(batch)
	first, second, third := batch.Entries[0], batch.Entries[1], batch.Entries[2]
	require.Equal(t, core.Yes, first.Ran)
	require.False(t, first.Lost)
	require.Equal(t, core.Yes, second.Ran)
	require.True(t, second.Lost)
	require.NotEqual(t, core.Yes, third.Ran)
	require.False(t, third.Lost)
	require.ErrorIs(t, third.Err, ErrOutOfMemory)
}
