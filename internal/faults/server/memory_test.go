package server_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A server without memory for another lock keeps those it has, for as long as they are wanted, and
// takes every one of them back.
func TestLock_WithoutMemoryIsKeptAndGivenBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--maxmemory-policy", "noeviction")
	m, w := dialWatched(t, s, watched)
	other := faults.Dial(t, s.Addr(), lockmgr.Options{})
	var wanted []*futures.Future[*lockmgr.Lock]
	for i := range *locks {
		wanted = append(wanted, m.LockAsync(fmt.Sprint("lock", i)))
	}
	var held []*lockmgr.Lock
	for _, f := range wanted {
		held = append(held, faults.Await(t, f))
	}
	faults.Do(t, s, "CONFIG", "SET", "maxmemory", "1")

	refusedFor := func(m *lockmgr.Manager, name string) {
		t.Helper()
		_, err := m.TryLock(faults.Patient(t), name)
		require.ErrorIs(t, err, lockmgr.ErrOutOfMemory)
		_, err = m.Lock(faults.Patient(t), name)
		require.ErrorIs(t, err, lockmgr.ErrOutOfMemory)
	}
	refusedFor(m, "new")
	refusedFor(other, "new")
	_, err := other.TryLock(faults.Patient(t), "lock0")
	require.ErrorIs(t, err, lockmgr.ErrNotAcquired, "it is held, which is no matter of memory")

	renewed := m.Stats().Renewals
	requireKept(t, m, held...)
	renewed = m.Stats().Renewals - renewed
	require.Zero(t, faults.Count(w, faults.Always[lockmgr.EventRenewalFailed]))

	// One after the other, and all at once: that may be other scripts.
	var released []*futures.Future[struct{}]
	for i, l := range held {
		if i%4 == 0 {
			faults.Release(t, l)
		}
	}
	for i, l := range held {
		if i%4 != 0 {
			released = append(released, l.UnlockAsync())
		}
	}
	for i, f := range released {
		redistest.Must(f.Await(faults.Patient(t)))(t, i)
	}
	require.Equal(t, "0", faults.Do(t, s, "DBSIZE"))
	require.Zero(t, m.Stats().Losses+m.Stats().Unreleased)
	t.Logf("%d locks released, %d renewals, none failed", len(held), renewed)
	refusedFor(m, "lock0")
	faults.Do(t, s, "CONFIG", "SET", "maxmemory", "0")
	faults.Release(t, faults.Take(t, m, "lock0"))
}
