package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A server that comes back empty has forgotten the lock: the holder learns it from the next
// renewal, which must not bring the record back.
func TestLock_LostByARestartWithoutData(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder, w := dialWatched(t, s, watched)
	l := faults.Take(t, holder, "a", lockmgr.Fenced())
	went := time.Now()
	s.Restart()
	for !faults.Closed(l.Lost()) {
		require.Equal(t, "0", faults.Do(t, s, "EXISTS", "a"), "nobody but an acquire makes a record")
		require.Less(t, time.Since(went), faults.Patience)
	}
	t.Logf("noticed after %v", requireNoticed(t, l, watched, went))
	faults.Eventually(t, func() bool { return faults.Count(w, faults.Always[lockmgr.EventLost]) == 1 })
	require.ErrorIs(t, l.Unlock(faults.Patient(t)), lockmgr.ErrLeaseLost)
	require.Equal(t, "0", faults.Do(t, s, "EXISTS", "a"))
	faults.Release(t, faults.Take(t, holder, "a", lockmgr.Fenced()))
}

// A server that kept what it acknowledged goes on as if nothing had been, for the holder and for
// who waits.
func TestLock_KeptThroughARestartWithData(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	holder, other := faults.Dial(t, s.Addr(), with(steady)), faults.Dial(t, s.Addr(), with(steady))
	l := faults.Take(t, holder, "a", lockmgr.Fenced())
	next := other.LockAsync("a", lockmgr.Fenced())
	faults.Eventually(t, func() bool { return faults.Subscribers(t, s, "a") == 1 })
	s.Restart()
	requireKept(t, holder, l)
	require.Equal(t, []string{l.HolderID()}, owners(t, s, "a"))
	faults.Eventually(t, func() bool { return faults.Subscribers(t, s, "a") == 1 }, "it listens again")
	require.False(t, faults.Settled(next))
	faults.Release(t, l)
	after := faults.Await(t, next)
	require.Greater(t, after.Token(), l.Token())
	faults.Release(t, after)
	require.Zero(t, holder.Stats().Losses)
}
