// Package ends lists the ways in which a hold ends, with the number of grants, unlocks and losses
// of each. Tests compare these numbers with the statistics, events, log lines, metrics and spans.
package ends

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Counts are how often each thing must be told.
type Counts struct {
	Granted   int // without re-entries
	Reentered int
	Failed    int // requests without a grant
	Unlocked  int // handles whose hold was not lost
	Lost      int // holds, without those that Close ended
	Closed    int // holds that Close ended
}

// A Way is one in which holds end.
type Way struct {
	Name string
	Counts
	// Soon is set if a renewal must come soon.
	Soon bool
	// Run makes holds and ends them.
	Run func(w *World)
}

// A World is a server and a manager, whose locks have names that begin with "a:".
type World struct {
	*testing.T
	*lockmgr.Manager
	Server *redistest.Server
}

// Each runs a test for each way. listen sets the observer and the logger of a manager. After the
// manager was closed, the function that listen returned compares what they were told with the
// counts.
func Each(t *testing.T, listen func(t *testing.T, o *lockmgr.Options) (told func(m *lockmgr.Manager, want Counts))) {
	for _, way := range ways() {
		t.Run(way.Name, func(t *testing.T) {
			t.Parallel()
			w := &World{T: t, Server: redistest.Start(t).Unrestricted()}
			o := lockmgr.Options{CommandTimeout: 300 * time.Millisecond, RetryTime: 300 * time.Millisecond, Anonymous: true}
			if way.Soon {
				o.Lease = time.Second
			}
			told := listen(t, &o)
			m := redistest.Must(lockmgr.DialURL("redis://"+w.Server.Addr(), o))(t)
			w.Manager = m
			defer func() { _ = m.Close(context.Background()) }()
			way.Run(w)
			_ = m.Close(faults.Patient(t))
			require.Zero(t, m.Stats().Held)
			told(m, way.Counts)
		})
	}
}

