package wire

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A TTL that exceeds a time.Duration is not read as a record without an end, nor as one that has
// ended.
func TestRecord_OfThousandsOfYears(t *testing.T) {
	op := &core.Op{Verb: core.VerbAcquire}
	for _, ms := range []int64{math.MaxInt64, math.MaxInt64 / 1000, 18446744073710} {
		r := Decode(op, &Answer{Kind: Int, Int: ms}, fail)
		require.Greater(t, r.TTL, core.Forever/2, "%d", ms)
	}
	require.Negative(t, Decode(op, &Answer{Kind: Int, Int: -1}, fail).TTL)
}

// The reply to a renewal has a result for each lease: the first was renewed, the second is lost,
// the third could not be renewed and may be tried again.
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

// A release that joins the line says what the manager wants of the line, and shares no command. The
// reply says whether the manager has joined.
func TestRelease_JoinsTheLine(t *testing.T) {
	op := released("a", 1)
	op.ID, op.Lined, op.Waits = 7, true, lease
	op.PlaceOp = &core.PlaceOp{Join: []uint64{5}, Secret: "5ec7e7", GrantLease: lease}
	b := batchOf(tasks(op, released("b", 2)))
	require.Len(t, b.commands, 2)
	require.Equal(t, "u 7 "+millis(lease)+"  5 0 "+millis(lease)+" 5ec7e7 0", b.commands[0].Args[0])
	for last, joined := range map[int64]bool{1: false, 2: true} {
		r := Decode(op, ints(0, last), fail)
		require.Equal(t, []bool{true, true, joined}, []bool{r.OK, r.HandedOn, r.Joined})
	}
}
