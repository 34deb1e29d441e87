package locktest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
	"github.com/holdfast-go/holdfast/locktest"
)

func TestHold_KeepsOthersOut(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		m := s.Manager(t, lockmgr.Options{})
		rival := s.Hold(t, "a")
		require.Equal(t, rival.Lock.HolderID(), s.Holder("a"))
		require.NotEqual(t, m.ID(), rival.Manager.ID())
		_, err := m.Lock(ctx, "a", lockmgr.MaxWait(10*time.Minute))
		require.ErrorIs(t, err, lockmgr.ErrWaitTimeout)
		rival.Release()
		require.False(t, s.Held("a"))
		lock(t, m, "a")
	})
}

func TestHold_TakesOptions(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		m := s.Manager(t, lockmgr.Options{})
		s.Hold(t, "a", lockmgr.Shared())
		lock(t, m, "a", lockmgr.Shared())
		_, err := m.TryLock(ctx, "a", lockmgr.Exclusive())
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
	})
}

// The lock of a dead process is free when its lease has run out, not before.
func TestHold_Die(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		m := s.Manager(t, lockmgr.Options{})
		rival := s.Hold(t, "a")
		rival.Die()
		begin := time.Now()
		lock(t, m, "a")
		require.InDelta(t, 30, time.Since(begin).Seconds(), 1)
	})
}

func TestHold_FailsIfTheLockIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		l := lock(t, s.Manager(t, lockmgr.Options{}), "a")
		begin := time.Now()
		said := failure(t, func(tb testing.TB) { s.Hold(tb, "a") })
		require.Contains(t, said, l.HolderID())
		require.InDelta(t, 60, time.Since(begin).Seconds(), 1)
	})
}

func TestRelease_Twice(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		said := failure(t, func(tb testing.TB) {
			rival := s.Hold(tb, "a")
			rival.Release()
			rival.Release()
		})
		require.Contains(t, said, "Release")
	})
}
