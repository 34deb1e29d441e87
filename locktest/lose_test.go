package locktest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
	"github.com/holdfast-go/holdfast/locktest"
)

func sorted(s ...string) []string { slices.Sort(s); return s }

func requireLost(t *testing.T, s *locktest.Server, l *lockmgr.Lock) {
	t.Helper()
	require.True(t, closed(l.Lost()))
	require.False(t, l.Valid())
	require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
	for _, name := range l.Names() {
		require.False(t, s.Held(name), name)
	}
}

func TestLoseLock_AtOnce(t *testing.T) {
	eachKind(t, func(t *testing.T, s *locktest.Server, k kind) {
		l := take(t, s.Manager(t, lockmgr.Options{}), k)
		work := l.Context(t.Context())
		locktest.Advance(time.Minute + time.Second)
		begin := time.Now()
		s.LoseLock(l)
		require.Less(t, time.Since(begin), time.Second, "of fake time: it was not left to the next renewal")
		requireLost(t, s, l)
		require.Error(t, work.Err())
	})
}

func TestLoseLock_Readers(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		first, second := s.Manager(t, lockmgr.Options{}), s.Manager(t, lockmgr.Options{})
		l, other := lock(t, first, "a", lockmgr.Shared()), lock(t, second, "a", lockmgr.Shared())
		s.LoseLock(l)
		requireLost(t, s, l)
		locktest.Within(t, 12*time.Second, func() bool { return !other.Valid() })
	})
}

// Nothing renews the first of these holds.
func TestLoseLock_ThatEndsAtATime(t *testing.T) {
	for _, option := range []lockmgr.LockOption{lockmgr.FixedLease(time.Hour), lockmgr.MaxHold(time.Hour)} {
		bubble(t, func(t *testing.T, s *locktest.Server) {
			l := lock(t, s.Manager(t, lockmgr.Options{}), "a", option)
			locktest.Advance(time.Minute)
			s.LoseLock(l)
			requireLost(t, s, l)
		})
	}
}

// The server learns late of a lock that has passed in memory.
func TestLoseLock_PassedInMemory(t *testing.T) {
	eachKind(t, func(t *testing.T, s *locktest.Server, k kind) {
		m := s.Manager(t, lockmgr.Options{})
		l := take(t, m, k)
		var next []*futures.Future[*lockmgr.Lock]
		for range 4 {
			next = append(next, k.ask(m))
		}
		for _, f := range next {
			l.UnlockAsync()
			var err error
			l, err = f.Await(ctx)
			require.NoError(t, err)
		}
		s.LoseLock(l)
		requireLost(t, s, l)
	})
}

// A manager that can't be told learns by its deadline.
func TestLoseLock_OfAManagerThatIsCutOff(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		m := s.Manager(t, lockmgr.Options{})
		l := lock(t, m, "a")
		s.Partition(m)
		begin := time.Now()
		s.LoseLock(l)
		require.InDelta(t, 29.7, time.Since(begin).Seconds(), 0.1)
		requireLost(t, s, l)
	})
}

func TestLoseName_AtOnce(t *testing.T) {
	eachKind(t, func(t *testing.T, s *locktest.Server, k kind) {
		l := take(t, s.Manager(t, lockmgr.Options{}), k)
		s.Manager(t, lockmgr.Options{}) // another one, which must not be taken for the holder's
		locktest.Advance(time.Minute + time.Second)
		s.LoseName("a")
		locktest.Advance(time.Second)
		requireLost(t, s, l)
	})
}

// The holder's manager is not of Server.Manager, so nobody makes it look.
func TestLoseName_OfAnUnknownManager(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		m, err := lockmgr.Dial(s.NewLink().ClientOption(), lockmgr.Options{})
		require.NoError(t, err)
		l := lock(t, m, "a")
		s.LoseName("a")
		require.False(t, s.Held("a"))
		locktest.Within(t, 12*time.Second, func() bool { return !l.Valid() })
		require.NoError(t, m.Close(ctx))
	})
}

func TestForget_IsNoticedAtTheNextRenewal(t *testing.T) {
	eachKind(t, func(t *testing.T, s *locktest.Server, k kind) {
		l := take(t, s.Manager(t, lockmgr.Options{}), k)
		s.Forget("a")
		require.False(t, s.Held("a"))
		locktest.Advance(time.Second)
		require.True(t, l.Valid())
		locktest.Within(t, 12*time.Second, func() bool { return !l.Valid() })
		locktest.Advance(time.Second) // the other names of a set are given back
		requireLost(t, s, l)
	})
}

func TestForget_FixedLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		l := lock(t, s.Manager(t, lockmgr.Options{}), "a", lockmgr.FixedLease(time.Hour))
		locktest.Advance(time.Minute)
		s.Forget("a")
		locktest.Advance(time.Minute)
		require.True(t, l.Valid())
		require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
	})
}

// A call that makes no sense fails the test of the server.
func TestServer_Misuse(t *testing.T) {
	for want, misuse := range map[string]func(s *locktest.Server, released *lockmgr.Lock, stranger *lockmgr.Manager){
		`LoseLock: "a" is not held`:  func(s *locktest.Server, l *lockmgr.Lock, _ *lockmgr.Manager) { s.LoseLock(l) },
		`LoseName: nobody holds "a"`: func(s *locktest.Server, _ *lockmgr.Lock, _ *lockmgr.Manager) { s.LoseName("a") },
		`Forget: nobody holds "a"`:   func(s *locktest.Server, _ *lockmgr.Lock, _ *lockmgr.Manager) { s.Forget("a") },
		"not one of Server.Manager":  func(s *locktest.Server, _ *lockmgr.Lock, m *lockmgr.Manager) { s.Partition(m) },
	} {
		bubble(t, func(t *testing.T, other *locktest.Server) {
			s, r := recorded(t)
			released := lock(t, s.Manager(t, lockmgr.Options{}), "a")
			require.NoError(t, released.Unlock(ctx))
			stranger := other.Manager(t, lockmgr.Options{})
			failure(t, func(testing.TB) { misuse(s, released, stranger) })
			require.Contains(t, r.said, want)
		})
	}
}
