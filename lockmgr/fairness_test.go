package lockmgr_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
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
			l := mustLock(t, b, "a")
			require.Less(t, time.Since(start), 100*milli, "10 grants of 1 ms, and as much again until they know")
			require.Greater(t, a.Stats().Waiting, 0)
			mustUnlock(t, l)
			synctest.Wait() // a hears of the unlock before time passes
		}
		require.Positive(t, a.Stats().StoodBack)
		over.Wait()
	})
}

// Processes that listen for messages, and do not want the lock at the moment, keep nobody waiting.
// A wait is no longer than the holds of the others.
func TestLine_WhoOnlyListensKeepsNobodyWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		const hold = 5 * milli
		var all sync.WaitGroup
		for i := range 3 {
			m, _ := w.manager(lockmgr.Options{})
			random := rand.New(rand.NewPCG(1, uint64(i)))
			all.Go(func() {
				for range 200 {
					time.Sleep(5*milli + time.Duration(random.Int64N(int64(50*milli))))
					asked := time.Now()
					l := mustLock(t, m, "a")
					require.LessOrEqual(t, time.Since(asked), 2*hold+milli)
					time.Sleep(hold)
					mustUnlock(t, l)
				}
			})
		}
		all.Wait()
	})
}

func TestTurns_RunGoesOnWhileNobodyElseWaits(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		seen := faults.NewWitness()
		m, _ := w.manager(lockmgr.Options{PassCount: 10, PassTime: 5 * milli, Observer: seen.Observe})
		crowd(m, 1000, milli).Wait()
		time.Sleep(second)
		synctest.Wait()
		// Once a second the manager lets an unknown process, which may poll, go first.
		require.LessOrEqual(t, faults.Count(seen, faults.Always[lockmgr.EventReleased]), 3)
		require.LessOrEqual(t, m.Stats().StoodBack, uint64(2))
		require.GreaterOrEqual(t, m.Stats().Passes, uint64(997))
	})
}

// Leases of one manager that run out one after another must not keep others out.
func TestTurns_LapsingLeasesEndARun(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		a, b := w.managers(lockmgr.Options{})
		for range 100 {
			a.LockAsync("a", lockmgr.FixedLease(20*milli)) // and never unlocked
		}
		time.Sleep(50 * milli)
		start := time.Now()
		l := mustLock(t, b, "a")
		require.Less(t, time.Since(start), 500*milli, "the time of a run, and a round of standing back")
		require.Greater(t, a.Stats().Waiting, 50)
		mustUnlock(t, l)
	})
}

// A manager whose round trip is longer than a pause gets its turn too, while managers nearby want
// the lock all the time.
func TestTurns_ManagerFarAwayGetsItsOwn(t *testing.T) {
	for name, near := range map[string]int{"from one": 1, "from two": 2} {
		inBubble(t, name, func(t *testing.T, w *scene) {
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
							l := mustLock(t, a, "a")
							time.Sleep(2 * milli)
							mustUnlock(t, l)
						}
					})
				}
			}
			b, n := w.manager(lockmgr.Options{Linger: time.Hour})
			n.delay.Store(int64(milli))
			time.Sleep(50 * milli)
			for range 5 {
				mustUnlock(t, must(b.Lock(endsIn(t, 20*second), "a"))(t, "some three hundred runs of 32 grants of 2 ms"))
				time.Sleep(300 * milli) // it stays subscribed, and asks for nothing
			}
		})
	}
}

// While a manager knows that others wait, its handoffs need no script to ask.
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

// A long PassTime keeps no reader from others that read in its own manager.
func TestPassTime_KeepsNoReaderOut(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{PassTime: time.Minute})
		held := mustLock(t, m, "a", lockmgr.Shared())
		reads := func() {
			asked := time.Now()
			mustUnlock(t, mustLock(t, m, "a", lockmgr.Shared()))
			require.Less(t, time.Since(asked), 200*milli)
		}
		for range 3 {
			reads()
		}
		writer := other.LockAsync("a", lockmgr.Exclusive())
		synctest.Wait() // it stands in the line
		reader := m.LockAsync("a", lockmgr.Shared(), lockmgr.Fenced())
		synctest.Wait() // a transfer has found the writer
		writer.Cancel()
		left := time.Now()
		mustUnlock(t, mustAwait(t, reader))
		require.Less(t, time.Since(left), second)
		mustUnlock(t, held)
	})
}
