package lockmgr_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A set hears the messages of each item. One that does not would poll every 10 ms. Once
// nobody waits, the manager hears no channel any more.
func TestLockAll_HearsEachItem(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m, other := dial(t, s.Addr(), lockmgr.Options{Linger: time.Millisecond}), dial(t, s.Addr(), lockmgr.Options{})
	ctx := faults.Patient(t)
	channels := func(n string) {
		t.Helper()
		heard := func() bool { return faults.Do(t, s, "EVAL", "return #redis.call('PUBSUB', 'CHANNELS')", "0") == n }
		faults.Eventually(t, heard)
	}
	var held []*lockmgr.Lock
	for _, name := range []string{"a", "b"} {
		l, err := other.Lock(ctx, name)
		require.NoError(t, err)
		held = append(held, l)
	}
	for _, name := range []string{"r", "w", "x"} {
		l, err := other.Lock(ctx, name, lockmgr.Exclusive())
		require.NoError(t, err)
		held = append(held, l)
	}
	f := m.LockAllAsync(mixed)
	channels("5")
	time.Sleep(20 * time.Millisecond) // until the try on the confirmation is answered
	before := m.Stats().Polls
	for _, l := range held {
		time.Sleep(100 * time.Millisecond)
		requirePending(t, f)
		require.NoError(t, l.Unlock(ctx))
	}
	l, err := f.Await(ctx)
	require.NoError(t, err)
	require.Less(t, m.Stats().Polls-before, uint64(5))
	require.NoError(t, l.Unlock(ctx))
	channels("0")
	require.Zero(t, m.Stats().Subscriptions)
}

// A reader that would wait behind a writer waits with it, also for a set of its own owner.
func TestLockAll_DeadlockBehindAWriter(t *testing.T) {
	t.Parallel()
	_, m, _ := dialReadWrite(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	a, b := m.NewOwner(), m.NewOwner()
	set, err := m.LockAll(ctx, lockmgr.Set{Shared: []string{"x"}, Names: []string{"y"}}, lockmgr.AsOwner(a))
	require.NoError(t, err)
	writer := m.LockAsync("x", lockmgr.Exclusive(), lockmgr.AsOwner(b))
	requirePending(t, writer)
	_, err = m.Lock(ctx, "x", lockmgr.Shared(), lockmgr.AsOwner(a))
	require.ErrorIs(t, err, lockmgr.ErrDeadlock)
	var cycle *lockmgr.DeadlockError
	require.ErrorAs(t, err, &cycle)
	require.Equal(t, "x", cycle.Cycle[0].Name)
	require.NoError(t, set.Unlock(ctx))
	l, err := writer.Await(ctx)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
}

// An error tells which name of a set was held, is of another kind, or is in the way.
func TestLockAll_ErrorsTellWhichName(t *testing.T) {
	t.Parallel()
	s, m, other := dialReadWrite(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	held, err := other.Lock(ctx, "b", lockmgr.AsOwner(other.NewOwner()))
	require.NoError(t, err)
	for _, opts := range [][]lockmgr.LockOption{nil, {lockmgr.MaxWait(50 * time.Millisecond)}} {
		_, err = m.TryLockAll(ctx, lockmgr.All("a", "b", "c"), opts...)
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
	require.NoError(t, held.Unlock(ctx))
	require.Equal(t, "0", faults.Do(t, s, "EXISTS", "a", "b", "c", "d"))
}
