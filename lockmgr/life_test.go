package lockmgr_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// Tests of the real actors and the real client in fake time.

// slack is how many goroutines may run that are not the manager's: pings of the
// client, and those of the test binary.
const slack = 10

func TestWatchdog_KeepsALockForHours(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l := mustLock(t, m, "a")
		time.Sleep(250 * milli) // off the beat of the client's pings
		synctest.Wait()
		before := runtime.NumGoroutine()
		for range 4 * 60 {
			time.Sleep(time.Minute)
			require.True(t, l.Valid())
			require.Greater(t, l.Remaining(), 15*second)
			require.Greater(t, w.server.TTL("a"), 18*second)
		}
		synctest.Wait()
		require.LessOrEqual(t, runtime.NumGoroutine(), before+slack)
		renewals := m.Stats().Renewals
		require.InDelta(t, 1440, renewals, 180, "one renewal a tick of 10 s, up to an eighth later")
		mustUnlock(t, l)
		require.False(t, closedNow(l.Lost()))
		time.Sleep(time.Hour)
		require.Equal(t, renewals, m.Stats().Renewals, "nothing is renewed after the unlock")
		require.Zero(t, m.Stats().Locks)
	})
}

func TestLease_FixedEndsOnTime(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		start := time.Now()
		l := mustLock(t, m, "a", lockmgr.FixedLease(10*second))
		f := m.LockAsync("a")
		<-l.Lost()
		// 10 s less 1 % less the margin of 2 ms.
		require.Equal(t, 9898*milli, time.Since(start).Round(milli))
		require.False(t, l.Valid())
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
		next := mustAwait(t, f)
		require.Less(t, time.Since(start), 10*second, "the waiter need not wait until the record expires")
		mustUnlock(t, next)
	})
}

func TestUnlock_GoesOnAfterItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		l := mustLock(t, m, "a")
		net.hush()
		short, cancel := context.WithTimeout(ctx, second)
		defer cancel()
		require.ErrorIs(t, l.Unlock(short), context.DeadlineExceeded)
		require.False(t, l.Valid())
		net.heal()
		time.Sleep(5 * second)
		require.Empty(t, w.owners("a"), "the manager goes on releasing")
	})
}

// A watched holder is renewed at every tick, whatever lease the holder before it had,
// and its record lasts no longer than its own lease.
func TestLease_LongIsNotInherited(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		long := mustLock(t, m, "a", lockmgr.FixedLease(24*time.Hour))
		f := m.LockAsync("a")
		mustUnlock(t, long)
		l := mustAwait(t, f)
		require.LessOrEqual(t, w.server.TTL("a"), 30*second)
		require.LessOrEqual(t, l.Remaining(), 30*second)
		w.server.Del("a")
		start := time.Now()
		<-l.Lost()
		require.LessOrEqual(t, time.Since(start), 12*second)
	})
}
