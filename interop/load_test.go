package interop

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A report is what the agent's grants answers: see Load.java.
type report struct {
	Grants, Overlaps, Refused, Longest, Fewest, Most int64
	Errors                                           []string
}

// loadTimeout bounds a run of grants.
const loadTimeout = 2 * time.Minute

// report waits for the answer of grants.
func (c *call) report(t testing.TB) (r report) {
	t.Helper()
	redistest.Must(c.await(loadTimeout))(t)
	c.into(t, &r)
	return r
}

const (
	mixedGrants  = 10_000
	mixedWorkers = 4 // of each side
)

// Both sides add to a counter under one lock until it has reached 10,000, by a GET and a SET. A
// second holder would be seen twice: it finds the other one inside, or overwrites its count, and
// then the grants are more than the counter says.
func TestLock_MixedGrants(t *testing.T) {
	for _, c := range []struct {
		title string
		lockmgr.Options
		least int64 // grants of each side, so that both take part
	}{
		// Sides share time, and a grant in memory takes less of it.
		{"as by default", lockmgr.Options{}, mixedGrants / 100},
		// The lock changes sides as often as it can.
		{"with PassCount 1", lockmgr.Options{PassCount: 1}, mixedGrants / 10},
	} {
		t.Run(c.title, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				ours, theirs := w.countTogether(t, c.Options)
				require.GreaterOrEqual(t, ours, c.least)
				require.GreaterOrEqual(t, theirs, c.least)
			})
		})
	}
}

// countTogether returns the grants of each side.
func (w *world) countTogether(t *testing.T, o lockmgr.Options) (ours, theirs int64) {
	c, m := w.counter(t, mixedGrants), w.manager(t, o)
	begin := time.Now()
	running := w.open(t, request{}).thread("grants").sendRequest(t, c.request(t.Name(), mixedWorkers))
	var wg sync.WaitGroup
	for range mixedWorkers {
		wg.Go(func() {
			again(t, func() (*lockmgr.Lock, error) { return m.Lock(t.Context(), t.Name()) }, c.count)
		})
	}
	wg.Wait()
	r := running.report(t)
	t.Logf("%d grants of Go, %d of Java in %.1f s", c.grants.Load(), r.Grants, time.Since(begin).Seconds())
	c.requireExact(t, r)
	return c.grants.Load(), r.Grants
}

// again takes a lock again and again, for as long as what is done with it wants more.
func again(t testing.TB, take func() (*lockmgr.Lock, error), do func() (more bool, err error)) {
	for more := true; more && !t.Failed(); {
		l, err := take()
		if err != nil {
			t.Errorf("taking the lock: %v", err)
			return
		}
		if more, err = do(); err != nil {
			t.Errorf("inside the lock: %v", err)
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Errorf("Unlock: %v", err)
		}
	}
}

// A counter counts grants on the server, as Load.java does, up to a limit.
type counter struct {
	*world
	key, inside      string // inside counts those who count
	limit            int64
	grants, overlaps atomic.Int64 // of Go
}

func (w *world) counter(t testing.TB, limit int64) *counter {
	return &counter{world: w, key: t.Name() + " counter", inside: t.Name() + " inside", limit: limit}
}

// request has threads of Java count under a lock.
func (c *counter) request(name string, threads int) request {
	return request{Op: "grants", Name: name, Threads: threads, Limit: c.limit, Counter: c.key, Inside: c.inside}
}

// do runs a command whose answer is a number, or nothing, which is zero.
func (w *world) do(command ...string) (int64, error) {
	n, err := w.redis.Do(background, w.redis.B().Arbitrary(command...).Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		return 0, nil
	}
	return n, err
}

// count adds one, by a GET and a SET. more reports whether the limit was not reached.
func (c *counter) count() (more bool, err error) {
	n, err := c.do("INCR", c.inside)
	if err != nil {
		return false, err
	}
	if n > 1 {
		c.overlaps.Add(1)
	}
	value, err := c.do("GET", c.key)
	if err != nil {
		return false, err
	}
	if more = value < c.limit; more {
		c.grants.Add(1)
		err = c.redis.Do(background, c.redis.B().Set().Key(c.key).Value(fmt.Sprint(value+1)).Build()).Error()
		if err != nil {
			return false, err
		}
	}
	_, err = c.do("DECR", c.inside)
	return more, err
}

