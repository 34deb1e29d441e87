package lockmgr_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// crowd queues n requests, each of which holds the lock for a moment.
func crowd(m *lockmgr.Manager, n int, hold time.Duration) *sync.WaitGroup {
	var left sync.WaitGroup
	left.Add(n)
	for range n {
		m.LockAsync("a").OnDone(func(l *lockmgr.Lock, err error) {
			go func() {
				defer left.Done()
				time.Sleep(hold)
				_ = l.Unlock(ctx)
			}()
		})
	}
	return &left
}

func TestOthersGetTheirTurn(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		a, _ := w.manager(lockmgr.Options{PassCount: 10})
		b, _ := w.manager(lockmgr.Options{})
		over := crowd(a, 1000, milli)
		time.Sleep(100 * milli)
		for range 20 {
			start := time.Now()
			l, err := b.Lock(ctx, "a")
			require.NoError(t, err)
			require.Less(t, time.Since(start), 100*milli, "10 grants of 1 ms, and as much again until they know")
			require.Greater(t, a.Stats().Waiting, 0)
			require.NoError(t, l.Unlock(ctx))
		}
		require.Positive(t, a.Stats().StoodBack)
		over.Wait()
	})
}

func TestARunGoesOnWhileNobodyElseWaits(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		released := 0
		m, _ := w.manager(lockmgr.Options{PassCount: 10, PassTime: 5 * milli, Observer: func(e lockmgr.Event) {
			if _, ok := e.(lockmgr.Released); ok {
				released++
			}
		}})
		crowd(m, 1000, milli).Wait()
		time.Sleep(second)
		synctest.Wait()
		require.Equal(t, 1, released)
		require.Zero(t, m.Stats().StoodBack)
		require.EqualValues(t, 999, m.Stats().Passes)
	})
}

// A manager whose only worker takes the lock again at once must let others in
// as well.
func TestAWorkerThatComesBackAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		a, _ := w.manager(lockmgr.Options{PassCount: 5})
		b, _ := w.manager(lockmgr.Options{})
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				l, err := a.Lock(ctx, "a")
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(milli)
				if err := l.Unlock(ctx); err != nil {
					t.Error(err)
				}
			}
		}()
		time.Sleep(10 * milli)
		for range 10 {
			start := time.Now()
			l, err := b.Lock(ctx, "a")
			require.NoError(t, err)
			require.Less(t, time.Since(start), 50*milli)
			require.NoError(t, l.Unlock(ctx))
		}
		close(stop)
		time.Sleep(second)
	})
}

// Nor may leases that run out one after another keep others out.
func TestLapsingLeasesEndARun(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		a, _ := w.manager(lockmgr.Options{})
		b, _ := w.manager(lockmgr.Options{})
		for range 100 {
			a.LockAsync("a", lockmgr.Lease(20*milli)) // and never unlocked
		}
		time.Sleep(50 * milli)
		start := time.Now()
		l, err := b.Lock(ctx, "a")
		require.NoError(t, err)
		require.Less(t, time.Since(start), 500*milli, "the time of a run, and a round of standing back")
		require.Greater(t, a.Stats().Waiting, 50)
		require.NoError(t, l.Unlock(ctx))
	})
}
