package wire

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A countedServer counts its batches. Its Close blocks for a time.
type countedServer struct {
	batches     atomic.Int64
	closed      atomic.Int64
	closingTime time.Duration
}

func (s *countedServer) Exec(*Deadline, []Command, []Answer) { s.batches.Add(1) }

func (s *countedServer) Close() {
	time.Sleep(s.closingTime)
	s.closed.Add(1)
}

func (s *countedServer) requireCounts(t *testing.T, batches, closed int) {
	t.Helper()
	synctest.Wait()
	require.EqualValues(t, batches, s.batches.Load(), "batches")
	require.EqualValues(t, closed, s.closed.Load(), "closed")
}

// A routeWorld is a route whose dials the test answers.
type routeWorld struct {
	route
	t      *testing.T
	start  time.Time
	common countedServer
	dials  chan chan *countedServer // nil: the dial failed
}

// inRoute runs a test of a route in fake time. Afterwards nothing may be left.
func inRoute(t *testing.T, test func(t *testing.T, w *routeWorld)) {
	synctest.Test(t, func(t *testing.T) {
		w := &routeWorld{t: t, start: time.Now(), dials: make(chan chan *countedServer, 9)}
		w.shared, w.maxPause = &w.common, longestPause
		w.dial = func() (Connection, error) {
			answer := make(chan *countedServer)
			w.dials <- answer
			if c := <-answer; c != nil {
				return c, nil
			}
			return nil, errors.New("refused")
		}
		time.Sleep(time.Hour)
		test(t, w)
		w.close()
		w.wait()
	})
}

func (w *routeWorld) now() time.Duration { return time.Since(w.start) }

// batch sends batches one after the other, each of which gets an answer or not.
func (w *routeWorld) batch(n int, healthy bool) {
	for range n {
		w.begin(w.now()).Exec(nil, nil, nil)
		time.Sleep(time.Millisecond)
		w.end(w.now(), healthy)
	}
}

// answer ends the dial under way.
func (w *routeWorld) answer(c *countedServer) {
	w.t.Helper()
	synctest.Wait()
	select {
	case answer := <-w.dials:
		answer <- c
	default:
		require.FailNow(w.t, "no dial")
	}
	synctest.Wait()
}

// open makes the route open a connection.
func (w *routeWorld) open() *countedServer {
	w.t.Helper()
	w.batch(dedicateAfter, true)
	c := new(countedServer)
	w.answer(c)
	return c
}

func (w *routeWorld) requireNoDial() {
	w.t.Helper()
	synctest.Wait()
	require.Empty(w.t, w.dials)
}

func TestRoute_OwnConnectionAfterSomeBatches(t *testing.T) {
	inRoute(t, func(t *testing.T, w *routeWorld) {
		w.batch(dedicateAfter-1, true)
		w.requireNoDial()
		w.batch(1, true)
		w.batch(2*dedicateAfter, true) // while it dials
		c := new(countedServer)
		w.answer(c)
		w.common.requireCounts(t, 3*dedicateAfter, 0)
		w.batch(5, true)
		c.requireCounts(t, 5, 0)
		w.requireNoDial()
		w.close()
		c.requireCounts(t, 5, 1)
	})
}

// Batches that come now and then need no connection of their own.
func TestRoute_SeldomUsed(t *testing.T) {
	inRoute(t, func(t *testing.T, w *routeWorld) {
		for range 10 {
			w.batch(dedicateAfter-1, true)
			time.Sleep(longestPause + time.Millisecond)
		}
		w.requireNoDial()
	})
}

func TestRoute_FailureLeavesTheOwnConnection(t *testing.T) {
	inRoute(t, func(t *testing.T, w *routeWorld) {
		c := w.open()
		c.closingTime = time.Hour // nothing waits for it
		w.batch(1, false)
		w.batch(1, true)
		c.requireCounts(t, 1, 0)
		time.Sleep(dialPause)
		w.batch(dedicateAfter-1, true)
		w.batch(1, false) // begins the count again
		w.batch(dedicateAfter-1, true)
		w.requireNoDial()
		w.batch(1, true)
		second := new(countedServer)
		w.answer(second)
		w.batch(1, true)
		second.requireCounts(t, 1, 0)
		c.requireCounts(t, 1, 0)
		time.Sleep(time.Hour)
		c.requireCounts(t, 1, 1)
	})
}

