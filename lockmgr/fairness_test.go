package lockmgr_test

import (
	"context"
	"sync"
	"sync/atomic"
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

func TestTurns_OthersGetTheirs(t *testing.T) {
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
			synctest.Wait() // no time passes before a has heard of it
		}
		require.Positive(t, a.Stats().StoodBack)
		over.Wait()
	})
}

func TestTurns_RunGoesOnWhileNobodyElseWaits(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		released := 0
		m, _ := w.manager(lockmgr.Options{PassCount: 10, PassTime: 5 * milli, Observer: func(e lockmgr.Event) {
			if _, ok := e.(lockmgr.EventReleased); ok {
				released++
			}
		}})
		crowd(m, 1000, milli).Wait()
		time.Sleep(second)
		synctest.Wait()
		// Once a second a process that is not heard gets a chance.
		require.LessOrEqual(t, released, 3)
		require.LessOrEqual(t, m.Stats().StoodBack, uint64(2))
		require.GreaterOrEqual(t, m.Stats().Passes, uint64(997))
	})
}

// A manager whose only worker takes the lock again at once must let others in
// as well.
func TestTurns_WorkerThatComesBackAtOnce(t *testing.T) {
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
func TestTurns_LapsingLeasesEndARun(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		a, _ := w.manager(lockmgr.Options{})
		b, _ := w.manager(lockmgr.Options{})
		for range 100 {
			a.LockAsync("a", lockmgr.FixedLease(20*milli)) // and never unlocked
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

// turns are who was granted the lock, in order, while more than one wanted it.
type turns struct {
	mu      sync.Mutex
	order   []int
	waiting []int
}

// contend has each manager's crowd queue up behind a lock that another one
// holds, and returns the order of grants once all have had theirs.
func contend(t *testing.T, w *scene, managers []*lockmgr.Manager, each int, hold time.Duration) *turns {
	first, _ := w.manager(lockmgr.Options{})
	l, err := first.Lock(ctx, "a")
	require.NoError(t, err)
	s := &turns{waiting: make([]int, len(managers))}
	var left sync.WaitGroup
	for i, m := range managers {
		s.waiting[i] = each
		for range each {
			left.Add(1)
			m.LockAsync("a").OnDone(func(l *lockmgr.Lock, err error) {
				if err != nil {
					t.Error(err)
					left.Done()
					return
				}
				s.mu.Lock()
				s.order = append(s.order, i)
				s.mu.Unlock()
				go func() {
					defer left.Done()
					time.Sleep(hold)
					_ = l.Unlock(ctx)
				}()
			})
		}
	}
	time.Sleep(second) // all have subscribed
	require.NoError(t, l.Unlock(ctx))
	left.Wait()
	return s
}

// longest is the longest streak of one manager while another waited.
func (s *turns) longest() int {
	left := append([]int(nil), s.waiting...)
	most, run, last := 0, 0, -1
	for _, who := range s.order {
		others := false
		for i, n := range left {
			others = others || i != who && n > 0
		}
		left[who]--
		if who != last {
			run, last = 0, who
		}
		if run++; others {
			most = max(most, run)
		}
	}
	return most
}

// A handoff in memory takes no time, and an answer from Redis some: nobody may
// go on for long before it is there.
func TestTurns_RunIsShortUntilOthersAreKnown(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var managers []*lockmgr.Manager
		for range 2 {
			m, n := w.manager(lockmgr.Options{PassCount: 10})
			n.delay.Store(int64(2 * milli))
			managers = append(managers, m)
		}
		s := contend(t, w, managers, 300, 0)
		require.Len(t, s.order, 600)
		require.LessOrEqual(t, s.longest(), 6*10, "of 300")
	})
}

// All who want the lock for long get about the same share of it.
func TestTurns_ManagersTakeThem(t *testing.T) {
	for name, hold := range map[string]time.Duration{"held for no time": 0, "held for long": 3 * milli} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *scene) {
				var managers []*lockmgr.Manager
				for range 5 {
					m, n := w.manager(lockmgr.Options{PassCount: 10})
					n.delay.Store(int64(100 * time.Microsecond))
					managers = append(managers, m)
				}
				s := contend(t, w, managers, 300, hold)
				require.LessOrEqual(t, s.longest(), 60, "should all stand back at a time, the last may be first")
				shares := make([]int, 5)
				for _, who := range s.order[:750] { // in the end each has had 300
					shares[who]++
				}
				for _, n := range shares {
					require.GreaterOrEqual(t, n, 75, "%v: a fair share is 150, half of it is the least", shares)
				}
			})
		})
	}
}

// Those who are subscribed need not wait: a lock that nobody else wants does
// not lie idle for long while it is found out.
func TestTurns_IdleSubscribersCostLittle(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{PassCount: 10})
		var others []*lockmgr.Manager
		for range 5 {
			other, _ := w.manager(lockmgr.Options{Linger: time.Hour})
			others = append(others, other)
		}
		contend(t, w, append(others, m), 20, 0) // and now they linger
		start := time.Now()
		crowd(m, 1000, 0).Wait()
		require.Less(t, time.Since(start), 150*milli, "99 pauses of less than a millisecond")
	})
}

// A manager that is farther away than a pause is long gets its turn too, while
// those who are near still want the lock.
func TestTurns_ManagerFarAwayGetsItsOwn(t *testing.T) {
	for name, near := range map[string]int{"from one": 1, "from two": 2} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *scene) {
				var over atomic.Bool
				var callers sync.WaitGroup
				defer callers.Wait()
				defer over.Store(true)
				for range near {
					a, n := w.manager(lockmgr.Options{})
					n.delay.Store(int64(100 * time.Microsecond))
					for range 10 {
						callers.Go(func() {
							for !over.Load() {
								l, err := a.Lock(ctx, "a")
								if err != nil {
									t.Error(err)
									return
								}
								time.Sleep(2 * milli)
								if err := l.Unlock(ctx); err != nil {
									t.Error(err)
									return
								}
							}
						})
					}
				}
				b, n := w.manager(lockmgr.Options{Linger: time.Hour})
				n.delay.Store(int64(milli))
				time.Sleep(50 * milli)
				for range 5 {
					limit, cancel := context.WithTimeout(ctx, 20*second)
					l, err := b.Lock(limit, "a")
					cancel()
					require.NoError(t, err, "some three hundred runs of 32 grants of 2 ms")
					require.NoError(t, l.Unlock(ctx))
					time.Sleep(300 * milli) // subscribed, and wants nothing
				}
			})
		})
	}
}

// Once it is known that others wait there is nothing to be asked.
func TestHandoff_CostsNoScriptUnderContention(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		a, na := w.manager(lockmgr.Options{})
		b, nb := w.manager(lockmgr.Options{})
		na.delay.Store(int64(50 * time.Microsecond))
		nb.delay.Store(int64(50 * time.Microsecond))
		oa, ob := crowd(a, 2000, 100*time.Microsecond), crowd(b, 2000, 100*time.Microsecond)
		oa.Wait()
		ob.Wait()
		require.Less(t, a.Stats().Scripts+b.Stats().Scripts, uint64(1200), "of 4,000 handoffs: one a millisecond, and two a turn")
	})
}
