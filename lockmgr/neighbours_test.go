package lockmgr_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A message makes a holder look, which costs a script. The lock stays.
func TestLock_MessageWithoutALoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{Linger: time.Hour})
		first := mustLock(t, other, "a")
		f := m.LockAsync("a")
		time.Sleep(second) // it subscribes
		mustUnlock(t, first)
		l := mustAwait(t, f)
		before := m.Stats().Scripts
		w.server.Publish("redisson_lock__channel:{a}", "0")
		time.Sleep(second)
		require.True(t, l.Valid())
		require.Equal(t, before+1, m.Stats().Scripts)
		mustUnlock(t, l)
	})
}

// A removed holder of any kind looks at once, also if others wait or other readers stay.
func TestForceUnlock_HolderOfAnyKindLooksAtOnce(t *testing.T) {
	for _, tt := range []struct {
		before, holds string // the hold that m has waited for, and its own
		waits         string // behind the hold of m
		stays         bool   // another reader
	}{
		{before: "plain", holds: "plain"},
		{before: "plain", holds: "plain", waits: "plain"},
		{before: "fair", holds: "fair"},
		{before: "fair", holds: "fair", waits: "fair"},
		{before: "writer", holds: "writer"},
		{before: "writer", holds: "writer", waits: "writer"},
		{before: "writer", holds: "writer", waits: "reader"},
		{before: "writer", holds: "reader"},
		{before: "writer", holds: "reader", waits: "writer"},
		{before: "writer", holds: "reader", stays: true},
		{before: "writer", holds: "reader", stays: true, waits: "writer"},
		{before: "plain", holds: "set"},
		{before: "writer", holds: "set of writers"},
		{before: "writer", holds: "set of readers", stays: true},
	} {
		inBubble(t, fmt.Sprint(tt), func(t *testing.T, w *scene) {
			m, other := w.managers(lockmgr.Options{Linger: time.Hour})
			third, _ := w.manager(lockmgr.Options{})
			beside := mustAwait(t, kindOf(tt.before).ask(other, "a"))
			f := kindOf(tt.holds).ask(m, "a")
			synctest.Wait()
			mustUnlock(t, beside)
			l := mustAwait(t, f)
			if tt.stays {
				beside = mustLock(t, other, "a", lockmgr.Shared())
			}
			synctest.Wait()
			if f = nil; tt.waits != "" {
				f = kindOf(tt.waits).ask(third, "a")
			}
			synctest.Wait()
			start := time.Now()
			require.True(t, must(other.ForceUnlockHolders(ctx, "a", l.HolderID()))(t))
			<-l.Lost()
			require.Less(t, time.Since(start), second, "long before the next renewal")
			if tt.stays {
				mustUnlock(t, beside)
			}
			if f != nil {
				mustUnlock(t, mustAwait(t, f))
			}
		})
	}
}

// When a server stops, all waiters fail in time, however many names they wait for, and Close ends.
func TestWaiter_ThousandsAreToldOfASilentServer(t *testing.T) {
	const dialTime = 2 * second
	for _, names := range []int{1, 5000} {
		inBubble(t, fmt.Sprint(names), func(t *testing.T, w *scene) {
			n := &network{server: w.server}
			m := dialNetwork(t, n, lockmgr.Options{RetryTime: second})
			limit := second + 2*second + dialTime // RetryTime, CommandTimeout and the dial
			warm(t, m)
			n.hush()
			ask := func() (fs []*futures.Future[*lockmgr.Lock]) {
				for i := range names {
					fs = append(fs, m.LockAsync(fmt.Sprint("a:", i)))
				}
				return fs
			}
			start := time.Now()
			for _, f := range ask() {
				require.ErrorIs(t, errOf(f.Await(ctx)), lockmgr.ErrUnavailable)
			}
			require.LessOrEqual(t, time.Since(start), limit+100*milli)

			fs := ask()
			start = time.Now()
			_ = m.Close(ctx)
			require.LessOrEqual(t, time.Since(start), limit+100*milli)
			for _, f := range fs {
				<-f.Done()
			}
		})
	}
}

