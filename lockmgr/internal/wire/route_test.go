package wire

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A countedServer counts its batches.
type countedServer struct {
	batches int
	closed  int
}

func (s *countedServer) Exec(*Deadline, []Command, []Answer) { s.batches++ }
func (s *countedServer) Close()                              { s.closed++ }

// A routeWorld is a route whose dials the test answers.
type routeWorld struct {
	route
	t      *testing.T
	common countedServer
	dials  chan chan *countedServer // nil: the dial failed
}

func newRouteWorld(t *testing.T) *routeWorld {
	w := &routeWorld{t: t, dials: make(chan chan *countedServer, 9)}
	w.shared = &w.common
	w.dial = func() (Connection, error) {
		answer := make(chan *countedServer)
		w.dials <- answer
		if c := <-answer; c != nil {
			return c, nil
		}
		return nil, errors.New("refused")
	}
	return w
}

// batch sends batches, each of which gets an answer or not.
func (w *routeWorld) batch(n int, renews, failed bool) {
	for range n {
		w.begin(renews).Exec(nil, nil, nil)
		w.end(failed)
	}
}

// answer ends the dial under way.
func (w *routeWorld) answer(c *countedServer) {
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
	w.batch(dedicateAfter, false, false)
	c := new(countedServer)
	w.answer(c)
	return c
}

func (w *routeWorld) requireNoDial() {
	synctest.Wait()
	require.Empty(w.t, w.dials)
}

func TestRoute_OwnConnectionAfterSomeBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRouteWorld(t)
		w.batch(dedicateAfter-1, false, false)
		w.requireNoDial()
		w.batch(1, false, false)
		w.batch(2*dedicateAfter, false, false) // while it dials
		c := new(countedServer)
		w.answer(c)
		require.Equal(t, 3*dedicateAfter, w.common.batches)
		w.batch(5, false, false)
		require.Equal(t, 5, c.batches)
		w.batch(7, true, false)
		require.Equal(t, 5, c.batches, "renewals share a pipeline")
		require.Equal(t, 3*dedicateAfter+7, w.common.batches)
		w.requireNoDial()
		w.close()
		require.Equal(t, 1, c.closed)
	})
}

func TestRoute_FailureLeavesTheOwnConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRouteWorld(t)
		c := w.open()
		w.batch(1, false, true)
		require.Equal(t, countedServer{batches: 1, closed: 1}, *c)
		w.batch(dedicateAfter-1, false, false)
		w.batch(1, false, true) // begins the count again
		w.batch(dedicateAfter-1, false, false)
		w.requireNoDial()
		w.batch(1, false, false)
		second := new(countedServer)
		w.answer(second)
		w.batch(1, false, false)
		w.batch(1, true, true)
		require.Equal(t, countedServer{batches: 1}, *second, "the failure was the shared connection's")
		w.close()
		require.Equal(t, 1, c.closed)
	})
}

func TestRoute_DialFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRouteWorld(t)
		w.batch(dedicateAfter, false, false)
		w.answer(nil)
		w.batch(dedicateAfter-1, false, false)
		w.requireNoDial()
		w.batch(1, false, false)
		w.answer(nil)
		w.close()
	})
}

func TestRoute_IdleConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRouteWorld(t)
		for range 2 {
			c := w.open()
			for range 5 {
				time.Sleep(idleTime - time.Second)
				w.batch(1, false, false)
			}
			synctest.Wait()
			require.Equal(t, countedServer{batches: 5}, *c)
			w.begin(false)
			time.Sleep(3 * idleTime)
			synctest.Wait()
			require.Zero(t, c.closed, "a batch is under way")
			w.end(false)
			time.Sleep(2*idleTime + time.Second)
			synctest.Wait()
			require.Equal(t, 1, c.closed)
		}
		w.close()
	})
}

func TestRoute_CloseDuringADial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRouteWorld(t)
		w.batch(dedicateAfter, false, false)
		synctest.Wait()
		w.close()
		c := new(countedServer)
		w.answer(c)
		require.Equal(t, 1, c.closed)
		w.batch(2*dedicateAfter, false, false)
		w.requireNoDial()
	})
}

func TestRoute_WithoutDial(t *testing.T) {
	w := &routeWorld{t: t}
	w.shared = &w.common
	w.batch(3*dedicateAfter, false, false)
	require.Equal(t, 3*dedicateAfter, w.common.batches)
	w.close()
}
