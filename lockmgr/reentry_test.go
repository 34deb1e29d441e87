package lockmgr_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestReentry(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		o := m.NewOwner()
		l1 := mustLock(t, m, "a", lockmgr.AsOwner(o))
		scripts := m.Stats().Scripts
		l2 := must(m.Lock(lockmgr.WithOwner(ctx, o), "a"))(t)
		l3 := mustTryLock(t, m, "a", lockmgr.AsOwner(o), lockmgr.FixedLease(10*milli))
		require.Equal(t, scripts, m.Stats().Scripts, "re-entry takes no round trip")
		require.Equal(t, "1", w.server.HGet("a", l1.HolderID()))
		time.Sleep(time.Minute)
		require.True(t, l3.Valid(), "a shorter lease does not shorten what is held")
		for _, c := range []context.Context{ctx, lockmgr.WithoutOwner(lockmgr.WithOwner(ctx, o))} {
			require.ErrorIs(t, errOf(m.TryLock(c, "a")), lockmgr.ErrNotAcquired)
		}
		inner := l2.Context(ctx)
		done := inner.Done() // asked for while the lock is held
		for i, l := range []*lockmgr.Lock{l2, l1, l3} {
			require.Equal(t, []string{l1.HolderID()}, w.owners("a"), i)
			require.True(t, l.Valid())
			mustUnlock(t, l)
			require.False(t, l.Valid())
			require.ErrorIs(t, l.Err(), lockmgr.ErrNotHeld)
		}
		<-done
		require.ErrorIs(t, context.Cause(inner), lockmgr.ErrNotHeld)
		require.Empty(t, w.owners("a"))
	})
}

func TestReentry_WithLongerLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		o := m.NewOwner()
		mustLock(t, m, "a", lockmgr.AsOwner(o), lockmgr.FixedLease(second))
		l := mustLock(t, m, "a", lockmgr.AsOwner(o), lockmgr.FixedLease(time.Minute))
		time.Sleep(50 * second)
		require.True(t, l.Valid())
		l = mustLock(t, m, "a", lockmgr.AsOwner(o), lockmgr.MaxHold(second))
		time.Sleep(9 * second)
		require.True(t, l.Valid(), "MaxHold shortens nothing")
		time.Sleep(second)
		require.False(t, l.Valid())

		mustLock(t, m, "b", lockmgr.AsOwner(o), lockmgr.FixedLease(second))
		l = mustLock(t, m, "b", lockmgr.AsOwner(o))
		time.Sleep(time.Hour)
		require.True(t, l.Valid(), "the watchdog has taken over")
		mustUnlock(t, l)
	})
}

func TestReentry_HasTheTokenOfItsHold(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		o := m.NewOwner()
		l := mustLock(t, m, "a", lockmgr.AsOwner(o), lockmgr.Fenced())
		require.Positive(t, l.Token())
		require.Equal(t, l.Token(), mustLock(t, m, "a", lockmgr.AsOwner(o), lockmgr.Fenced()).Token())
		require.Zero(t, mustLock(t, m, "b", lockmgr.AsOwner(o)).Token())
		require.ErrorIs(t, errOf(m.Lock(ctx, "b", lockmgr.AsOwner(o), lockmgr.Fenced())), lockmgr.ErrNotFenced)
	})
}

func TestReentry_ErrAfterTheUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		o := m.NewOwner()
		outer := mustLock(t, m, "a", lockmgr.AsOwner(o))
		inner := mustLock(t, m, "a", lockmgr.AsOwner(o))
		mustUnlock(t, inner)
		must(m.ForceUnlock(ctx, "a"))(t)
		<-outer.Lost()
		require.ErrorIs(t, outer.Err(), lockmgr.ErrLeaseLost)
		require.ErrorIs(t, inner.Err(), lockmgr.ErrNotHeld)
	})
}

// A re-entry with a lease that is longer than Options.Lease outlives a pause, also if the watchdog
// renews the hold. The extension ends with the re-entry, and with MaxHold.
func TestReentry_LongLeaseOfAWatchedHold(t *testing.T) {
	pass := func(d time.Duration) { <-time.After(d) }
	for _, kind := range kinds {
		if kind.title == "permits" {
			continue
		}
		inBubble(t, kind.title, func(t *testing.T, w *scene) {
			m, net := w.manager(lockmgr.Options{})
			as, hour := lockmgr.AsOwner(m.NewOwner()), lockmgr.FixedLease(time.Hour)
			l := mustAwait(t, kind.ask(m, "a", as))
			again := mustAwait(t, kind.ask(m, "a", as, hour))
			pass(second)
			net.cut()
			pass(50 * time.Minute)
			net.heal()
			require.True(t, l.Valid())
			require.True(t, again.Valid())
			pass(time.Minute)
			mustUnlock(t, again)
			pass(20 * second)
			if !l.IsSet() {
				require.LessOrEqual(t, w.server.TTL("a"), 30*second)
			}
			pass(time.Hour)
			mustUnlock(t, l)

			l = mustAwait(t, kind.ask(m, "a", as, lockmgr.MaxHold(time.Minute)))
			again = mustAwait(t, kind.ask(m, "a", as, hour))
			pass(second)
			require.LessOrEqual(t, again.Remaining(), 59*second)
			require.LessOrEqual(t, w.server.TTL("a"), 62*second)
			<-l.Lost()
		})
	}
}