// A failure on the shared connection does not concern a connection that was opened meanwhile.
func TestRoute_OpenedDuringAFailure(t *testing.T) {
	inRoute(t, func(t *testing.T, w *routeWorld) {
		w.batch(dedicateAfter, true)
		w.begin(w.now())
		c := new(countedServer)
		w.answer(c)
		w.end(w.now(), false)
		c.requireCounts(t, 0, 0)
		w.batch(1, true)
		c.requireCounts(t, 1, 0)
	})
}

// A dial that failed is repeated later and later.
func TestRoute_DialFails(t *testing.T) {
	inRoute(t, func(t *testing.T, w *routeWorld) {
		dials := 0
		for range 3600 { // an hour
			w.batch(dedicateAfter, true)
			time.Sleep(time.Second - dedicateAfter*time.Millisecond)
			synctest.Wait()
			for len(w.dials) > 0 {
				dials++
				w.answer(nil)
			}
		}
		require.InDelta(t, 8+3600/300, dials, 3)
		time.Sleep(mostDialPause)
		w.open()
		w.batch(1, false)
		w.batch(900, true)
		w.requireNoDial()
		w.batch(200, true)
		w.answer(new(countedServer))
	})
}

// A connection that was silent may be dead, and a ping may be under way on it.
func TestRoute_PauseLeavesTheOwnConnection(t *testing.T) {
	inRoute(t, func(t *testing.T, w *routeWorld) {
		c := w.open()
		for range 5 {
			time.Sleep(longestPause)
			w.batch(1, true)
		}
		c.requireCounts(t, 5, 0)
		time.Sleep(longestPause + time.Millisecond)
		w.batch(1, true)
		c.requireCounts(t, 5, 1)

		// Without a batch a timer closes it.
		time.Sleep(dialPause)
		c = w.open()
		w.batch(1, true)
		time.Sleep(3 * idleTime)
		c.requireCounts(t, 1, 1)
	})
}

func TestRoute_LongBatchIsNoPause(t *testing.T) {
	inRoute(t, func(t *testing.T, w *routeWorld) {
		c := w.open()
		w.begin(w.now())
		time.Sleep(5 * idleTime)
		c.requireCounts(t, 0, 0)
		w.end(w.now(), true)
		w.batch(1, true)
		c.requireCounts(t, 1, 0)
	})
}

func TestRoute_OldConnectionIsReplaced(t *testing.T) {
	inRoute(t, func(t *testing.T, w *routeWorld) {
		c := w.open()
		opened := w.now()
		for w.now()-opened <= oldest {
			w.batch(1, true)
		}
		used := int(c.batches.Load())
		require.Greater(t, used, int(oldest/time.Millisecond)/2)
		w.batch(1, true)
		c.requireCounts(t, used, 1)
		w.batch(dedicateAfter, true)
		w.answer(new(countedServer))
	})
}

func TestRoute_CloseDuringADial(t *testing.T) {
	inRoute(t, func(t *testing.T, w *routeWorld) {
		w.batch(dedicateAfter, true)
		synctest.Wait()
		w.close()
		c := new(countedServer)
		w.answer(c)
		c.requireCounts(t, 0, 1)
		w.batch(2*dedicateAfter, true)
		w.requireNoDial()
	})
}

func TestRoute_CloseDuringABatch(t *testing.T) {
	inRoute(t, func(t *testing.T, w *routeWorld) {
		c := w.open()
		w.begin(w.now())
		w.close()
		c.requireCounts(t, 0, 1)
		w.end(w.now(), false)
		c.requireCounts(t, 0, 1)
	})
}

func TestRoute_WithoutDial(t *testing.T) {
	w := &routeWorld{t: t, start: time.Now()}
	w.shared = &w.common
	w.batch(3*dedicateAfter, true)
	require.EqualValues(t, 3*dedicateAfter, w.common.batches.Load())
	w.close()
}
