package check

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func believed(h *Hold) []int64 {
	from, to := h.Believed()
	return []int64{from, to}
}

// Each end of an interval is the reading that makes it shorter.
func TestBelief_IsTheShorterReading(t *testing.T) {
	h := Hold{Asked: 5}
	require.True(t, h.Sample(10, 12, 100))
	require.True(t, h.Unlocking(50, 53, 60))
	h.Finish(70, true)
	require.Equal(t, []int64{12, 50}, believed(&h), "after the first call, before the last")
	require.Equal(t, Released, h.How)
}

func TestBelief_LastsAsLongAsTheClaim(t *testing.T) {
	h := Hold{Asked: 5}
	h.Sample(10, 12, 100) // valid until 110 at least
	require.False(t, h.Sample(200, 201, 0))
	require.Equal(t, []int64{12, 110}, believed(&h), "whoever was stopped from 12 to 200 believed until 110")
	require.Equal(t, Lost, h.How)
	require.False(t, h.Early)
}

func TestBelief_EndsWithAnEarlyLoss(t *testing.T) {
	h := Hold{Asked: 5}
	h.Sample(10, 12, 100)
	h.Sample(40, 41, 70)
	h.Lose(60)
	require.Equal(t, []int64{12, 40}, believed(&h))
	require.True(t, h.Early)
	h.Lose(200) // news of the same loss
	require.True(t, h.Early)
	require.False(t, h.Unlocking(210, 211, 0))
	h.Finish(220, false)
	require.Equal(t, Lost, h.How, "unlock comes too late to count")
}

func TestBelief_EndsWithTheUnlock(t *testing.T) {
	h := Hold{Asked: 5}
	h.Sample(10, 12, 100)
	h.Unlocking(20, 21, 90)
	h.Finish(30, false)
	require.Equal(t, []int64{12, 20}, believed(&h))
	require.Equal(t, Unknown, h.How)
}

func TestBelief_GoesOnAfterALateRenewal(t *testing.T) {
	h := Hold{Asked: 5}
	h.Sample(10, 12, 100)
	h.Sample(115, 116, 0)
	h.Sample(130, 131, 80)
	h.Unlocking(150, 151, 60)
	h.Finish(160, true)
	require.Equal(t, []int64{12, 150}, believed(&h))
	require.Equal(t, Released, h.How)
}

func TestBelief_OfAKilledProcess(t *testing.T) {
	h := Hold{Asked: 5}
	h.Sample(10, 12, 100)
	h.Sample(40, 41, 70)
	require.Equal(t, []int64{12, 40}, believed(&h), "it may have unlocked after that")
}

func TestBelief_NoneOfAHoldThatWasNeverValid(t *testing.T) {
	h := Hold{Asked: 5}
	require.False(t, h.Sample(10, 12, -1))
	h.Finish(20, false)
	from, to := h.Believed()
	require.LessOrEqual(t, to, from)
	require.Equal(t, Lost, h.How)
}
