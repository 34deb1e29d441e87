package locktest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
	"github.com/holdfast-go/holdfast/locktest"
)

// A kind asks for a lock of the names "a", or "a" and "b".
type kind struct {
	name  string
	locks []string
	ask   func(m *lockmgr.Manager) *futures.Future[*lockmgr.Lock]
}

var a = []string{"a"}

func plain(name string, opts ...lockmgr.LockOption) kind {
	return kind{name, a, func(m *lockmgr.Manager) *futures.Future[*lockmgr.Lock] { return m.LockAsync("a", opts...) }}
}

func set(name string, s lockmgr.Set) kind {
	return kind{name, []string{"a", "b"}, func(m *lockmgr.Manager) *futures.Future[*lockmgr.Lock] { return m.LockAllAsync(s) }}
}

// kinds are those of which only one manager holds a lock at a time.
var kinds = []kind{
	plain("plain"),
	plain("fenced", lockmgr.Fenced()),
	plain("fair", lockmgr.Fair()),
	plain("exclusive", lockmgr.Exclusive()),
	set("set", lockmgr.All("a", "b")),
	set("mixed set", lockmgr.Set{Names: []string{"a"}, Exclusive: []string{"b"}}),
	{"permits", a, func(m *lockmgr.Manager) *futures.Future[*lockmgr.Lock] { return m.Permits("a", 2).AcquireAsync(2) }},
}

func eachKind(t *testing.T, test func(t *testing.T, s *locktest.Server, k kind)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *locktest.Server) { test(t, s, k) })
		})
	}
}

func take(t *testing.T, m *lockmgr.Manager, k kind) *lockmgr.Lock {
	t.Helper()
	l, err := k.ask(m).Await(ctx)
	require.NoError(t, err)
	return l
}

// The record lives for 30 s, so a waiter that has the lock within a second was woken.
func TestKinds_MessageWakesAnotherManager(t *testing.T) {
	eachKind(t, func(t *testing.T, s *locktest.Server, k kind) {
		first, second := s.Manager(t, lockmgr.Options{}), s.Manager(t, lockmgr.Options{})
		held := take(t, first, k)
		f := k.ask(second)
		locktest.Advance(10 * time.Second)
		require.False(t, closed(f.Done()))
		require.NoError(t, held.Unlock(ctx))
		locktest.Advance(time.Second)
		require.True(t, closed(f.Done()))
		got, err := f.Result()
		require.NoError(t, err)
		require.NoError(t, got.Unlock(ctx))
		for _, name := range k.locks {
			require.False(t, s.Held(name))
		}
	})
}

func TestKinds_WatchdogRenews(t *testing.T) {
	eachKind(t, func(t *testing.T, s *locktest.Server, k kind) {
		l := take(t, s.Manager(t, lockmgr.Options{}), k)
		locktest.Advance(10 * time.Minute)
		require.True(t, l.Valid())
		for _, name := range k.locks {
			require.True(t, s.Held(name))
		}
		require.NoError(t, l.Unlock(ctx))
	})
}

// Nothing but the bubble's clock ends a lease.
func TestKinds_LeaseOfADeadProcessEnds(t *testing.T) {
	eachKind(t, func(t *testing.T, s *locktest.Server, k kind) {
		dead, alive := s.Manager(t, lockmgr.Options{}), s.Manager(t, lockmgr.Options{})
		lost := take(t, dead, k)
		f := k.ask(alive)
		locktest.Advance(time.Second)
		s.Partition(dead)
		locktest.Advance(15 * time.Second)
		require.False(t, closed(f.Done()))
		locktest.Within(t, 30*time.Second, func() bool { return closed(f.Done()) })
		require.True(t, closed(lost.Lost()))
		got, err := f.Result()
		require.NoError(t, err)
		require.True(t, got.Valid())
		require.ErrorIs(t, lost.Unlock(ctx), lockmgr.ErrLeaseLost)
	})
}

func TestShared_ManyReadersOneWriter(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		first, second := s.Manager(t, lockmgr.Options{}), s.Manager(t, lockmgr.Options{})
		r1, r2 := lock(t, first, "a", lockmgr.Shared()), lock(t, second, "a", lockmgr.Shared())
		require.Equal(t, sorted(r1.HolderID(), r2.HolderID()), s.Holders("a"))
		writer := s.Manager(t, lockmgr.Options{}).LockAsync("a", lockmgr.Exclusive())
		locktest.Advance(5 * time.Minute)
		require.False(t, closed(writer.Done()))
		require.NoError(t, r1.Unlock(ctx))
		require.NoError(t, r2.Unlock(ctx))
		locktest.Advance(time.Second)
		w, err := writer.Result()
		require.NoError(t, err)
		require.Equal(t, []string{w.HolderID()}, s.Holders("a"))
		require.NoError(t, w.Unlock(ctx))
	})
}

func TestFair_OrderOverManagers(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		first, second := s.Manager(t, lockmgr.Options{}), s.Manager(t, lockmgr.Options{})
		rival := s.Hold(t, "a", lockmgr.Fair())
		var waiting []*futures.Future[*lockmgr.Lock]
		for i := range 6 {
			waiting = append(waiting, []*lockmgr.Manager{first, second}[i%2].LockAsync("a", lockmgr.Fair()))
			locktest.Advance(time.Second)
		}
		rival.Release()
		for i, f := range waiting {
			locktest.Advance(time.Second)
			l, err := f.Result()
			require.NoError(t, err)
			for _, later := range waiting[i+1:] {
				require.False(t, closed(later.Done()))
			}
			require.NoError(t, l.Unlock(ctx))
		}
	})
}

func TestPermits_Limit(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		first, second := s.Manager(t, lockmgr.Options{}), s.Manager(t, lockmgr.Options{})
		l, err := first.Permits("a", 3).Acquire(ctx, 2)
		require.NoError(t, err)
		require.Equal(t, sorted(l.PermitIDs()...), s.Holders("a"))
		_, err = second.Permits("a", 3).TryAcquire(ctx, 2)
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
		third, err := second.Permits("a", 3).TryAcquire(ctx, 1)
		require.NoError(t, err)
		require.Len(t, s.Holders("a"), 3)
		require.NoError(t, third.Unlock(ctx))
		require.NoError(t, l.Unlock(ctx))
		require.False(t, s.Held("a"))
	})
}

// The embedded server has no replicas.
func TestReplicas_DoNotWork(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		m := s.Manager(t, lockmgr.Options{Replicas: lockmgr.Replicas{Acks: 1}})
		_, err := m.TryLock(ctx, "a")
		require.ErrorIs(t, err, lockmgr.ErrReplicas)
	})
}

func TestCheck_FindsAllThatLocksNeed(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		report, err := s.Manager(t, lockmgr.Options{}).Check(ctx, "app:")
		require.NoError(t, err)
		require.Empty(t, report.Missing)
	})
}

// A name that KeepFor keeps is held, by the ID of the ended hold.
func TestKinds_Kept(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		l, err := s.Manager(t, lockmgr.Options{}).Lock(ctx, "a", lockmgr.KeepFor(time.Minute))
		require.NoError(t, err)
		require.Equal(t, l.HolderID(), s.Holder("a"))
		require.NoError(t, l.Unlock(ctx))
		require.Equal(t, l.HolderID()+":kept", s.Holder("a"))
		locktest.Advance(time.Minute)
		require.False(t, s.Held("a"))
	})
}
