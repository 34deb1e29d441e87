package interop

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

const (
	permitGrants  = 4_000
	permitWorkers = 4 // of each side
)

// Go wants all permits three times, while threads of Java take one each without a pause. They are
// seldom all free at once: without gathering, a request waits for ten seconds, or until the threads
// have gone.
func TestPermits_GoTakesAllBesideJava(t *testing.T) {
	const (
		limit  = 10
		window = 15 * time.Second
	)
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		p, java := w.manager(t, lockmgr.Options{}).Permits(name, limit), w.open(t, request{}).thread("load").permits()
		require.True(t, java.trySetPermits(t, name, limit))
		begin := time.Now()
		running := java.sendRequest(t, request{
			Op: "grants", Name: name, Threads: 20, Most: 1, Lease: permitLease.Milliseconds(),
			Hold: (20 * time.Millisecond).Microseconds(), Millis: window.Milliseconds(),
		})
		var waits []time.Duration
		for range 3 {
			eventually(t, func() bool { return inspect(t, p).Free == 0 }, func() string { return "Java has all permits" })
			asked := time.Now()
			l := take(t, p, limit)
			waits = append(waits, time.Since(asked).Round(time.Millisecond))
			for range 20 { // Java tries meanwhile
				require.Len(t, inspect(t, p).Taken, limit)
				require.Empty(t, idsOfOthers(t, p))
			}
			unlock(t, l)
		}
		took := time.Since(begin)
		r := running.report(t)
		t.Logf("Go had %d of %[1]d permits after %v; grants of Java: %d, longest wait %.2f s", limit, waits, r.Grants, float64(r.Longest)/1000)
		require.Empty(t, r.Errors)
		require.Less(t, took, window-time.Second, "the threads have gone")
		w.requireAllFree(t, name, limit)
	})
}

// Both sides take one or two of three permits, 4,000 times in all, and count what is taken. It is
// never more than three, and at the end all are free. 3.16.8 can't take two at once, so its threads
// take one.
func TestPermits_MixedGrants(t *testing.T) {
	// A thread that was not woken sleeps for as long: see JavaWakesTheWrongThread.
	const limit, lease = 3, 5 * time.Second
	each(t, func(t *testing.T, w *world) {
		name, counter, inside := t.Name(), t.Name()+" counter", t.Name()+" inside"
		m, java := w.manager(t, withLease(lease)), w.open(t, request{}).thread("load").permits()
		p := m.Permits(name, limit)
		require.True(t, java.trySetPermits(t, name, limit))
		most := 2
		if !w.several() {
			most = 1
		}
		begin := time.Now()
		running := java.sendRequest(t, request{
			Op: "grants", Name: name, Threads: permitWorkers, Most: most, Lease: lease.Milliseconds(),
			Permits: limit, Limit: permitGrants, Counter: counter, Inside: inside,
		})
		var grants, overlaps atomic.Int64
		var longest [permitWorkers]time.Duration
		var wg sync.WaitGroup
		for i := range permitWorkers {
			wg.Go(func() {
				for more := true; more && !t.Failed(); {
					asked, n := time.Now(), 1+rand.IntN(2)
					l, err := p.Acquire(t.Context(), n)
					if err != nil {
						t.Errorf("Acquire: %v", err)
						return
					}
					longest[i] = max(longest[i], time.Since(asked))
					var fits bool
					if fits, more, err = w.countPermits(counter, inside, int64(n), limit); err != nil {
						t.Errorf("count: %v", err)
					}
					if !fits {
						overlaps.Add(1)
					}
					if more {
						grants.Add(1)
					}
					if err := l.Unlock(t.Context()); err != nil {
						t.Errorf("Unlock: %v", err)
					}
				}
			})
		}
		wg.Wait()
		r := running.report(t)
		t.Logf("%d grants of Go, %d of Java in %.1f s: more than %d were taken %d times; longest wait: Go %.2f s, Java %.2f s",
			grants.Load(), r.Grants, time.Since(begin).Seconds(), limit, overlaps.Load()+r.Overlaps,
			slices.Max(longest[:]).Seconds(), float64(r.Longest)/1000)
		require.Empty(t, r.Errors)
		require.Zero(t, overlaps.Load()+r.Overlaps, "more permits were taken than there are")
		require.EqualValues(t, permitGrants, grants.Load()+r.Grants)
		require.GreaterOrEqual(t, grants.Load(), int64(permitGrants/100))
		require.GreaterOrEqual(t, r.Grants, int64(permitGrants/100))
		require.Zero(t, w.number(t, inside))
		require.Greater(t, w.number(t, counter), int64(permitGrants))
		w.requireAllFree(t, name, limit)
	})
}

// countPermits counts n permits as taken for a moment, as Load.java does. fits reports whether no
// more were taken than there are. more reports whether the grant is one of those that are wanted.
func (w *world) countPermits(counter, inside string, n, limit int64) (fits, more bool, err error) {
	c := w.redis
	taken, err := c.Do(background, c.B().Incrby().Key(inside).Increment(n).Build()).AsInt64()
	if err != nil {
		return false, false, err
	}
	grants, err := c.Do(background, c.B().Incr().Key(counter).Build()).AsInt64()
	if err != nil {
		return false, false, err
	}
	err = c.Do(background, c.B().Decrby().Key(inside).Decrement(n).Build()).Error()
	return taken <= limit, grants <= permitGrants, err
}
