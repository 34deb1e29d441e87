package lockmgr_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Tests of the real actors and the real client in fake time.

// slack is for goroutines that are not the manager's: pings of the client, and
// what the test binary runs beside the test.
const slack = 10

func TestWatchdogKeepsALockForHours(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
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
		require.NoError(t, l.Unlock(ctx))
		require.False(t, closedNow(l.Lost()))
		time.Sleep(time.Hour)
		require.Equal(t, renewals, m.Stats().Renewals, "nothing is renewed after the unlock")
		require.Zero(t, m.Stats().Locks)
	})
}

func TestFixedLeaseEndsOnTime(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		start := time.Now()
		l, err := m.Lock(ctx, "a", lockmgr.FixedLease(10*second))
		require.NoError(t, err)
		f := m.LockAsync("a")
		<-l.Lost()
		// 10 s less 1 % less the margin of 2 ms.
		require.Equal(t, 9898*milli, time.Since(start).Round(milli))
		require.False(t, l.Valid())
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
		next, err := f.Await(ctx)
		require.NoError(t, err)
		require.Less(t, time.Since(start), 10*second, "the waiter need not wait for Redis to forget")
		require.NoError(t, next.Unlock(ctx))
	})
}

func TestLossIsSeenAtTheNextRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		w.server.Del("a")
		start := time.Now()
		<-l.Lost()
		require.LessOrEqual(t, time.Since(start), 12*second)
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		require.False(t, w.server.Exists("a"), "a renewal must not bring the record back")
	})
}

func TestForceUnlockIsSeenAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		start := time.Now()
		there, err := m.ForceUnlock(ctx, "a")
		require.NoError(t, err)
		require.True(t, there)
		<-l.Lost()
		require.Less(t, time.Since(start), second)
		there, err = m.ForceUnlock(ctx, "a")
		require.NoError(t, err)
		require.False(t, there)
	})
}

func TestSilentServerLosesTheLockAtTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		start := time.Now()
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		net.hush()
		c := l.Context(ctx)
		<-l.Lost()
		require.Equal(t, 29698*milli, time.Since(start).Round(milli))
		require.ErrorIs(t, context.Cause(c), lockmgr.ErrLeaseLost)
		net.heal()
		again, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		require.NoError(t, again.Unlock(ctx))
		time.Sleep(time.Minute)
		require.Zero(t, m.Stats().Locks)
	})
}

func TestRenewalFailuresAreSurvived(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		time.Sleep(9 * second)
		net.cut()
		time.Sleep(14 * second) // a renewal was due at 10 s
		require.True(t, l.Valid())
		net.heal()
		time.Sleep(time.Minute)
		require.True(t, l.Valid(), "the renewal is tried again before the deadline")
		require.NoError(t, l.Unlock(ctx))
	})
}

// warm makes the server know the scripts.
func warm(t *testing.T, m *lockmgr.Manager) {
	l, err := m.Lock(ctx, "warm")
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
}

// The reply to an acquire is lost, but the script ran: the request must be
// granted all the same, and be the only owner.
func TestLostReplyToAcquire(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		warm(t, m)
		start := time.Now()
		net.lose.Store(true)
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		require.Less(t, time.Since(start), second)
		require.Equal(t, []string{l.HolderID()}, w.owners("a"))
		require.NoError(t, l.Unlock(ctx))
		require.Empty(t, w.owners("a"))
		time.Sleep(10 * second)
		require.Zero(t, m.Stats().Locks)
	})
}

// The same, but the caller leaves: no orphan may stay until its lease ends.
func TestLostReplyToAcquireAndCancel(t *testing.T) {
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

func TestLostReplyToTryLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		warm(t, m)
		net.lose.Store(true)
		_, err := m.TryLock(ctx, "a")
		require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		time.Sleep(second)
		require.Empty(t, w.owners("a"))
	})
}

func TestLostReplyToRelease(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		warm(t, m)
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		net.lose.Store(true)
		require.NoError(t, l.Unlock(ctx), "gone, as was wished")
		require.Empty(t, w.owners("a"))
	})
}

func TestUnlockOutlivesItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
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

// A holder that died sends no message: the waiter finds out when the record
// has expired.
func TestDeadHolder(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		dead, net := w.manager(lockmgr.Options{Lease: 10 * second})
		m, _ := w.manager(lockmgr.Options{})
		_, err := dead.Lock(ctx, "a")
		require.NoError(t, err)
		net.hush()
		start := time.Now()
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), 9900*milli)
		require.LessOrEqual(t, time.Since(start), 10200*milli)
		require.LessOrEqual(t, m.Stats().Scripts, uint64(4), "the waiter tries, tries again when subscribed, and polls")
		require.NoError(t, l.Unlock(ctx))
	})
}

