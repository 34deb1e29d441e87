package lockmgr_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A process dies. Others get the name when the leases are over of those who held it then. What was
// asked for by somebody who has left before does not count.
func TestLife_FollowsThoseWhoHold(t *testing.T) {
	const lease, long = 3 * time.Second, time.Hour
	shared, fixed := lockmgr.Shared(), lockmgr.FixedLease(long)
	lock := func(t *testing.T, m *lockmgr.Manager, opts ...lockmgr.LockOption) *lockmgr.Lock {
		return mustLock(t, m, "a", opts...)
	}
	// Each returns who stays, and for how long others must wait then.
	tests := map[string]func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration){
		"a reader's fixed lease": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			a, b := lock(t, m, shared, fixed), lock(t, m, shared)
			mustUnlock(t, a)
			return b, lease
		},
		"of one that joined": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			a, b := lock(t, m, shared), lock(t, m, shared, fixed)
			time.Sleep(time.Second)
			mustUnlock(t, b)
			return a, lease
		},
		"of one that was cancelled": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			a, f := lock(t, m, shared), m.LockAsync("a", shared, fixed)
			<-f.Done()
			f.Cancel()
			return a, lease
		},
		"another fixed lease": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			a, b := lock(t, m, shared, fixed), lock(t, m, shared, lockmgr.FixedLease(20*time.Second))
			mustUnlock(t, a)
			return b, 20 * time.Second
		},
		"a reader's extension": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			a, b := lock(t, m, shared), lock(t, m, shared)
			require.NoError(t, a.Extend(ctx, long))
			mustUnlock(t, a)
			return b, lease
		},
		"an extension that is still wanted": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			a, b := lock(t, m, shared, fixed), lock(t, m, shared)
			require.NoError(t, b.Extend(ctx, 20*time.Second))
			mustUnlock(t, a)
			return b, 20 * time.Second
		},
		"a re-entry's extension": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			as := lockmgr.AsOwner(m.NewOwner())
			a, b := lock(t, m, as), lock(t, m, as)
			require.NoError(t, b.Extend(ctx, long))
			mustUnlock(t, b)
			return a, lease
		},
		"a re-entry's fixed lease": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			as := lockmgr.AsOwner(m.NewOwner())
			a, b := lock(t, m, as, lockmgr.FixedLease(10*time.Second)), lock(t, m, as, fixed)
			mustUnlock(t, b)
			return a, 10 * time.Second
		},
		"a fixed lease before a re-entry": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			as := lockmgr.AsOwner(m.NewOwner())
			a, b := lock(t, m, as, fixed), lock(t, m, as)
			mustUnlock(t, a)
			return b, lease
		},
		"of a fair lock": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			as := lockmgr.AsOwner(m.NewOwner())
			a, b := lock(t, m, as, lockmgr.Fair(), fixed), lock(t, m, as, lockmgr.Fair())
			mustUnlock(t, a)
			return b, lease
		},
		"a writer that goes on reading": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			as := lockmgr.AsOwner(m.NewOwner())
			a, b := lock(t, m, as, lockmgr.Exclusive(), fixed), lock(t, m, as, shared)
			mustUnlock(t, a)
			return b, lease
		},
		"a reader that writes": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			as := lockmgr.AsOwner(m.NewOwner())
			a := lock(t, m, as, shared, fixed)
			b := mustTryLock(t, m, "a", as, lockmgr.Exclusive())
			mustUnlock(t, a)
			return b, lease
		},
	}
	for what, do := range tests {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *scene) {
				m, n := w.manager(lockmgr.Options{Lease: lease})
				other, _ := w.manager(lockmgr.Options{Lease: lease})
				stays, wait := do(t, m)
				id := stays.HolderID()
				time.Sleep(time.Second)
				require.True(t, stays.Valid())
				require.Equal(t, id, stays.HolderID())
				require.LessOrEqual(t, stays.Remaining(), wait)
				n.cut()
				began := time.Now()
				kinds := map[string][]lockmgr.LockOption{"fair": {lockmgr.Fair()}, "read-write": {lockmgr.Exclusive()}}
				next := mustLock(t, other, "a", kinds[mustInspect(t, other, "a").Kind]...)
				require.False(t, stays.Valid())
				require.LessOrEqual(t, time.Since(began), wait+200*time.Millisecond)
				mustUnlock(t, next)
				n.heal()
				time.Sleep(10 * time.Second) // until the manager that was cut off has given up its release
			})
		})
	}
}

// Tests of the real actors and the real client in fake time.

// slack is how many goroutines may run that are not the manager's: pings of the client, and those
// of the test binary.
const slack = 10

func TestWatchdog_KeepsALockForHours(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l := mustLock(t, m, "a")
		time.Sleep(250 * milli) // off the beat of the client's pings
		synctest.Wait()
		before := runtime.NumGoroutine()
		for range 2 * 60 {
			time.Sleep(time.Minute)
			require.True(t, l.Valid())
			require.Greater(t, l.Remaining(), 15*second)
			require.Greater(t, w.server.TTL("a"), 18*second)
		}
		synctest.Wait()
		require.LessOrEqual(t, runtime.NumGoroutine(), before+slack)
		renewals := m.Stats().Renewals
		require.InDelta(t, 720, renewals, 90, "one renewal a tick of 10 s, up to an eighth later")
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
		require.ErrorContains(t, l.Err(), "fixed lease is over")
		require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
		next := mustAwait(t, f)
		require.Less(t, time.Since(start), 10*second, "the waiter need not wait until the record expires")
		mustUnlock(t, next)
	})
}

// A watched hold that joins a hold, or follows one, with a fixed lease is renewed in time, whatever
// is left of that lease.
func TestRenewal_AfterAFixedLease(t *testing.T) {
	const lease = 30 * time.Second
	for _, fixed := range []time.Duration{15 * time.Second, 29 * time.Second, 40 * time.Second} {
		for left := time.Second; left < fixed; left += time.Second {
			for _, joins := range []bool{true, false} {
				t.Run(fmt.Sprintf("%v, %v left, joins=%v", fixed, left, joins), func(t *testing.T) {
					bubble(t, func(t *testing.T, w *scene) {
						m, _ := w.manager(lockmgr.Options{Lease: lease})
						a := mustLock(t, m, "a", lockmgr.Shared(), lockmgr.FixedLease(fixed))
						time.Sleep(fixed - left)
						var b *lockmgr.Lock
						if joins {
							b = mustLock(t, m, "a", lockmgr.Shared())
						} else {
							f := m.LockAsync("a", lockmgr.Exclusive())
							synctest.Wait()
							mustUnlock(t, a)
							b = mustAwait(t, f)
						}
						time.Sleep(2 * lease)
						require.True(t, b.Valid())
						mustUnlock(t, b)
					})
				})
			}
		}
	}
}

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
