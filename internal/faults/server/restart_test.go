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

// Locks are renewed by scripts that the server may have forgotten. That is so after a restart too;
// here it is so all the time.
func TestRenewal_OnAServerThatForgetsScripts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m, w := dialWatched(t, s, watched)
	other := faults.Dial(t, s.Addr(), with(watched))
	var held []*lockmgr.Lock
	for _, name := range []string{"a", "b", "c"} {
		held = append(held, faults.Take(t, m, name))
	}
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				if _, err := s.Do("SCRIPT", "FLUSH"); err != nil {
					stopped <- err
					return
				}
			}
		}
	}()
	requireKept(t, m, held...)
	for i, l := range held {
		next := other.LockAsync(l.Name())
		faults.Release(t, l)
		held[i] = faults.Await(t, next)
	}
	requireKept(t, other, held...)
	faults.Release(t, held...)
	close(stop)
	require.NoError(t, <-stopped)
	require.Zero(t, m.Stats().Losses+other.Stats().Losses)
	require.Zero(t, m.Stats().FailedScripts+other.Stats().FailedScripts, "a script that is not there is no failure")
	require.Zero(t, faults.Count(w, faults.Always[lockmgr.EventCommandFailed])+faults.Count(w, faults.Always[lockmgr.EventRenewalFailed]))
	require.Greater(t, s.Commands(t)["script|flush"], 10)
}
