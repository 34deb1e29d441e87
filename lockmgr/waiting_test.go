package lockmgr_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A request may be granted what the one before it was refused. When that one leaves, no message
// tells the next.
func TestWaiter_BehindOneThatLeaves(t *testing.T) {
	type future = *futures.Future[*lockmgr.Lock]
	kept := func(t *testing.T, m *lockmgr.Manager) (string, func()) {
		l := mustLock(t, m, "a", lockmgr.KeepFor(time.Hour))
		mustUnlock(t, l)
		return l.HolderID(), func() {}
	}
	reads := func(t *testing.T, m *lockmgr.Manager) (string, func()) {
		l := mustLock(t, m, "a", lockmgr.Shared())
		return "", func() { mustUnlock(t, l) }
	}
	plain := func(opts ...lockmgr.LockOption) func(*lockmgr.Manager, string) future {
		return func(m *lockmgr.Manager, _ string) future { return m.LockAsync("a", opts...) }
	}
	permits := func(n int) func(*lockmgr.Manager, string) future {
		return func(m *lockmgr.Manager, _ string) future { return m.Permits("a", 3).AcquireAsync(n) }
	}
	takeOver := func(m *lockmgr.Manager, id string) future { return m.LockAsync("a", lockmgr.TakeOver(id)) }
	for title, row := range map[string]struct {
		held        func(*testing.T, *lockmgr.Manager) (id string, release func())
		first, next func(*lockmgr.Manager, string) future
	}{
		"writer, reader":             {reads, plain(lockmgr.Exclusive()), plain(lockmgr.Shared())},
		"plain, TakeOver":            {kept, plain(), takeOver},
		"another TakeOver, TakeOver": {kept, plain(lockmgr.TakeOver("nobody")), takeOver},
		"many permits, few": {func(t *testing.T, m *lockmgr.Manager) (string, func()) {
			l := must(m.Permits("a", 3).TryAcquire(ctx, 1))(t)
			return "", func() { mustUnlock(t, l) }
		}, permits(3), permits(2)},
	} {
		for i := range 4 {
			waits, here := i&1 != 0, i&2 != 0
			inBubble(t, fmt.Sprintf("%s, waits=%v, here=%v", title, waits, here), func(t *testing.T, w *scene) {
				m, other := w.managers(lockmgr.Options{})
				if here {
					other = m
				}
				id, release := row.held(t, other)
				first, next := row.first(m, id), row.next(m, id)
				if waits { // else the first try is in flight
					synctest.Wait()
				}
				first.Cancel()
				asked := time.Now()
				mustUnlock(t, mustAwait(t, next))
				require.Less(t, time.Since(asked), second)
				release()
			})
		}
	}
}

// Readers elsewhere, behind a writer in the line, come with the reader that was behind the writer
// here.
func TestWaiter_ElsewhereBehindOneThatLeaves(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{})
		third, _ := w.manager(lockmgr.Options{})
		held := mustLock(t, other, "a", lockmgr.Shared())
		writer, reader := m.LockAsync("a", lockmgr.Exclusive()), m.LockAsync("a", lockmgr.Shared())
		synctest.Wait()
		elsewhere := third.LockAsync("a", lockmgr.Shared())
		synctest.Wait()
		left := time.Now()
		writer.Cancel()
		first, second := mustAwait(t, reader), mustAwait(t, elsewhere)
		require.Less(t, time.Since(left), 100*milli)
		mustUnlock(t, held, first, second)
	})
}

func TestMaxWait_TimesOut(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{})
		l := mustLock(t, other, "a")
		start := time.Now()
		_, err := m.Lock(ctx, "a", lockmgr.MaxWait(3*second))
		require.ErrorIs(t, err, lockmgr.ErrWaitTimeout)
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
		require.Equal(t, 3*second, time.Since(start).Round(milli))
		_, err = m.TryLock(ctx, "a")
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
		require.NotErrorIs(t, err, lockmgr.ErrWaitTimeout)
		must(m.LockAsync("b", lockmgr.MaxWait(math.MaxInt64)).Await(ctx))(t, "the longest wait is not a negative one")
		require.ErrorIs(t, errOf(m.Lock(endsIn(t, second), "a")), context.DeadlineExceeded)
		mustUnlock(t, l)
		time.Sleep(10 * second)
		require.Equal(t, 1, m.Stats().Locks, "b: no waiter, no subscription, no alarm")
		require.Zero(t, m.Stats().Subscriptions)
		require.Zero(t, m.Stats().Pending)
		require.Empty(t, w.server.PubSubChannels("*"))
	})
}