// A message that got lost costs a wait until the record's TTL, no more.
func TestPollCoversLostMessages(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m1, _ := w.manager(lockmgr.Options{})
		m2, net := w.manager(lockmgr.Options{})
		l, err := m1.Lock(ctx, "a", lockmgr.FixedLease(20*second))
		require.NoError(t, err)
		f := m2.LockAsync("a")
		time.Sleep(second)
		net.cut()
		require.NoError(t, l.Unlock(ctx)) // m2 hears nothing
		net.heal()
		start := time.Now()
		l2, err := f.Await(ctx)
		require.NoError(t, err)
		require.Less(t, time.Since(start), 3*second, "the new subscription is a reason to try")
		require.NoError(t, l2.Unlock(ctx))
	})
}

func TestWaitTimesOut(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		other, _ := w.manager(lockmgr.Options{})
		l, err := other.Lock(ctx, "a")
		require.NoError(t, err)
		start := time.Now()
		_, err = m.Lock(ctx, "a", lockmgr.MaxWait(3*second))
		require.ErrorIs(t, err, lockmgr.ErrWaitTimeout)
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
		require.Equal(t, 3*second, time.Since(start).Round(milli))
		_, err = m.TryLock(ctx, "a")
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
		require.NotErrorIs(t, err, lockmgr.ErrWaitTimeout)
		_, err = m.LockAsync("b", lockmgr.MaxWait(math.MaxInt64)).Await(ctx)
		require.NoError(t, err, "the longest wait is not a negative one")
		short, cancel := context.WithTimeout(ctx, second)
		defer cancel()
		_, err = m.Lock(short, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, l.Unlock(ctx))
		time.Sleep(10 * second)
		require.Equal(t, 1, m.Stats().Locks, "b: no waiter, no subscription, no alarm")
		require.Zero(t, m.Stats().Subscriptions)
		require.Zero(t, m.Stats().Pending)
		require.Empty(t, w.server.PubSubChannels("*"))
	})
}

func TestWaitersCostNoGoroutines(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		other, _ := w.manager(lockmgr.Options{})
		l, err := other.Lock(ctx, "a")
		require.NoError(t, err)
		first := m.LockAsync("a")
		time.Sleep(1250 * milli)
		synctest.Wait()
		before := runtime.NumGoroutine()
		fs := []*futures.Future[*lockmgr.Lock]{first}
		for range 5000 {
			fs = append(fs, m.LockAsync("a"), m.LockAsync("a", lockmgr.MaxWait(time.Hour)))
		}
		time.Sleep(second)
		synctest.Wait()
		require.LessOrEqual(t, runtime.NumGoroutine(), before+slack)
		require.Equal(t, len(fs), m.Stats().Waiting)
		for i, f := range fs {
			if i%2 == 0 {
				require.True(t, f.Cancel())
			}
		}
		require.NoError(t, l.Unlock(ctx))
		for i, f := range fs {
			got, err := f.Await(ctx)
			if i%2 == 0 {
				require.ErrorIs(t, err, lockmgr.ErrCanceled)
				continue
			}
			require.NoError(t, err)
			require.NoError(t, got.Unlock(ctx))
		}
		time.Sleep(10 * second)
		require.Zero(t, m.Stats().Locks)
	})
}

func TestOrderOfWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		var order []int
		for i := range 100 {
			m.LockAsync("a").OnDone(func(l *lockmgr.Lock, err error) {
				order = append(order, i) // one at a time
				l.UnlockAsync()
			})
		}
		require.NoError(t, l.Unlock(ctx))
		time.Sleep(second)
		synctest.Wait()
		require.Len(t, order, 100)
		require.IsIncreasing(t, order)
	})
}

func TestReentry(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		o := m.NewOwner()
		l1, err := m.Lock(ctx, "a", lockmgr.AsOwner(o))
		require.NoError(t, err)
		scripts := m.Stats().Scripts
		l2, err := m.Lock(lockmgr.WithOwner(ctx, o), "a")
		require.NoError(t, err)
		l3, err := m.TryLock(ctx, "a", lockmgr.AsOwner(o), lockmgr.FixedLease(10*milli))
		require.NoError(t, err)
		require.Equal(t, scripts, m.Stats().Scripts, "re-entry takes no round trip")
		require.Equal(t, "1", w.server.HGet("a", l1.HolderID()))
		time.Sleep(time.Minute)
		require.True(t, l3.Valid(), "a shorter lease does not shorten what is held")
		_, err = m.TryLock(ctx, "a")
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
		inner := l2.Context(ctx)
		for i, l := range []*lockmgr.Lock{l2, l1, l3} {
			require.Equal(t, []string{l1.HolderID()}, w.owners("a"), i)
			require.True(t, l.Valid())
			require.NoError(t, l.Unlock(ctx))
			require.False(t, l.Valid())
			require.ErrorIs(t, l.Err(), lockmgr.ErrNotHeld)
		}
		require.ErrorIs(t, context.Cause(inner), lockmgr.ErrNotHeld)
		require.Empty(t, w.owners("a"))
	})
}

func TestReentryWithLongerLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		o := m.NewOwner()
		_, err := m.Lock(ctx, "a", lockmgr.AsOwner(o), lockmgr.FixedLease(second))
		require.NoError(t, err)
		l, err := m.Lock(ctx, "a", lockmgr.AsOwner(o), lockmgr.FixedLease(time.Minute))
		require.NoError(t, err)
		time.Sleep(50 * second)
		require.True(t, l.Valid())
		time.Sleep(10 * second)
		require.False(t, l.Valid())

		_, err = m.Lock(ctx, "b", lockmgr.AsOwner(o), lockmgr.FixedLease(second))
		require.NoError(t, err)
		l, err = m.Lock(ctx, "b", lockmgr.AsOwner(o))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.True(t, l.Valid(), "the watchdog has taken over")
		require.NoError(t, l.Unlock(ctx))
	})
}

func TestFencing(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m1, _ := w.manager(lockmgr.Options{PassCount: 3})
		m2, _ := w.manager(lockmgr.Options{PassCount: 3})
		var mu sync.Mutex
		var last int64
		for range 5 {
			var fs []*futures.Future[*lockmgr.Lock]
			for range 8 {
				fs = append(fs, m1.LockAsync("a", lockmgr.Fenced()), m2.LockAsync("a", lockmgr.Fenced()))
			}
			done := make(chan struct{})
			left := len(fs)
			for _, f := range fs {
				f.OnDone(func(l *lockmgr.Lock, err error) {
					go func() {
						mu.Lock() // for the race detector: one at a time holds the lock
						defer mu.Unlock()
						if l.Token() <= last {
							t.Errorf("token %d after %d", l.Token(), last)
						}
						last = l.Token()
						left--
						if left == 0 {
							close(done)
						}
						l.UnlockAsync()
					}()
				})
			}
			<-done
		}
		o := m1.NewOwner()
		l, err := m1.Lock(ctx, "a", lockmgr.AsOwner(o), lockmgr.Fenced())
		require.NoError(t, err)
		require.Greater(t, l.Token(), last)
		again, err := m1.Lock(ctx, "a", lockmgr.AsOwner(o), lockmgr.Fenced())
		require.NoError(t, err)
		require.Equal(t, l.Token(), again.Token(), "a re-entry has the token of its hold")
		plain, err := m1.Lock(ctx, "b", lockmgr.AsOwner(o))
		require.NoError(t, err)
		require.Zero(t, plain.Token())
		_, err = m1.Lock(ctx, "b", lockmgr.AsOwner(o), lockmgr.Fenced())
		require.ErrorIs(t, err, lockmgr.ErrNotFenced)
	})
}

func TestDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		a, b := m.NewOwner(), m.NewOwner()
		x, err := m.Lock(ctx, "x", lockmgr.AsOwner(a))
		require.NoError(t, err)
		y, err := m.Lock(ctx, "y", lockmgr.AsOwner(b))
		require.NoError(t, err)
		f := m.LockAsync("y", lockmgr.AsOwner(a))
		_, err = m.Lock(ctx, "x", lockmgr.AsOwner(b))
		require.ErrorIs(t, err, lockmgr.ErrDeadlock)
		var cycle *lockmgr.DeadlockError
		require.True(t, errors.As(err, &cycle))
		require.ElementsMatch(t, []lockmgr.Edge{
			{Owner: b.String(), Name: "x", Holder: a.String()},
			{Owner: a.String(), Name: "y", Holder: b.String()},
		}, cycle.Cycle)
		require.Contains(t, err.Error(), `"x"`)
		require.NoError(t, y.Unlock(ctx))
		y, err = f.Await(ctx)
		require.NoError(t, err, "the older request lives on")
		require.NoError(t, y.Unlock(ctx))
		require.NoError(t, x.Unlock(ctx))
	})
}