// ways returns all ways.
func ways() []Way {
	return []Way{
		{Name: "unlocked", Counts: Counts{Granted: 1, Unlocked: 1}, Run: func(w *World) {
			w.unlocks(w.lock())
		}},
		{Name: "a re-entry unlocked", Counts: Counts{Granted: 1, Reentered: 1, Unlocked: 2}, Run: func(w *World) {
			l, again := w.reentered()
			w.unlocks(again)
			w.unlocks(l)
		}},
		{Name: "passed in memory", Counts: Counts{Granted: 2, Unlocked: 2}, Run: func(w *World) {
			l, next := w.lock(), w.LockAsync("a:1")
			w.unlocks(l)
			w.unlocks(faults.Await(w, next))
		}},
		{Name: "lost by a renewal", Soon: true, Counts: Counts{Granted: 1, Lost: 1}, Run: func(w *World) {
			l := w.lock()
			w.remove("a:1")
			faults.AwaitLost(w, l)
			w.finds(l, lockmgr.ErrLeaseLost)
		}},
		{Name: "a re-entry lost by a renewal", Soon: true, Counts: Counts{Granted: 1, Reentered: 1, Lost: 1}, Run: func(w *World) {
			l, again := w.reentered()
			w.remove("a:1")
			faults.AwaitLost(w, l)
			w.finds(again, lockmgr.ErrLeaseLost)
			w.finds(l, lockmgr.ErrLeaseLost)
		}},
		foundByUnlock("found by Unlock"),
		{Name: "found by the Unlock of a re-entry", Counts: Counts{Granted: 1, Reentered: 1, Unlocked: 1, Lost: 1}, Run: func(w *World) {
			l, again := w.reentered()
			w.remove("a:1")
			w.unlocks(l)
			w.finds(again, lockmgr.ErrLeaseLost)
		}},
		{Name: "found by Do", Counts: Counts{Granted: 1, Lost: 1}, Run: func(w *World) {
			err := w.Do(w.Context(), "a:1", func(context.Context, *lockmgr.Lock) error {
				w.remove("a:1")
				return nil
			})
			require.ErrorIs(w, err, lockmgr.ErrLeaseLost)
		}},
		{Name: "found by Extend", Counts: Counts{Granted: 1, Lost: 1}, Run: func(w *World) {
			l := w.lock()
			w.remove("a:1")
			require.ErrorIs(w, l.Extend(faults.Patient(w), time.Minute), lockmgr.ErrLeaseLost)
			w.finds(l, lockmgr.ErrLeaseLost)
		}},
		foundByUnlock("found by Unlock with KeepFor", lockmgr.KeepFor(time.Hour)),
		foundByUnlock("found by the Unlock of a fair lock", lockmgr.Fair()),
		{Name: "found by the Unlock of the last reader", Counts: Counts{Granted: 2, Unlocked: 1, Lost: 1}, Run: func(w *World) {
			one, two := w.lock(lockmgr.Shared()), w.lock(lockmgr.Shared())
			w.remove("a:1")
			w.unlocks(one)
			w.finds(two, lockmgr.ErrLeaseLost)
		}},
		{Name: "readers lost by a renewal", Soon: true, Counts: Counts{Granted: 2, Lost: 2}, Run: func(w *World) {
			one, two := w.lock(lockmgr.Shared()), w.lock(lockmgr.Shared())
			w.remove("a:1")
			faults.AwaitLost(w, one)
			faults.AwaitLost(w, two)
		}},
		foundByUnlock("found by the Unlock of a writer", lockmgr.Exclusive()),
		{Name: "the record is of another", Counts: Counts{Granted: 1, Lost: 1}, Run: func(w *World) {
			l := w.lock()
			w.remove("a:1")
			faults.Do(w, w.Server, "HSET", "a:1", "another", "1")
			w.finds(l, lockmgr.ErrLeaseLost)
		}},
		{Name: "a set unlocked", Counts: Counts{Granted: 1, Unlocked: 1}, Run: func(w *World) {
			w.unlocks(w.lockSet())
		}},
		{Name: "a set with one item gone", Counts: Counts{Granted: 1, Lost: 1}, Run: func(w *World) {
			l := w.lockSet()
			w.remove("a:2")
			w.finds(l, lockmgr.ErrLeaseLost)
		}},
		{Name: "a permit unlocked", Counts: Counts{Granted: 1, Unlocked: 1}, Run: func(w *World) {
			l := redistest.Must(w.Permits("a:p", 3).Acquire(w.Context(), 2))(w)
			w.unlocks(l)
		}},
		{Name: "a permit returned by its ID", Counts: Counts{Granted: 1, Lost: 1}, Run: func(w *World) {
			l := redistest.Must(w.Permits("a:p", 3).Acquire(w.Context(), 2))(w)
			other := redistest.Must(lockmgr.DialURL("redis://"+w.Server.Addr(), lockmgr.Options{Anonymous: true}))(w)
			faults.CloseAtEnd(w, other)
			returned := redistest.Must(other.Permits("a:p", 3).Return(w.Context(), l.PermitIDs()[0]))(w)
			require.True(w, returned)
			w.finds(l, lockmgr.ErrLeaseLost)
		}},
		{Name: "its fixed lease is over", Counts: Counts{Granted: 1, Lost: 1}, Run: func(w *World) {
			l := w.lock(lockmgr.FixedLease(200 * time.Millisecond))
			faults.AwaitLost(w, l)
			w.finds(l, lockmgr.ErrLeaseLost)
		}},
		{Name: "its MaxHold is over", Counts: Counts{Granted: 1, Lost: 1}, Run: func(w *World) {
			l := w.lock(lockmgr.MaxHold(200 * time.Millisecond))
			faults.AwaitLost(w, l)
		}},
		{Name: "lost at its deadline", Soon: true, Counts: Counts{Granted: 1, Lost: 1}, Run: func(w *World) {
			l := w.lock()
			w.Server.Freeze()
			faults.AwaitLost(w, l)
			w.Server.Thaw()
		}},
		{Name: "forced", Counts: Counts{Granted: 1, Lost: 1}, Run: func(w *World) {
			l := w.lock()
			forced := redistest.Must(w.ForceUnlock(w.Context(), "a:1"))(w)
			require.True(w, forced)
			faults.AwaitLost(w, l)
			w.finds(l, lockmgr.ErrLeaseLost)
		}},
		{Name: "found by the transfer to the next request", Counts: Counts{Granted: 2, Unlocked: 1, Lost: 1}, Run: func(w *World) {
			l, next := w.lock(), w.LockAsync("a:1")
			faults.Eventually(w, func() bool { return w.Stats().Waiting == 1 })
			w.remove("a:1")
			w.finds(l, lockmgr.ErrLeaseLost)
			w.unlocks(faults.Await(w, next))
		}},
		{Name: "KeepFor left", Counts: Counts{Granted: 1, Unlocked: 1}, Run: func(w *World) {
			w.unlocks(w.lock(lockmgr.KeepFor(time.Minute)))
		}},
		{Name: "cancelled before the grant", Counts: Counts{Granted: 1, Failed: 1, Unlocked: 1}, Run: func(w *World) {
			l := w.lock()
			w.LockAsync("a:1").Cancel()
			w.unlocks(l)
		}},
		{Name: "given back by a cancel", Counts: Counts{Granted: 1, Unlocked: 1}, Run: func(w *World) {
			f := w.LockAsync("a:1")
			faults.AwaitClosed(w, f.Done(), "the grant")
			f.Cancel()
			faults.Eventually(w, func() bool { return w.Stats().Locks == 0 })
		}},
		{Name: "given back by a cancel, and gone", Counts: Counts{Granted: 1, Lost: 1}, Run: func(w *World) {
			f := w.LockAsync("a:1")
			faults.AwaitClosed(w, f.Done(), "the grant")
			w.remove("a:1")
			f.Cancel()
			faults.Eventually(w, func() bool { return w.Stats().Locks == 0 })
		}},
		{Name: "never taken", Counts: Counts{Granted: 1, Closed: 1}, Run: func(w *World) {
			faults.AwaitClosed(w, w.LockAsync("a:1").Done(), "the grant")
		}},
		{Name: "closed", Counts: Counts{Granted: 1, Closed: 1}, Run: func(w *World) {
			l := w.lock()
			require.NoError(w, w.Close(faults.Patient(w)))
			w.finds(l, lockmgr.ErrClosed)
		}},
		{Name: "closed before its Unlock was answered", Counts: Counts{Granted: 1, Closed: 1}, Run: func(w *World) {
			l := w.lock()
			w.Server.Freeze()
			unlocked := l.UnlockAsync()
			ended, end := context.WithCancel(w.Context())
			end()
			require.ErrorIs(w, w.Close(ended), context.Canceled)
			_, err := unlocked.Await(faults.Patient(w))
			require.ErrorIs(w, err, lockmgr.ErrClosed)
			w.Server.Thaw()
		}},
		{Name: "its Unlock got no answer", Counts: Counts{Granted: 1, Unlocked: 1}, Run: func(w *World) {
			l := w.lock()
			w.Server.Freeze()
			w.finds(l, lockmgr.ErrUnavailable)
			w.Server.Thaw()
			faults.Eventually(w, func() bool { return w.Stats().Locks == 0 })
		}},
	}
}

