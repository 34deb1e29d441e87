package locktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
	"github.com/holdfast-go/holdfast/locktest"
)

// This test is the snippet of README.md and of doc.go.
func TestJob_StopsWhenItsLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.Start(t)
		mgr := s.Manager(t, lockmgr.Options{})
		lock, err := mgr.Lock(t.Context(), "job")
		require.NoError(t, err)
		locktest.Advance(5 * time.Minute) // the watchdog renews the lock
		require.True(t, lock.Valid())
		s.LoseLock(lock)
		require.False(t, lock.Valid())
	})
}
