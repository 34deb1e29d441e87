package lockmgr_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A set hears the messages of each item. One that does not would poll every 10 ms. Once
// nobody waits, the manager hears no channel any more.
func TestLockAll_HearsEachItem(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{Linger: milli})
		other, _ := w.manager(lockmgr.Options{})
		var held []*lockmgr.Lock
		for _, name := range []string{"a", "b"} {
			held = append(held, mustLock(t, other, name))
		}
		for _, name := range []string{"r", "w", "x"} {
			held = append(held, mustLock(t, other, name, lockmgr.Exclusive()))
		}
		f := m.LockAllAsync(mixed)
		time.Sleep(20 * milli) // in which the channels are confirmed, and a try is answered
		require.Len(t, w.server.PubSubChannels(""), 5)
		before := m.Stats().Polls
		for _, l := range held {
			time.Sleep(100 * milli)
			requirePending(t, f)
			mustUnlock(t, l)
		}
		l := mustAwait(t, f)
		require.Equal(t, before, m.Stats().Polls)
		mustUnlock(t, l)
		time.Sleep(5 * time.Second) // the name is remembered for as long as others are owed turns
		require.Empty(t, w.server.PubSubChannels(""))
		require.Zero(t, m.Stats().Subscriptions)
	})
}

// A reader that would wait behind a writer waits with it, also for a set of its own owner.
func TestLockAll_DeadlockBehindAWriter(t *testing.T) {
	_, m, _ := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	a, b := m.NewOwner(), m.NewOwner()
	set := mustLockAll(t, m, lockmgr.Set{Shared: []string{"x"}, Names: []string{"y"}}, lockmgr.AsOwner(a))
	writer := m.LockAsync("x", lockmgr.Exclusive(), lockmgr.AsOwner(b))
	requirePending(t, writer)
	_, err := m.Lock(ctx, "x", lockmgr.Shared(), lockmgr.AsOwner(a))
	require.ErrorIs(t, err, lockmgr.ErrDeadlock)
	var cycle *lockmgr.DeadlockError
	require.ErrorAs(t, err, &cycle)
	require.Equal(t, "x", cycle.Cycle[0].Name)
	mustUnlock(t, set)
	mustUnlock(t, mustAwait(t, writer))
}

// An error tells which name of a set was held, is of another kind, or is in the way.
func TestLockAll_ErrorsTellWhichName(t *testing.T) {
	s, m, other := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	held, err := other.Lock(ctx, "b", lockmgr.AsOwner(other.NewOwner()))
	require.NoError(t, err)
	for _, wait := range []lockmgr.LockOption{lockmgr.OnlyIfFree(), lockmgr.MaxWait(50 * time.Millisecond)} {
		_, err = m.LockAll(ctx, lockmgr.All("a", "b", "c"), wait)
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
		require.ErrorContains(t, err, `lock "a", "b", "c": `)
		require.ErrorContains(t, err, `: "b"`)
	}
	_, err = m.TryLockAll(ctx, lockmgr.Set{Names: []string{"a"}, Shared: []string{"b"}})
	require.ErrorIs(t, err, lockmgr.ErrKind)
	require.ErrorContains(t, err, `another kind of lock: "b"`)
	_, err = other.LockAll(ctx, lockmgr.All("b", "d"), lockmgr.AsOwner(held.Owner()))
	var cycle *lockmgr.DeadlockError
	require.ErrorAs(t, err, &cycle)
	require.Equal(t, []lockmgr.Edge{{Owner: held.Owner().String(), Name: "b", Holder: held.Owner().String()}}, cycle.Cycle)
	mustUnlock(t, held)
	require.Equal(t, "0", faults.Do(t, s, "EXISTS", "a", "b", "c", "d"))
}
