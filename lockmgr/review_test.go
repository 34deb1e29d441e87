package lockmgr_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Bursts of requests must not cost those their leases who hold locks.
func TestServerBurstLosesNothing(t *testing.T) {
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{Lease: 3 * time.Second, CommandTimeout: 900 * time.Millisecond})
	var held []*lockmgr.Lock
	for i := range 100 {
		l, err := m.Lock(ctx, fmt.Sprint("held:", i))
		require.NoError(t, err)
		held = append(held, l)
	}
	fs := make([]*futures.Future[*lockmgr.Lock], 10_000)
	for m.Stats().Renewals < 2*uint64(len(held)) { // each may have been renewed twice
		for i := range fs {
			fs[i] = m.LockAsync(fmt.Sprint("burst:", i))
		}
		for _, f := range fs {
			l, err := f.Await(ctx)
			require.NoError(t, err)
			l.UnlockAsync()
		}
	}
	for _, l := range held {
		require.NoError(t, l.Err())
	}
	require.Zero(t, m.Stats().Losses)
}

// A holder that is watched is looked after every tick, whatever lease the
// holder before it had, and its record is no more lasting than its own lease.
func TestLongLeaseIsNotInherited(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		long, err := m.Lock(ctx, "a", lockmgr.FixedLease(24*time.Hour))
		require.NoError(t, err)
		f := m.LockAsync("a")
		require.NoError(t, long.Unlock(ctx))
		l, err := f.Await(ctx)
		require.NoError(t, err)
		require.LessOrEqual(t, w.server.TTL("a"), 30*second)
		require.LessOrEqual(t, l.Remaining(), 30*second)
		w.server.Del("a")
		start := time.Now()
		<-l.Lost()
		require.LessOrEqual(t, time.Since(start), 12*second)
	})
}

func TestAnswersThatAreAlwaysTooLate(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{RetryTime: second})
		warm(t, m)
		net.delay.Store(int64(15 * milli))
		start := time.Now()
		_, err := m.Lock(ctx, "a", lockmgr.FixedLease(10*milli))
		require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		require.Contains(t, err.Error(), "longer lease")
		require.Less(t, time.Since(start), second, "three tries tell")
		require.Less(t, m.Stats().Scripts, uint64(10))
	})
}

func TestRememberedNamesDoNotCount(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		other, _ := w.manager(lockmgr.Options{})
		m, _ := w.manager(lockmgr.Options{MaxLocks: 1})
		l, err := other.Lock(ctx, "a")
		require.NoError(t, err)
		f := m.LockAsync("a")
		time.Sleep(second)
		require.NoError(t, l.Unlock(ctx))
		l, err = f.Await(ctx)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(ctx))
		require.Equal(t, 1, m.Stats().Locks, "its subscription lingers")
		l, err = m.TryLock(ctx, "b")
		require.NoError(t, err)
		_, err = m.TryLock(ctx, "c")
		require.ErrorIs(t, err, lockmgr.ErrOverloaded)
		require.NoError(t, l.Unlock(ctx))
	})
}

func TestCloseTellsOfATryInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		n := &network{server: w.server}
		m := dialNetwork(t, n, lockmgr.Options{})
		n.hush()
		f := m.LockAsync("a")
		short, cancel := context.WithTimeout(ctx, 100*milli)
		defer cancel()
		require.ErrorIs(t, m.Close(short), context.DeadlineExceeded)
		_, err := f.Result()
		require.ErrorIs(t, err, lockmgr.ErrClosed)
		time.Sleep(10 * second)
	})
}

func TestErrOfAReentryThatWasUnlocked(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		o := m.NewOwner()
		outer, err := m.Lock(ctx, "a", lockmgr.AsOwner(o))
		require.NoError(t, err)
		inner, err := m.Lock(ctx, "a", lockmgr.AsOwner(o))
		require.NoError(t, err)
		require.NoError(t, inner.Unlock(ctx))
		_, err = m.ForceUnlock(ctx, "a")
		require.NoError(t, err)
		<-outer.Lost()
		require.ErrorIs(t, outer.Err(), lockmgr.ErrLeaseLost)
		require.ErrorIs(t, inner.Err(), lockmgr.ErrNotHeld)
	})
}

// A cancelled request is told to the observer once, and so is every grant.
func TestObserverBalances(t *testing.T) {
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
		require.NoError(t, m.Close(ctx))
		require.Equal(t, n, granted+failed)
		require.Equal(t, granted, unlocked)
	})
}

// An unlock that crosses the Close says what every later one does.
func TestAnUnlockThatCrossesACloseSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var stopper lockmgr.Stopper
		m, _ := w.manager(stopper.Options(lockmgr.Options{}))
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		resume := stopper.Stop(m)
		closed := make(chan error, 1)
		go func() { closed <- m.Close(ctx) }()
		synctest.Wait() // Close is in the mailbox
		f := l.UnlockAsync()
		resume()
		_, err = f.Await(ctx)
		require.ErrorIs(t, err, lockmgr.ErrClosed)
		require.NoError(t, <-closed)
	})
}

// What ended by itself did not lack a renewal.
func TestAFixedLeaseThatIsOverSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l, err := m.Lock(ctx, "a", lockmgr.FixedLease(second))
		require.NoError(t, err)
		<-l.Lost()
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		require.ErrorContains(t, l.Err(), "fixed lease is over")
	})
}

// One that an outage cut short did.
func TestAFixedLeaseThatWasCutShortSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, n := w.manager(lockmgr.Options{})
		first, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		f := m.LockAsync("a", lockmgr.FixedLease(time.Minute))
		time.Sleep(500 * milli)
		n.hush()
		_ = first.UnlockAsync()
		l, err := f.Await(ctx)
		require.NoError(t, err)
		<-l.Lost()
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		require.NotContains(t, l.Err().Error(), "is over")
	})
}