func TestCloseEndsEverything(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		other, _ := w.manager(lockmgr.Options{})
		foreign, err := other.Lock(ctx, "foreign")
		require.NoError(t, err)
		var held []*lockmgr.Lock
		for _, name := range []string{"a", "b", "c"} {
			l, err := m.Lock(ctx, name)
			require.NoError(t, err)
			held = append(held, l)
		}
		waiters := []*futures.Future[*lockmgr.Lock]{m.LockAsync("a"), m.LockAsync("foreign"), m.LockAsync("foreign", lockmgr.MaxWait(time.Hour))}
		time.Sleep(second)
		c := held[0].Context(ctx)
		done := make(chan error)
		for range 3 {
			go func() { done <- m.Close(ctx) }()
		}
		for range 3 {
			require.NoError(t, <-done)
		}
		for _, f := range waiters {
			_, err := f.Result()
			require.ErrorIs(t, err, lockmgr.ErrClosed)
		}
		for _, l := range held {
			require.True(t, closedNow(l.Lost()))
			require.ErrorIs(t, l.Err(), lockmgr.ErrClosed)
			require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrClosed)
			require.Empty(t, w.owners(l.Name()))
		}
		require.ErrorIs(t, context.Cause(c), lockmgr.ErrClosed)
		require.NoError(t, foreign.Unlock(ctx))
		time.Sleep(5 * second)
		require.Empty(t, w.server.PubSubChannels("*"))
	})
}

func TestClosePastItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		n := &network{server: w.server}
		m := dialNetwork(t, n, lockmgr.Options{})
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		n.hush()
		short, cancel := context.WithTimeout(ctx, second)
		defer cancel()
		start := time.Now()
		err = m.Close(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Contains(t, err.Error(), "releases not confirmed: 1")
		require.Less(t, time.Since(start), 5*second)
		require.ErrorIs(t, l.Err(), lockmgr.ErrClosed)
		require.True(t, w.server.Exists("a"))
		time.Sleep(30 * second)
		require.False(t, w.server.Exists("a"))
	})
}

func TestServerDownTellsWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{RetryTime: 3 * second})
		net.cut()
		start := time.Now()
		_, err := m.TryLock(ctx, "a")
		require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		require.Less(t, time.Since(start), second)
		_, err = m.Lock(ctx, "a")
		require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		require.GreaterOrEqual(t, time.Since(start), 3*second)
		require.Less(t, time.Since(start), 5*second)
		f := m.LockAsync("a")
		time.Sleep(second)
		net.heal()
		l, err := f.Await(ctx)
		require.NoError(t, err, "a server that comes back in time is waited for")
		require.NoError(t, l.Unlock(ctx))
	})
}

func TestObserver(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var events []lockmgr.Event
		m, _ := w.manager(lockmgr.Options{Observer: func(e lockmgr.Event) { events = append(events, e) }})
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		f := m.LockAsync("a")
		require.NoError(t, l.Unlock(ctx))
		l2, err := f.Await(ctx)
		require.NoError(t, err)
		require.NoError(t, l2.Unlock(ctx))
		synctest.Wait()
		require.Equal(t, []lockmgr.Event{
			lockmgr.EventGranted{Name: "a", Owner: l.HolderID()},
			lockmgr.EventUnlocked{Name: "a", Owner: l.HolderID()},
			lockmgr.EventGranted{Name: "a", Owner: l2.HolderID(), Passed: true},
			lockmgr.EventReleased{Name: "a"},
			lockmgr.EventUnlocked{Name: "a", Owner: l2.HolderID()},
		}, withoutConnection(events))
	})
}

// withoutConnection leaves out what concerns no lock, and the times.
func withoutConnection(events []lockmgr.Event) (out []lockmgr.Event) {
	for _, e := range events {
		switch e := e.(type) {
		case lockmgr.EventSubscription, lockmgr.EventCommand:
		case lockmgr.EventGranted:
			e.At, e.Context, e.Waited = time.Time{}, nil, 0
			out = append(out, e)
		case lockmgr.EventUnlocked:
			e.At, e.Context, e.Held, e.Took = time.Time{}, nil, 0, 0
			out = append(out, e)
		case lockmgr.EventReleased:
			e.At = time.Time{}
			out = append(out, e)
		default:
			out = append(out, e)
		}
	}
	return out
}

// A message may be missed before the subscription is confirmed. So there is a try
// when it is, well before a poll.
func TestAConfirmationIsATry(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		w.server.HSet("a", "somebody:1", "1")
		w.server.SetTTL("a", time.Minute)
		m, _ := w.manager(lockmgr.Options{})
		f := m.LockAsync("a")
		time.Sleep(5 * milli)
		require.EqualValues(t, 2, m.Stats().Scripts, "when it was asked for, and when the subscription was confirmed")
		require.Zero(t, m.Stats().Polls)
		f.Cancel()
	})
}
