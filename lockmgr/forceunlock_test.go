package lockmgr_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Only the named holder loses its lock, whatever the kind of lock is.
func TestForceUnlockHolders_RemovesNoOther(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m, other, admin := dial(t, s.Addr(), lockmgr.Options{}), dial(t, s.Addr(), lockmgr.Options{}), dial(t, s.Addr(), lockmgr.Options{})
	ctx := faults.Patient(t)
	type options = []lockmgr.LockOption
	for _, tt := range []struct {
		name string
		opts options
	}{
		{"plain", nil},
		{"fenced", options{lockmgr.Fenced()}},
		{"fair", options{lockmgr.Fair()}},
		{"reader", options{lockmgr.Shared()}},
		{"writer", options{lockmgr.Exclusive()}},
	} {
		l, err := m.Lock(ctx, tt.name, tt.opts...)
		require.NoError(t, err)
		before, err := admin.Inspect(ctx, tt.name)
		require.NoError(t, err)
		removed, err := admin.ForceUnlockHolders(ctx, tt.name, other.ID()+":1", m.ID(), "")
		require.NoError(t, err)
		require.False(t, removed, tt.name)
		require.NoError(t, l.Unlock(ctx), tt.name)

		// The one that was named has the lock no more, and the next one stays.
		l, err = other.Lock(ctx, tt.name, tt.opts...)
		require.NoError(t, err)
		removed, err = admin.ForceUnlockHolders(ctx, tt.name, before.Holders[0].Owner)
		require.NoError(t, err)
		require.False(t, removed, tt.name)
		require.True(t, l.Valid())

		waiting := m.LockAsync(tt.name, tt.opts...)
		removed, err = admin.ForceUnlockHolders(ctx, tt.name, "x", l.HolderID())
		require.NoError(t, err)
		require.True(t, removed, tt.name)
		next, err := waiting.Await(ctx)
		require.NoError(t, err)
		require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost, tt.name)
		require.NoError(t, next.Unlock(ctx))
		removed, err = admin.ForceUnlockHolders(ctx, tt.name, next.HolderID())
		require.NoError(t, err)
		require.False(t, removed, "it is free")
	}
}

// Of several readers those stay that are not named. The last one wakes a writer.
func TestForceUnlockHolders_OfSeveralReaders(t *testing.T) {
	t.Parallel()
	s, m, other := dialReadWrite(t, lockmgr.Options{})
	admin := dial(t, s.Addr(), lockmgr.Options{})
	ctx := faults.Patient(t)
	one, err := m.Lock(ctx, "doc", lockmgr.Shared(), lockmgr.FixedLease(time.Hour))
	require.NoError(t, err)
	two, err := other.Lock(ctx, "doc", lockmgr.Shared())
	require.NoError(t, err)
	faults.Do(t, s, "HSET", "doc", "java:1", "1")
	faults.Do(t, s, "SET", "{doc}:java:1:rwlock_timeout:1", "1", "PX", "3600000")
	writer := admin.LockAsync("doc", lockmgr.Exclusive())
	for _, id := range []string{one.HolderID(), "java:1"} {
		removed, err := admin.ForceUnlockHolders(ctx, "doc", id)
		require.NoError(t, err)
		require.True(t, removed)
		removed, err = admin.ForceUnlockHolders(ctx, "doc", id)
		require.NoError(t, err)
		require.False(t, removed)
	}
	require.ErrorIs(t, one.Unlock(ctx), lockmgr.ErrLeaseLost)
	info, err := admin.Inspect(ctx, "doc")
	require.NoError(t, err)
	require.Len(t, info.Holders, 1)
	require.Equal(t, two.HolderID(), info.Holders[0].Owner)
	require.LessOrEqual(t, info.TTL, 30*time.Second, "the record lives no longer than the reader that is left")
	require.NoError(t, two.Extend(ctx, time.Minute))
	removed, err := admin.ForceUnlockHolders(ctx, "doc", two.HolderID())
	require.NoError(t, err)
	require.True(t, removed)
	w, err := writer.Await(ctx)
	require.NoError(t, err)
	require.ErrorIs(t, two.Unlock(ctx), lockmgr.ErrLeaseLost)

	// An owner that writes and reads has two entries with one ID.
	owner := admin.NewOwner()
	require.NoError(t, w.Unlock(ctx))
	w, err = admin.Lock(ctx, "doc", lockmgr.Exclusive(), lockmgr.AsOwner(owner))
	require.NoError(t, err)
	r, err := admin.Lock(ctx, "doc", lockmgr.Shared(), lockmgr.AsOwner(owner))
	require.NoError(t, err)
	removed, err = admin.ForceUnlockHolders(ctx, "doc", w.HolderID())
	require.NoError(t, err)
	require.True(t, removed)
	<-w.Lost()
	require.ErrorIs(t, r.Unlock(ctx), lockmgr.ErrLeaseLost)
	require.Equal(t, "0", faults.Do(t, s, "EXISTS", "doc"))
}

// A set loses the name whose holder was named, and with it all.
func TestForceUnlockHolders_OfASet(t *testing.T) {
	t.Parallel()
	s, m, other := dialReadWrite(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	l, err := m.LockAll(ctx, mixed)
	require.NoError(t, err)
	removed, err := m.ForceUnlockHolders(ctx, "b", other.ID()+":1")
	require.NoError(t, err)
	require.False(t, removed)
	removed, err = m.ForceUnlockHolders(ctx, "b", l.HolderID())
	require.NoError(t, err)
	require.True(t, removed)
	<-l.Lost()
	faults.Eventually(t, func() bool { return faults.Do(t, s, "EXISTS", "a", "b", "r", "w", "x") == "0" })
}

// A call that names nobody removes nobody.
func TestForceUnlockHolders_NoID(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l, err := m.Lock(ctx, "orders")
		require.NoError(t, err)
		_, err = m.ForceUnlockHolders(ctx, "orders")
		requireLockError(t, err, "force unlock", "orders", lockmgr.ErrInvalidOption)
		require.NoError(t, l.Unlock(ctx))
	})
}
