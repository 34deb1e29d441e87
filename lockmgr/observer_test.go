package lockmgr_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/faults/ends"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestObserver(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var events []lockmgr.Event
		m, _ := w.manager(lockmgr.Options{Observer: func(e lockmgr.Event) { events = append(events, e) }})
		l := mustLock(t, m, "a")
		f := m.LockAsync("a")
		mustUnlock(t, l)
		l2 := mustAwait(t, f)
		mustUnlock(t, l2)
		synctest.Wait()
		require.Equal(t, []lockmgr.Event{
			lockmgr.EventGranted{Name: "a", Owner: l.HolderID()},
			lockmgr.EventUnlocked{Name: "a", Owner: l.HolderID()},
			lockmgr.EventGranted{Name: "a", Owner: l2.HolderID(), Passed: true},
			lockmgr.EventReleased{Name: "a"},
			lockmgr.EventUnlocked{Name: "a", Owner: l2.HolderID()},
		}, withoutConnection(events))
	})
}

// withoutConnection leaves out times, and events that concern no lock.
func withoutConnection(events []lockmgr.Event) (out []lockmgr.Event) {
	for _, e := range events {
		switch e := e.(type) {
		case lockmgr.EventSubscription, lockmgr.EventCommand:
		case lockmgr.EventGranted:
			e.At, e.Context, e.Waited = time.Time{}, nil, 0
			out = append(out, e)
		case lockmgr.EventUnlocked:
			e.At, e.Context, e.Held, e.Took = time.Time{}, nil, 0, 0
			out = append(out, e)
		case lockmgr.EventReleased:
			e.At = time.Time{}
			out = append(out, e)
		default:
			out = append(out, e)
		}
	}
	return out
}

// The observer gets one event for each grant, and one for each request that was cancelled.
func TestObserver_Balances(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var granted, failed, unlocked int
		m, _ := w.manager(lockmgr.Options{Observer: func(e lockmgr.Event) {
			switch e.(type) {
			case lockmgr.EventGranted:
				granted++
			case lockmgr.EventFailed:
				failed++
			case lockmgr.EventUnlocked:
				unlocked++
			}
		}})
		const n = 300
		for i := range n {
			f := m.LockAsync("a")
			if i%3 == 0 {
				f.Cancel() // some race their grant
			}
			f.OnDone(func(l *lockmgr.Lock, err error) {
				if err == nil {
					l.UnlockAsync()
				}
			})
		}
		time.Sleep(second)
		mustClose(t, m)
		require.Equal(t, n, granted+failed)
		require.Equal(t, granted, unlocked)
	})
}

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
