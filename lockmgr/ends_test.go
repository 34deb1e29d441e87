package lockmgr_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/faults/ends"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// However a hold ends, the statistics, the events and the log lines tell the same of it. A loss is
// told once. The EventUnlocked of a lost hold comes after its EventLost.
func TestEnds_ToldTheSameEverywhere(t *testing.T) {
	t.Parallel()
	ends.Each(t, func(t *testing.T, o *lockmgr.Options) func(*lockmgr.Manager, ends.Counts) {
		witness, log := faults.NewWitness(), new(lockedBuffer)
		o.Observer, o.Logger = witness.Observe, slog.New(slog.NewTextHandler(log, nil))
		return func(m *lockmgr.Manager, want ends.Counts) { requireTold(t, m, witness, log.String(), want) }
	})
}

func requireTold(t *testing.T, m *lockmgr.Manager, witness *faults.Witness, log string, want ends.Counts) {
	var events ends.Counts
	lost := map[string]bool{}
	faults.Count(witness, func(e lockmgr.Event) bool {
		switch e := e.(type) {
		case lockmgr.EventGranted:
			if e.Reentry {
				events.Reentered++
			} else {
				events.Granted++
			}
		case lockmgr.EventFailed:
			events.Failed++
		case lockmgr.EventLost:
			lost[e.Owner] = true
			if errors.Is(e.Err, lockmgr.ErrClosed) {
				events.Closed++
			} else {
				events.Lost++
			}
		case lockmgr.EventUnlocked:
			if errors.Is(e.Err, lockmgr.ErrLeaseLost) || errors.Is(e.Err, lockmgr.ErrClosed) {
				require.True(t, lost[e.Owner], "the loss is told first")
			} else {
				events.Unlocked++
			}
		}
		return true
	})
	require.Equal(t, want, events)
	stats := m.Stats()
	require.EqualValues(t, want.Lost+want.Closed, stats.Losses)
	require.EqualValues(t, want.Reentered, stats.Reentries)
	require.Equal(t, want.Lost, strings.Count(log, `msg="lock lost"`), log)
}
