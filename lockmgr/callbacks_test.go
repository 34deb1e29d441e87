package lockmgr_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// hang registers a callback that does not return before leave is called.
func hang[T any](f *futures.Future[T]) (leave func()) {
	c := make(chan struct{})
	f.OnDone(func(T, error) { <-c })
	return sync.OnceFunc(func() { close(c) })
}

// hungs are ways to make a callback of a manager hang until leave is called.
var hungs = map[string]func(t *testing.T, m *lockmgr.Manager) (leave func()){
	"granted": func(_ *testing.T, m *lockmgr.Manager) func() { return hang(m.LockAsync("hung")) },
	"failed": func(t *testing.T, m *lockmgr.Manager) func() {
		mustLock(t, m, "hung")
		return hang(m.LockAsync("hung", lockmgr.MaxWait(milli)))
	},
	"cancelled": func(t *testing.T, m *lockmgr.Manager) func() {
		mustLock(t, m, "hung")
		f := m.LockAsync("hung")
		leave := hang(f)
		require.True(t, f.Cancel())
		return leave
	},
	"unlocked": func(t *testing.T, m *lockmgr.Manager) func() { return hang(mustLock(t, m, "hung").UnlockAsync()) },
	"All": func(_ *testing.T, m *lockmgr.Manager) func() {
		return hang(futures.All(nil, m.LockAsync("hung"), m.LockAsync("too")))
	},
	"Any": func(_ *testing.T, m *lockmgr.Manager) func() {
		return hang(futures.Any(nil, m.LockAsync("hung"), m.LockAsync("too")))
	},
	"All of All": func(_ *testing.T, m *lockmgr.Manager) func() {
		return hang(futures.All(nil, futures.All(nil, m.LockAsync("hung"))))
	},
	"an input that All cancels": func(t *testing.T, m *lockmgr.Manager) func() {
		mustLock(t, m, "hung")
		f := m.LockAsync("hung")
		leave := hang(f)
		futures.All(nil, m.LockAsync("hung", lockmgr.MaxWait(milli)), f)
		return leave
	},
	"drop of All": func(t *testing.T, m *lockmgr.Manager) func() {
		mustLock(t, m, "hung")
		leave := make(chan struct{})
		futures.All(func(*lockmgr.Lock) { <-leave }, m.LockAsync("too"), m.LockAsync("hung", lockmgr.MaxWait(milli)))
		return sync.OnceFunc(func() { close(leave) })
	},
	"drop of Any": func(_ *testing.T, m *lockmgr.Manager) func() {
		leave := make(chan struct{})
		f := m.LockAsync("too")
		futures.Any(func(*lockmgr.Lock) { <-leave }, m.LockAsync("hung"), f, m.LockAsync("three"))
		return sync.OnceFunc(func() { close(leave) })
	},
}

// A callback that does not return delays no other lock: others are granted, renewed and unlocked,
// and their loss is reported in time.
func TestCallback_ThatHangsDelaysOnlyCallbacks(t *testing.T) {
	for name, hung := range hungs {
		inBubble(t, name, func(t *testing.T, w *scene) {
			m, net := w.manager(lockmgr.Options{Lease: second})
			net.delay.Store(int64(milli)) // the callbacks come before the answers
			leave := hung(t, m)
			defer leave()
			time.Sleep(10 * milli)
			keepThroughTrouble(t, w, m)
			l := mustAwait(t, futures.All(nil, m.LockAsync("a"), m.LockAsync("b")))
			mustUnlock(t, l[0], l[1])
		})
	}
}

// Callbacks run in the order of the results, one at a time, and none is dropped, however many wait.
func TestCallback_WaitsInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		net.delay.Store(int64(milli))
		leave := hang(m.LockAsync("hung"))
		l := mustLock(t, m, "a")
		const n = 2 * lockmgr.MaxUndelivered
		var order []int // callbacks are the only ones to write
		for i := range n {
			f := m.LockAsync("a")
			f.OnDone(func(_ *lockmgr.Lock, err error) {
				require.ErrorIs(t, err, lockmgr.ErrCanceled)
				order = append(order, i)
			})
			require.True(t, f.Cancel(), "it does not wait for its callback")
		}
		synctest.Wait()
		require.Zero(t, m.Stats().Pending)
		require.Empty(t, order)
		leave()
		synctest.Wait()
		require.Len(t, order, n)
		require.IsIncreasing(t, order)
		mustUnlock(t, l)
	})
}

// A lock belongs to its callback as soon as the callback is queued.
func TestCallback_HasTakenTheLockOnceQueued(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		net.delay.Store(int64(milli))
		leave := hang(m.LockAsync("hung"))
		f := m.LockAsync("a")
		var got *lockmgr.Lock
		f.OnDone(func(l *lockmgr.Lock, err error) { got = l })
		time.Sleep(second)
		require.False(t, f.Cancel(), "the callback is queued")
		synctest.Wait()
		require.Nil(t, got)
		l := must(f.Result())(t)
		require.True(t, l.Valid())
		leave()
		synctest.Wait()
		require.Same(t, l, got)
		require.True(t, got.Valid())
		mustUnlock(t, got)
	})
}

