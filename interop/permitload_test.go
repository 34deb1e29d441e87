package interop

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
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
		name, counter := t.Name(), w.counter(t, permitGrants)
		m, java := w.manager(t, withLease(lease)), w.open(t, request{}).thread("load").permits()
		p := m.Permits(name, limit)
		require.True(t, java.trySetPermits(t, name, limit))
		most := 2
		if !w.several() {
			most = 1
		}
		begin := time.Now()
		load := counter.request(name, permitWorkers)
		load.Most, load.Permits, load.Lease = most, limit, lease.Milliseconds()
		running := java.sendRequest(t, load)
		var longest [permitWorkers]time.Duration
		var wg sync.WaitGroup
		for i := range permitWorkers {
			wg.Go(func() {
				var n int
				take := func() (*lockmgr.Lock, error) {
					n = 1 + rand.IntN(2)
					asked := time.Now()
					l, err := p.Acquire(t.Context(), n)
					longest[i] = max(longest[i], time.Since(asked))
					return l, err
				}
				again(t, take, func() (more bool, err error) { return counter.countPermits(n, limit) })
			})
		}
		wg.Wait()
		r := running.report(t)
		t.Logf("%d grants of Go, %d of Java in %.1f s: more than %d were taken %d times; longest wait: Go %.2f s, Java %.2f s",
			counter.grants.Load(), r.Grants, time.Since(begin).Seconds(), limit, counter.overlaps.Load()+r.Overlaps,
			slices.Max(longest[:]).Seconds(), float64(r.Longest)/1000)
		require.Empty(t, r.Errors)
		require.Zero(t, counter.overlaps.Load()+r.Overlaps, "more permits were taken than there are")
		require.EqualValues(t, permitGrants, counter.grants.Load()+r.Grants)
		require.GreaterOrEqual(t, counter.grants.Load(), int64(permitGrants/100))
		require.GreaterOrEqual(t, r.Grants, int64(permitGrants/100))
		require.Zero(t, w.number(t, counter.inside))
		require.Greater(t, w.number(t, counter.key), int64(permitGrants))
		w.requireAllFree(t, name, limit)
	})
}

// countPermits counts n permits as taken for a moment, as Load.java does. It notes if more were
// taken than there are. more reports whether the grant is one of those that are wanted.
func (c *counter) countPermits(n, limit int) (more bool, err error) {
	taken, err := c.do("INCRBY", c.inside, strconv.Itoa(n))
	if err != nil {
		return false, err
	}
	if taken > int64(limit) {
		c.overlaps.Add(1)
	}
	grants, err := c.do("INCR", c.key)
	if err != nil {
		return false, err
	}
	if more = grants <= c.limit; more {
		c.grants.Add(1)
	}
	_, err = c.do("DECRBY", c.inside, strconv.Itoa(n))
	return more, err
}
