package locktest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
	"github.com/holdfast-go/holdfast/locktest"
)

func TestStart_NeedsABubble(t *testing.T) {
	said := failure(t, func(tb testing.TB) { locktest.Start(tb) })
	require.Contains(t, said, "synctest.Test")
}

func TestManager_BadOptions(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		said := failure(t, func(tb testing.TB) { s.Manager(tb, lockmgr.Options{Lease: time.Millisecond}) })
		require.Contains(t, said, "does not start")
	})
}

// A test may close its managers itself.
func TestManager_ClosedBefore(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		m := s.Manager(t, lockmgr.Options{})
		lock(t, m, "a")
		require.NoError(t, m.Close(ctx))
		require.False(t, s.Held("a"))
	})
}

// A test that closes its manager in an outage has the error already.
func TestManager_ClosedInAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		m := s.Manager(t, lockmgr.Options{})
		lock(t, m, "a")
		s.Freeze()
		require.ErrorIs(t, m.Close(ctx), lockmgr.ErrUnavailable)
	})
}

func TestHolders_NamesThemAsTheirLocks(t *testing.T) {
	eachKind(t, func(t *testing.T, s *locktest.Server, k kind) {
		require.Empty(t, s.Holder("a"))
		l := take(t, s.Manager(t, lockmgr.Options{}), k)
		want := []string{l.HolderID()}
		if k.name == "permits" {
			want = sorted(l.PermitIDs()...)
		}
		for _, name := range k.locks {
			require.Equal(t, want, s.Holders(name))
		}
		require.Equal(t, want[0], s.Holder("a"))
	})
}

// A set that the server still has may hold permits that have expired.
func TestHolders_ExpiredPermits(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		m := s.Manager(t, lockmgr.Options{})
		_, err := m.Permits("{a}b", 2).Acquire(ctx, 1, lockmgr.FixedLease(time.Minute))
		require.NoError(t, err)
		require.True(t, s.Held("{a}b"))
		s.Partition(m) // so that the manager does not give it back
		locktest.Advance(time.Minute)
		require.False(t, s.Held("{a}b"))
	})
}

func TestAdvance_LetsTimePass(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		begin, rang := time.Now(), false
		time.AfterFunc(time.Hour, func() { rang = true })
		locktest.Advance(time.Hour)
		require.Equal(t, time.Hour, time.Since(begin))
		require.True(t, rang)
	})
}

func TestEventually_Waits(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		begin := time.Now()
		locktest.Eventually(t, func() bool { return time.Since(begin) >= 4*time.Minute })
		require.Equal(t, 4*time.Minute, time.Since(begin))
		locktest.Eventually(t, func() bool { return true })
		require.Equal(t, 4*time.Minute, time.Since(begin), "no time passes if it is true at once")
	})
}

func TestEventually_GivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		begin := time.Now()
		said := failure(t, func(tb testing.TB) { locktest.Eventually(tb, func() bool { return false }) })
		require.Contains(t, said, "still false after 5m0s")
		require.Equal(t, 5*time.Minute, time.Since(begin))
		said = failure(t, func(tb testing.TB) { locktest.Within(tb, 15*time.Millisecond, func() bool { return false }) })
		require.Contains(t, said, "still false after 15ms")
		require.Equal(t, 5*time.Minute+15*time.Millisecond, time.Since(begin))
	})
}
