package lockmgr_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/thorough"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestRenewal_FindsALoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l := mustLock(t, m, "a")
		w.server.Del("a")
		start := time.Now()
		<-l.Lost()
		require.LessOrEqual(t, time.Since(start), 12*second)
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		require.False(t, w.server.Exists("a"), "a renewal must not bring the record back")
	})
}

func TestForceUnlock_IsSeenAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l := mustLock(t, m, "a")
		start := time.Now()
		require.True(t, must(m.ForceUnlock(ctx, "a"))(t))
		<-l.Lost()
		require.Less(t, time.Since(start), second)
		require.False(t, must(m.ForceUnlock(ctx, "a"))(t))
	})
}

func TestLock_LostAtTheDeadlineOfASilentServer(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		start := time.Now()
		l := mustLock(t, m, "a")
		net.hush()
		c := l.Context(ctx)
		done := c.Done() // asked for while the lock is held
		<-l.Lost()
		require.Equal(t, 29698*milli, time.Since(start).Round(milli))
		<-done // a moment after Lost
		require.ErrorIs(t, context.Cause(c), lockmgr.ErrLeaseLost)
		net.heal()
		mustUnlock(t, mustLock(t, m, "a"))
		time.Sleep(time.Minute)
		require.Zero(t, m.Stats().Locks)
	})
}

// Bursts of requests must not delay renewals until leases are lost.
func TestServer_BurstLosesNothing(t *testing.T) {
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{Lease: 3 * time.Second, CommandTimeout: 900 * time.Millisecond})
	held := mustLockEach(t, m, numbered("held:", 100))
	fs := make([]*futures.Future[*lockmgr.Lock], 10_000)
	for m.Stats().Renewals < uint64(thorough.Choose(1, 2)*len(held)) { // each may have been renewed
		for i := range fs {
			fs[i] = m.LockAsync(fmt.Sprint("burst:", i))
		}
		for _, f := range fs {
			l := mustAwait(t, f)
			l.UnlockAsync()
		}
	}
	for _, l := range held {
		require.NoError(t, l.Err())
	}
	require.Zero(t, m.Stats().Losses)
}

// The error of a fixed lease that an outage cut short does not say that it is over.
func TestLease_FixedTellsThatItWasCutShort(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, n := w.manager(lockmgr.Options{})
		first := mustLock(t, m, "a")
		f := m.LockAsync("a", lockmgr.FixedLease(time.Minute))
		f.OnDone(func(*lockmgr.Lock, error) { n.hush() }) // the record keeps the lease of the lock before
		time.Sleep(500 * milli)
		mustUnlock(t, first)
		l := mustAwait(t, f)
		<-l.Lost()
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		require.NotContains(t, l.Err().Error(), "is over")
	})
}

// While the host is suspended its timers stand still, but leases run out on the server.
func TestLock_LostWhileTheHostIsSuspended(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var slept atomic.Int64
		host := func() (awake, all time.Duration, ok bool) { return 0, time.Duration(slept.Load()), true }
		m, _ := w.manager(lockmgr.WithClocks(lockmgr.Options{}, host))
		other, _ := w.manager(lockmgr.Options{})
		watched := mustLock(t, m, "watched")
		fixed := mustLock(t, m, "fixed", lockmgr.FixedLease(time.Hour))
		brief := mustLock(t, m, "brief", lockmgr.FixedLease(40*second))
		time.Sleep(5 * second)
		synctest.Wait()

		slept.Add(int64(time.Minute))
		w.server.FastForward(time.Minute) // its host was not suspended
		require.False(t, watched.Valid(), "at once, without asking anybody")
		require.False(t, brief.Valid())
		require.True(t, fixed.Valid(), "it has an hour")
		require.Less(t, fixed.Remaining(), time.Hour-time.Minute)
		require.ErrorIs(t, watched.Err(), lockmgr.ErrLeaseLost)

		theirs := mustTryLock(t, other, "watched")
		start := time.Now()
		for _, l := range []*lockmgr.Lock{watched, brief} {
			<-l.Lost()
			require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
		}
		require.LessOrEqual(t, time.Since(start), second, "timers stood still, so it looks every second")
		require.True(t, theirs.Valid())
		mustUnlock(t, fixed, theirs)

		again := mustLock(t, m, "watched")
		require.Greater(t, again.Remaining(), 29*second, "it goes on as before")
		mustUnlock(t, again)
	})
}

// warm makes the server know the scripts.
func warm(t *testing.T, m *lockmgr.Manager) {
	mustUnlock(t, mustLock(t, m, "warm"))
}

// The reply to an acquire is lost, but the script ran, and the caller leaves: the record must not
// stay until its lease ends.
func TestAcquire_LostReplyAndCancel(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		warm(t, m)
		net.lose.Store(true)
		f := m.LockAsync("a")
		synctest.Wait()
		require.Len(t, w.owners("a"), 1, "the script ran")
		require.True(t, f.Cancel())
		time.Sleep(second)
		require.Empty(t, w.owners("a"))
		time.Sleep(10 * second)
		require.Zero(t, m.Stats().Locks)
	})
}

func TestTryLock_LostReply(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		warm(t, m)
		net.lose.Store(true)
		require.ErrorIs(t, errOf(m.TryLock(ctx, "a")), lockmgr.ErrUnavailable)
		time.Sleep(second)
		require.Empty(t, w.owners("a"))
	})
}

func TestRelease_LostReply(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		warm(t, m)
		l := mustLock(t, m, "a")
		net.lose.Store(true)
		require.NoError(t, l.Unlock(ctx), "the repeated release finds no record, which is what the caller wants")
		require.Empty(t, w.owners("a"))
	})
}
