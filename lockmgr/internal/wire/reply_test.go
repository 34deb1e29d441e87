package wire

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A TTL that exceeds a time.Duration is not read as a record without an end, nor as
// one that has ended.
func TestRecord_OfThousandsOfYears(t *testing.T) {
	op := &core.Op{Verb: core.VerbAcquire}
	for _, ms := range []int64{math.MaxInt64, math.MaxInt64 / 1000, 18446744073710} {
		r := Decode(op, &Answer{Kind: Int, Int: ms}, fail)
		require.Greater(t, r.TTL, core.Forever/2, "%d", ms)
	}
	require.Negative(t, Decode(op, &Answer{Kind: Int, Int: -1}, fail).TTL)
}

// The reply to a renewal has a result for each lease: the first was renewed, the
// second is lost, the third could not be renewed and may be tried again.
func TestRenewal_TellsOfEachLease(t *testing.T) {
	b := batchOf(tasks(renewal("a", 1), renewal("b", 2), renewal("c", 3)))
	refused := Answer{Kind: Array, Array: []Answer{{Kind: Int, Int: 3}, {Kind: Text, Text: "OOM command not allowed"}}}
	b.answers[0] = Answer{Kind: Array, Array: []Answer{{Kind: Int, Int: 2}, refused}}
	r := replies(b)
	require.Equal(t, []core.Ran{core.Yes, core.Yes, core.No}, []core.Ran{r[0].Ran, r[1].Ran, r[2].Ran})
	require.True(t, r[0].OK)
	require.False(t, r[1].OK)
	require.Equal(t, OutOfMemory, b.answer(&b.tasks[2]).Failure.Kind)
}