// Requests that come while a release fails end in time like all others, whatever lease the record
// has. A TryLock ends with the first failure.
func TestWaiter_ToldBehindAFailingRelease(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{RetryTime: second})
		ask := map[string]func(string) error{
			"one try": func(name string) error { return errOf(m.TryLock(ctx, name)) },
			"a wait":  func(name string) error { return errOf(m.Lock(ctx, name)) },
		}
		held := map[string]*lockmgr.Lock{}
		for name := range ask {
			l := mustLock(t, m, name, lockmgr.FixedLease(time.Hour))
			require.NoError(t, l.Extend(ctx, time.Hour), "the long lease is set")
			held[name] = l
		}
		net.cut()
		start := time.Now()
		for name, l := range held {
			unlocked := l.UnlockAsync()
			asked := time.Now()
			require.ErrorIs(t, ask[name](name), lockmgr.ErrUnavailable, name)
			if name == "one try" {
				require.Less(t, time.Since(asked), 100*milli)
			}
			_, _ = unlocked.Await(ctx) // it must end, with any result
		}
		require.LessOrEqual(t, time.Since(start), 2*(second+2*second))
		net.heal()
		time.Sleep(10 * second)
		require.Empty(t, w.server.Keys(), "the releases went on")
	})
}

// A lease that ends before its answer comes fails only the request that asked for it.
func TestLease_TooShortFailsAlone(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		warm(t, m)
		net.delay.Store(int64(15 * milli))
		hopeless := m.LockAsync("a", lockmgr.FixedLease(10*milli))
		good := m.LockAsync("a")
		start := time.Now()
		l := mustAwait(t, good)
		require.Less(t, time.Since(start), second, "three tries are enough to know")
		require.Less(t, m.Stats().Scripts, uint64(12))
		_, err := hopeless.Await(ctx)
		require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		require.ErrorContains(t, err, "longer lease")
		mustUnlock(t, l)
	})
}

// A token counter that is no number fails only requests that ask for a token.
func TestServer_BadTokenCounterFailsTheFencedAlone(t *testing.T) {
	s, m, _ := startServer(t, lockmgr.Options{RetryTime: faults.Patience})
	faults.Do(t, s, "HSET", "redisson_lock_token:{a}", "x", "1")
	fenced, plain := m.LockAsync("a", lockmgr.Fenced()), m.LockAsync("a")
	requireServerError(t, lockmgr.ErrWrongType, errOf(fenced.Await(faults.Patient(t))))
	l := mustAwait(t, plain)

	fenced, plain = m.LockAsync("a", lockmgr.Fenced()), m.LockAsync("a")
	mustUnlock(t, l)
	require.ErrorIs(t, errOf(fenced.Await(faults.Patient(t))), lockmgr.ErrWrongType, "when the lock is passed on")
	mustUnlock(t, mustAwait(t, plain))
	require.Equal(t, "1", faults.Do(t, s, "DBSIZE"))
}

// A name that a user may not touch any more is lost. The locks that are renewed with it are not.
func TestServer_ForbiddenNameCostsNoOtherItsLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	setUser(t, s, "locker", "+@all", "~*", "&*")
	const lease = 3 * time.Second
	m := dialAs(t, s.Addr(), "locker", lockmgr.Options{Lease: lease, RetryTime: faults.Patience})
	names := append(numbered("app:", 50), "other:1")
	locks, errs := burst(t, m, names)
	for i := range names {
		require.NoError(t, errs[i], names[i])
	}
	faults.Do(t, s, "ACL", "SETUSER", "locker", "resetkeys", "~app:*")
	last := slices.Index(names, "other:1")
	faults.AwaitLost(t, locks[last])
	for i, l := range locks[:last] {
		require.True(t, l.Valid(), names[i])
		mustUnlock(t, l)
	}
	faults.Eventually(t, func() bool { return m.Stats().Unreleased == 1 }, "its release is given up")
	faults.Do(t, s, "ACL", "SETUSER", "locker", "~*")
}