// A callback may call methods that wait for the manager: the manager does not wait for the
// callback.
func TestCallback_MayWaitForTheManager(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		net.delay.Store(int64(milli))
		var steps []string
		done := func(what string, err error) {
			require.NoError(t, err, what)
			steps = append(steps, what)
		}
		m.LockAsync("a").OnDone(func(l *lockmgr.Lock, err error) {
			done("granted", err)
			_, err = m.Lock(ctx, "b")
			done("Lock", err)
			other, err := m.LockAsync("c").Await(ctx)
			done("Await", err)
			done("Extend", other.Extend(ctx, time.Minute))
			other.UnlockAsync().OnDone(func(_ struct{}, err error) { done("queued behind", err) })
			done("Unlock", l.Unlock(ctx))
		})
		time.Sleep(second)
		synctest.Wait()
		require.Equal(t, []string{"granted", "Lock", "Await", "Extend", "Unlock", "queued behind"}, steps)
	})
}

// A callback that ends its goroutine, as a failed check of a test does, does not keep other
// callbacks from running.
func TestCallback_Goexit(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		net.delay.Store(int64(milli))
		ran := 0
		for range 3 {
			m.LockAsync("a").OnDone(func(l *lockmgr.Lock, _ error) {
				ran++
				l.UnlockAsync()
				runtime.Goexit()
			})
		}
		time.Sleep(second)
		synctest.Wait()
		require.Equal(t, 3, ran)
	})
}

// Close waits for queued callbacks, for two seconds at most and no longer than its context allows.
// Callbacks that are left run after that.
func TestClose_WaitsForCallbacksForATime(t *testing.T) {
	for name, test := range map[string]struct {
		takes, limit time.Duration // of each callback; of Close's context
		want         time.Duration // of Close
	}{
		"quick callbacks":   {100 * milli, time.Hour, 300 * milli},
		"slow callbacks":    {5 * second, time.Hour, 2 * second},
		"an impatient call": {5 * second, 150 * milli, 150 * milli},
	} {
		inBubble(t, name, func(t *testing.T, w *scene) {
			m := dialNetwork(t, &network{server: w.server}, lockmgr.Options{})
			mustLock(t, m, "a")
			var got []error
			for range 3 {
				m.LockAsync("a").OnDone(func(_ *lockmgr.Lock, err error) {
					time.Sleep(test.takes)
					got = append(got, err)
				})
			}
			begin := time.Now()
			require.NoError(t, m.Close(endsIn(t, test.limit)))
			require.Equal(t, test.want, time.Since(begin))
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Len(t, got, 3)
			for _, err := range got {
				require.ErrorIs(t, err, lockmgr.ErrClosed)
			}
		})
	}
}

// A callback that closes its manager waits for itself, but not for ever.
func TestCallback_MayClose(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m := dialNetwork(t, &network{server: w.server}, lockmgr.Options{})
		begin := time.Now()
		held := mustLock(t, m, "a")
		closed := make(chan error)
		m.LockAsync("a").OnDone(func(l *lockmgr.Lock, err error) { closed <- errors.Join(err, m.Close(ctx)) })
		held.UnlockAsync()
		require.NoError(t, <-closed)
		require.Equal(t, 2*second, time.Since(begin))
		require.Empty(t, w.owners("a"))
	})
}

// A granted lock has exactly one keeper: its future until somebody takes it.
func TestCancel_AfterTheGrantGivesTheLockBack(t *testing.T) {
	m := dialMini(t, lockmgr.Options{})
	f := m.LockAsync("a")
	<-f.Done()
	require.Equal(t, 1, m.Stats().Held)
	next := m.LockAsync("a")
	require.True(t, f.Cancel())
	require.ErrorIs(t, errOf(f.Result()), lockmgr.ErrCanceled)
	mustUnlock(t, must(next.Await(ctx))(t, "the next waiter gets it"))
	awaitIdle(t, m)
}

// A lock whose fixed lease ended while it was in its future needs no unlock, and its loss is
// counted once.
func TestCancel_OfALockLostInItsFuture(t *testing.T) {
	m := dialMini(t, lockmgr.Options{})
	f := m.LockAsync("a", lockmgr.FixedLease(lockmgr.MinLease))
	<-f.Done()
	faults.Eventually(t, func() bool { return m.Stats().Losses == 1 })
	require.True(t, f.Cancel())
	awaitIdle(t, m)
}

// A combinator that fails or is cancelled gives back all locks, and Any all but one.
func TestCombinator_ThatFailsKeepsNoLock(t *testing.T) {
	m := dialMini(t, lockmgr.Options{})
	held := mustLock(t, m, "held")

	require.ErrorIs(t, errOf(futures.All(nil, m.LockAsync("a"), m.LockAsync("b"), m.LockAsync("held", lockmgr.MaxWait(0))).Await(ctx)), lockmgr.ErrNotAcquired)

	short := endsIn(t, 5*time.Millisecond)
	require.ErrorIs(t, errOf(futures.All(nil, m.LockAsync("a"), m.LockAsync("held")).Await(short)), context.DeadlineExceeded)

	f := futures.All(nil, m.LockAsync("a"), m.LockAsync("b"))
	<-f.Done()
	require.True(t, f.Cancel())

	one := futures.Any(nil, m.LockAsync("a"), m.LockAsync("b"))
	<-one.Done()
	require.True(t, one.Cancel())

	l := mustAwait(t, futures.Any(nil, m.LockAsync("a"), m.LockAsync("b")))
	require.NoError(t, errors.Join(l.Unlock(ctx), held.Unlock(ctx)))
	awaitIdle(t, m)
}
