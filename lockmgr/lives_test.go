package lockmgr_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A process dies. Others get the name when the leases are over of those who held it then. What was
// asked for by somebody who has left before does not count.
func TestLife_FollowsThoseWhoHold(t *testing.T) {
	const lease, short, long = 3 * time.Second, 20 * time.Second, time.Hour
	type with = []lockmgr.LockOption
	shared, writer, fair, fixed := lockmgr.Shared(), lockmgr.Exclusive(), lockmgr.Fair(), lockmgr.FixedLease(long)
	for _, tt := range []struct {
		what             string
		reenters         bool // b re-enters the hold of a
		a, b             with
		extendA, extendB time.Duration
		leaves           string        // one of a and b
		wait             time.Duration // of others, for the one who stays
	}{
		{what: "a reader's fixed lease", a: with{shared, fixed}, b: with{shared}, leaves: "a", wait: lease},
		{what: "of one that joined", a: with{shared}, b: with{shared, fixed}, leaves: "b", wait: lease},
		{what: "of one that was cancelled", a: with{shared}, b: with{shared, fixed}, leaves: "b, not taken", wait: lease},
		{what: "another fixed lease", a: with{shared, fixed}, b: with{shared, lockmgr.FixedLease(short)}, leaves: "a", wait: short},
		{what: "a reader's extension", a: with{shared}, b: with{shared}, extendA: long, leaves: "a", wait: lease},
		{what: "an extension that is still wanted", a: with{shared, fixed}, b: with{shared}, extendB: short, leaves: "a", wait: short},
		{what: "a re-entry's extension", reenters: true, extendB: long, leaves: "b", wait: lease},
		{what: "a re-entry's fixed lease", reenters: true, a: with{lockmgr.FixedLease(short)}, b: with{fixed}, leaves: "b", wait: short},
		{what: "a fixed lease before a re-entry", reenters: true, a: with{fixed}, leaves: "a", wait: lease},
		{what: "of a fair lock", reenters: true, a: with{fair, fixed}, b: with{fair}, leaves: "a", wait: lease},
		{what: "a writer that goes on reading", reenters: true, a: with{writer, fixed}, b: with{shared}, leaves: "a", wait: lease},
		{what: "a reader that writes", reenters: true, a: with{shared, fixed}, b: with{writer}, leaves: "a", wait: lease},
	} {
		inBubble(t, tt.what, func(t *testing.T, w *scene) {
			m, n := w.manager(lockmgr.Options{Lease: lease})
			other, _ := w.manager(lockmgr.Options{Lease: lease})
			var as with
			if tt.reenters {
				as = with{lockmgr.AsOwner(m.NewOwner())}
			}
			stays := mustLock(t, m, "a", slices.Concat(as, tt.a)...)
			f := m.LockAsync("a", slices.Concat(as, tt.b, with{lockmgr.OnlyIfFree()})...)
			<-f.Done()
			if tt.leaves == "b, not taken" {
				require.True(t, f.Cancel())
			} else {
				a, b := stays, mustAwait(t, f)
				for l, d := range map[*lockmgr.Lock]time.Duration{a: tt.extendA, b: tt.extendB} {
					if d != 0 {
						require.NoError(t, l.Extend(ctx, d))
					}
				}
				time.Sleep(time.Second) // until a longer lease is set
				if tt.leaves == "b" {
					mustUnlock(t, b)
				} else {
					mustUnlock(t, a)
					stays = b
				}
			}
			id := stays.HolderID()
			time.Sleep(time.Second)
			require.True(t, stays.Valid())
			require.Equal(t, id, stays.HolderID())
			require.LessOrEqual(t, stays.Remaining(), tt.wait)
			n.cut()
			began := time.Now()
			kinds := map[string][]lockmgr.LockOption{"fair": {lockmgr.Fair()}, "read-write": {lockmgr.Exclusive()}}
			next := mustLock(t, other, "a", kinds[mustInspect(t, other, "a").Kind]...)
			require.False(t, stays.Valid())
			require.LessOrEqual(t, time.Since(began), tt.wait+200*time.Millisecond)
			mustUnlock(t, next)
			n.heal()
			time.Sleep(10 * time.Second) // until the manager that was cut off has given up its release
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
		require.Equal(t, renewals, m.Stats().RenewalScripts, "there is but one lock")
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
				inBubble(t, fmt.Sprintf("%v, %v left, joins=%v", fixed, left, joins), func(t *testing.T, w *scene) {
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

// An Extend that Close overtakes tells why the lock was lost.
func TestExtend_DuringClose(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var stopper lockmgr.Stopper
		m, _ := w.manager(stopper.Options(lockmgr.Options{}))
		l := mustLock(t, m, "a")
		resume := stopper.Stop(m)
		closed, extended := make(chan error, 1), make(chan error, 1)
		go func() { closed <- m.Close(ctx) }()
		synctest.Wait()
		go func() { extended <- l.Extend(ctx, time.Minute) }()
		synctest.Wait()
		resume()
		require.NoError(t, <-closed)
		require.ErrorIs(t, <-extended, lockmgr.ErrClosed)
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
		require.ErrorIs(t, l.Extend(endsIn(t, second), 10*second), context.DeadlineExceeded)
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