// foundByUnlock is a way in which Unlock finds that the record is gone.
func foundByUnlock(name string, opts ...lockmgr.LockOption) Way {
	return Way{Name: name, Counts: Counts{Granted: 1, Lost: 1}, Run: func(w *World) {
		l := w.lock(opts...)
		w.remove("a:1")
		w.finds(l, lockmgr.ErrLeaseLost)
		faults.AwaitLost(w, l)
	}}
}

func (w *World) lock(opts ...lockmgr.LockOption) *lockmgr.Lock {
	w.Helper()
	return redistest.Must(w.Lock(w.Context(), "a:1", opts...))(w)
}

// reentered returns two handles of one hold.
func (w *World) reentered() (first, again *lockmgr.Lock) {
	w.Helper()
	owner := w.NewOwner()
	return w.lock(lockmgr.AsOwner(owner)), w.lock(lockmgr.AsOwner(owner))
}

func (w *World) lockSet() *lockmgr.Lock {
	w.Helper()
	return redistest.Must(w.LockAll(w.Context(), lockmgr.All("a:1", "a:2", "a:3")))(w)
}

// remove removes a record by hand.
func (w *World) remove(name string) {
	w.Helper()
	require.Equal(w, "1", faults.Do(w, w.Server, "DEL", name))
}

func (w *World) unlocks(l *lockmgr.Lock) {
	w.Helper()
	require.NoError(w, l.Unlock(faults.Patient(w)))
}

// finds unlocks a lock, and expects an error.
func (w *World) finds(l *lockmgr.Lock, want error) {
	w.Helper()
	require.ErrorIs(w, l.Unlock(faults.Patient(w)), want)
}
