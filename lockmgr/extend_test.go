package lockmgr_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A fixed lease that was extended lasts as long as Extend promised, and then ends by itself.
func TestExtend_FixedLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l := mustLock(t, m, "a", lockmgr.FixedLease(10*second))
		time.Sleep(5 * second)
		require.NoError(t, l.Extend(ctx, 20*second))
		require.InDelta(t, 19.8, l.Remaining().Seconds(), 0.01, "20 s less 1 % and the margin")
		require.Equal(t, 20*second, w.server.TTL("a"))

		require.NoError(t, l.Extend(ctx, second))
		require.InDelta(t, 19.8, l.Remaining().Seconds(), 0.01, "nothing is shortened")

		time.Sleep(19 * second)
		require.True(t, l.Valid())
		require.NoError(t, l.Extend(ctx, time.Hour), "longer than a lease of the watchdog")
		time.Sleep(59 * time.Minute)
		require.True(t, l.Valid())
		<-l.Lost()
		require.ErrorIs(t, l.Extend(ctx, second), lockmgr.ErrLeaseLost)
	})
}

// Extend gives a watched lock at least the time asked for. The watchdog goes on.
func TestExtend_WatchedLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l := mustLock(t, m, "a")
		require.NoError(t, l.Extend(ctx, 10*time.Minute))
		require.Greater(t, l.Remaining(), 9*time.Minute)
		time.Sleep(30 * time.Minute)
		require.True(t, l.Valid(), "the watchdog goes on")
		mustUnlock(t, l)
		require.ErrorIs(t, l.Extend(ctx, second), lockmgr.ErrNotHeld)
		require.False(t, w.server.Exists("a"))
	})
}

// Extend asks the server, so it finds a loss that the manager does not know of yet.
func TestExtend_FindsALoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		l := mustLock(t, m, "a")
		w.server.Del("a")
		require.True(t, l.Valid(), "the manager does not know yet")
		var failed *lockmgr.LockError
		err := l.Extend(ctx, second)
		require.ErrorIs(t, err, lockmgr.ErrLeaseLost)
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "extend", failed.Op)
		require.False(t, l.Valid())

		l = mustLock(t, m, "a")
		require.ErrorIs(t, l.Extend(ctx, 0), lockmgr.ErrInvalidLease)
		require.ErrorIs(t, l.Extend(ctx, lockmgr.MaxLease+1), lockmgr.ErrInvalidLease)
		net.hush()
		short, cancel := context.WithTimeout(ctx, second)
		defer cancel()
		require.ErrorIs(t, l.Extend(short, 10*second), context.DeadlineExceeded)
		net.heal()
		mustUnlock(t, l)
	})
}

// The watchdog stops at MaxHold, and the loss says why. Extend does not go beyond it, and the lock
// is free at once.
func TestMaxHold(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		start := time.Now()
		l := mustLock(t, m, "a", lockmgr.MaxHold(time.Minute))
		next := m.LockAsync("a")
		time.Sleep(45 * second)
		require.True(t, l.Valid(), "it is renewed until then")
		require.NoError(t, l.Extend(ctx, time.Hour))
		require.LessOrEqual(t, l.Remaining(), 15*second)

		<-l.Lost()
		require.Equal(t, time.Minute, time.Since(start).Round(milli))
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		require.ErrorContains(t, l.Err(), "MaxHold")
		after := mustAwait(t, next)
		require.Less(t, time.Since(start), time.Minute+second)
		mustUnlock(t, after)

		require.ErrorIs(t, errOf(m.Lock(ctx, "a", lockmgr.MaxHold(lockmgr.MinLease-1))), lockmgr.ErrInvalidLease)
	})
}