// requireExact checks that nobody was inside beside another, and that no update was lost.
func (c *counter) requireExact(t testing.TB, reports ...report) {
	t.Helper()
	grants, overlaps := c.grants.Load(), c.overlaps.Load()
	for _, r := range reports {
		require.Empty(t, r.Errors)
		grants, overlaps = grants+r.Grants, overlaps+r.Overlaps
	}
	require.Zero(t, overlaps, "overlaps")
	require.EqualValues(t, c.limit, grants, "lost updates")
	require.EqualValues(t, c.limit, c.number(t, c.key))
	require.Zero(t, c.number(t, c.inside))
}

const (
	turnGoroutines = 3
	turnThreads    = 50
	turnWindow     = 3 * time.Second
)

// Both sides want one lock all the time: few goroutines and many threads. They share time. What is
// measured is how often each side is seen in the record.
func TestLock_TurnsByTime(t *testing.T) {
	for _, hold := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond} {
		t.Run(fmt.Sprint("held for ", hold), func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				name := t.Name()
				m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
				theirs := java.thread("turns").sendRequest(t, request{Op: "grants", Name: name, Threads: turnThreads,
					Hold: hold.Microseconds(), Millis: (turnWindow + time.Second).Milliseconds()})
				w.awaitListeners(t, name, 1)

				end := time.Now().Add(turnWindow)
				ours := startTurns(t, m, name, hold, end)
				share := w.share(t, name, m.ID(), end)
				ours.wg.Wait()
				r := theirs.report(t)
				t.Logf("Go had the lock for %.0f %% of the time for which it was taken, and stood back %d times; grants: Go %d, Java %d; "+
					"longest wait: Go %.2f s, Java %.2f s; of Java's threads, the least and the most served had %d and %d grants",
					share, m.Stats().StoodBack, ours.grants.Load(), r.Grants, slices.Max(ours.longest[:]).Seconds(),
					float64(r.Longest)/1000, r.Fewest, r.Most)
				require.Empty(t, r.Errors)
				// The aim is 40 to 60 %. Runs on a busy machine had up to 72 % at a hold of 1 ms:
				// see README.md.
				require.InDelta(t, 50, share, 30, "Go's part of the time, in percent")
			})
		})
	}
}

// turns are goroutines that take a lock again and again.
type turns struct {
	wg      sync.WaitGroup
	grants  atomic.Int64
	longest [turnGoroutines]time.Duration // waits
}

func startTurns(t testing.TB, m manager, name string, hold time.Duration, end time.Time) *turns {
	s := new(turns)
	for i := range turnGoroutines {
		s.wg.Go(func() {
			var asked time.Time
			take := func() (*lockmgr.Lock, error) {
				asked = time.Now()
				return m.Lock(t.Context(), name)
			}
			again(t, take, func() (more bool, err error) {
				s.longest[i] = max(s.longest[i], time.Since(asked))
				s.grants.Add(1)
				time.Sleep(hold)
				return time.Now().Before(end), nil
			})
		})
	}
	return s
}

// share looks at a record at random instants until end, and longer if the machine is busy. Of the
// times at which it finds one, it returns the percentage with a holder of the given client or
// manager.
func (w *world) share(t testing.TB, name, uuid string, end time.Time) float64 {
	t.Helper()
	var ours, all int
	for late := end.Add(time.Minute); time.Now().Before(end) || all <= 100 && time.Now().Before(late); {
		for holder := range w.record(t, name) {
			all++
			if strings.HasPrefix(holder, uuid+":") {
				ours++
			}
		}
		time.Sleep(500*time.Microsecond + rand.N(time.Millisecond))
	}
	require.Greater(t, all, 100, "too few samples to judge by")
	return 100 * float64(ours) / float64(all)
}