// A thousand callers of one process get a lock in their order, with few scripts.
func TestWaiter_Order(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l := mustLock(t, m, "a")
		const callers = 1000
		var order []int
		for i := range callers {
			m.LockAsync("a").OnDone(func(l *lockmgr.Lock, err error) {
				order = append(order, i) // one at a time
				l.UnlockAsync()
			})
		}
		mustUnlock(t, l)
		time.Sleep(second)
		synctest.Wait()
		require.Len(t, order, callers)
		require.IsIncreasing(t, order)
		require.Less(t, m.Stats().Scripts, uint64(25))
	})
}

func TestDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		b := m.NewOwner()
		x, y := mustLock(t, m, "x"), mustLock(t, m, "y", lockmgr.AsOwner(b))
		a := x.Owner() // it was not named when x was taken
		f := m.LockAsync("y", lockmgr.AsOwner(a))
		_, err := m.Lock(ctx, "x", lockmgr.AsOwner(b), lockmgr.MaxWait(time.Minute))
		require.ErrorIs(t, err, lockmgr.ErrDeadlock)
		var cycle *lockmgr.DeadlockError
		require.True(t, errors.As(err, &cycle))
		require.ElementsMatch(t, []lockmgr.Edge{
			{Owner: b.String(), Name: "x", Holder: a.String()},
			{Owner: a.String(), Name: "y", Holder: b.String()},
		}, cycle.Cycle)
		require.Contains(t, err.Error(), `"x"`)
		mustUnlock(t, y)
		mustUnlock(t, must(f.Await(ctx))(t, "the older request lives on"))
		mustUnlock(t, x)
	})
}

// Another client may shorten the life of its record, or die, without a message. A waiter of any
// kind looks every few seconds, whatever the waiter was told before.
func TestWaiter_LooksAgainBeforeTheTTLThatItWasTold(t *testing.T) {
	hold := func(s *miniredis.Miniredis, k kind, life time.Duration) {
		switch {
		case k.kind == "permits":
			_ = s.Set("a", "0")
			_, _ = s.ZAdd("{a}:timeout", float64(time.Now().Add(life).UnixMilli()), "permit of others")
			return
		case k.title == "writer":
			s.HSet("a", "mode", "read", "java:1", "1")
			_ = s.Set("{a}:java:1:rwlock_timeout:1", "1")
			s.SetTTL("{a}:java:1:rwlock_timeout:1", life)
		case k.kind == "read-write":
			s.HSet("a", "mode", "write", "java:1:write", "1")
		default:
			s.HSet("a", "java:1", "1")
		}
		s.SetTTL("a", life)
	}
	for _, kind := range kinds {
		inBubble(t, kind.title, func(t *testing.T, w *scene) {
			m, _ := w.manager(lockmgr.Options{})
			hold(w.server, kind, 20*second)
			f := kind.ask(m, "a")
			synctest.Wait()
			requirePending(t, f)
			hold(w.server, kind, 2*second)
			start := time.Now()
			l := mustAwait(t, f)
			require.Less(t, time.Since(start), 6*second)
			mustUnlock(t, l)
		})
	}
}

// A burst of requests does not delay answers of the server: the deadline of a lease may depend on
// them.
func TestManager_AnswersOvertakeRequests(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var stopper lockmgr.Stopper
		m, net := w.manager(stopper.Options(lockmgr.Options{}))
		held := mustLock(t, m, "held")
		net.delay.Store(int64(milli))
		answered := m.LockAsync("a")
		synctest.Wait() // its command is sent
		resume := stopper.Stop(m)
		const n = 1000
		var order []string // callbacks are the only ones to write
		answered.OnDone(func(l *lockmgr.Lock, err error) {
			order = append(order, "answered")
			l.UnlockAsync()
		})
		for range n {
			m.LockAsync("held", lockmgr.MaxWait(1)).OnDone(func(*lockmgr.Lock, error) { order = append(order, "requested") })
		}
		time.Sleep(2 * milli) // the answer has come
		synctest.Wait()
		resume()
		time.Sleep(10 * milli)
		synctest.Wait()
		require.Len(t, order, n+1)
		require.Equal(t, "answered", order[0])
		mustUnlock(t, held)
	})
}
