package lockmgr_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A burst of requests does not delay answers of the server: the deadline of a lease
// may depend on them.
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
