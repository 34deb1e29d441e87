package check

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrite_StaleAndRefusedIsAllRight(t *testing.T) {
	var w Writes
	require.Nil(t, w.AddWrite(&Write{Hold: 1, Token: 1, Before: 10, After: 11}))
	require.Equal(t, 1, w.Refused)
	require.Zero(t, w.Unjust)
}

func TestWrite_OfAValidHolderRefusedIsFound(t *testing.T) {
	var w Writes
	require.NotNil(t, w.AddWrite(&Write{Hold: 1, Token: 1, Before: 10, After: 11, Valid: true}))
	require.Equal(t, 1, w.Unjust)
}

func TestWrite_AcceptedInAnothersReignIsFound(t *testing.T) {
	reign := func() *Hold { h := kept(1, 100, 200); h.Wrote = 120; return h }
	for name, c := range map[string]struct {
		hold          uint64
		before, after int64
		caught        bool
	}{
		"within":                   {2, 130, 131, true},
		"at its begin":             {2, 120, 121, true},
		"at its end":               {2, 199, 200, true},
		"its own":                  {1, 130, 131, false},
		"before its first write":   {2, 110, 111, false},
		"begun before that":        {2, 119, 130, false},
		"after it":                 {2, 201, 202, false},
		"returned after it":        {2, 199, 201, false},
		"long before, and in time": {2, 50, 60, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, holdFirst := range []bool{true, false} { // as they may be reported
				var w Writes
				x := &Write{Hold: c.hold, Before: c.before, After: c.after, Accepted: true}
				var found bool
				if holdFirst {
					require.Nil(t, w.AddHold(reign()))
					found = w.AddWrite(x) != nil
				} else {
					require.Nil(t, w.AddWrite(x))
					found = w.AddHold(reign()) != nil
				}
				require.Equal(t, c.caught, found)
				require.Equal(t, c.caught, w.Overlaps == 1)
			}
		})
	}
}

func TestWrite_ReignBeginsWithTheFirstAccepted(t *testing.T) {
	var w Writes
	require.Nil(t, w.AddHold(kept(1, 100, 200)), "it never wrote")
	require.Nil(t, w.AddWrite(&Write{Hold: 2, Before: 130, After: 131, Accepted: true, Late: true}))
	require.Zero(t, w.Overlaps)
	require.Equal(t, 1, w.LateAccepted)
}

func TestWrite_FoundBehindItsOwnReign(t *testing.T) {
	var w Writes
	one, two := kept(1, 100, 200), kept(2, 110, 190)
	one.Wrote, two.Wrote = 105, 115
	w.AddHold(one)
	w.AddHold(two)
	require.NotNil(t, w.AddWrite(&Write{Hold: 2, Before: 130, After: 131, Accepted: true}))
}
