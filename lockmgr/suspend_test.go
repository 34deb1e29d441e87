package lockmgr_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// While the host is suspended its timers stand still, but leases run out on the
// server.
func TestLock_LostWhileTheHostIsSuspended(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var slept atomic.Int64
		host := func() (awake, all time.Duration, ok bool) { return 0, time.Duration(slept.Load()), true }
		m, _ := w.manager(lockmgr.WithClocks(lockmgr.Options{}, host))
		other, _ := w.manager(lockmgr.Options{})
		watched := mustLock(t, m, "watched")
		fixed := mustLock(t, m, "fixed", lockmgr.FixedLease(time.Hour))
		brief := mustLock(t, m, "brief", lockmgr.FixedLease(40*second))
		time.Sleep(5 * second)
		synctest.Wait()

		slept.Add(int64(time.Minute))
		w.server.FastForward(time.Minute) // its host was not suspended
		require.False(t, watched.Valid(), "at once, without asking anybody")
		require.False(t, brief.Valid())
		require.True(t, fixed.Valid(), "it has an hour")
		require.Less(t, fixed.Remaining(), time.Hour-time.Minute)
		require.ErrorIs(t, watched.Err(), lockmgr.ErrLeaseLost)

		theirs := mustTryLock(t, other, "watched")
		start := time.Now()
		for _, l := range []*lockmgr.Lock{watched, brief} {
			<-l.Lost()
			require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
		}
		require.LessOrEqual(t, time.Since(start), second, "timers stood still, so it looks every second")
		require.True(t, theirs.Valid())
		mustUnlock(t, fixed)
		mustUnlock(t, theirs)

		again := mustLock(t, m, "watched")
		require.Greater(t, again.Remaining(), 29*second, "it goes on as before")
		mustUnlock(t, again)
	})
}
