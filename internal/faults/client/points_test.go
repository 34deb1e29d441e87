package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A withdrawal is a request and a way to take it back.
type withdrawal struct {
	begin func(m *lockmgr.Manager, name string) (result func() (*lockmgr.Lock, error), withdraw func())
	err   error
}

// await makes a future's result something to wait for.
func await(f *futures.Future[*lockmgr.Lock]) func() (*lockmgr.Lock, error) {
	return func() (*lockmgr.Lock, error) { <-f.Done(); return f.Result() }
}

// byContext takes a request back by the end of its context.
func byContext(m *lockmgr.Manager, name string) (func() (*lockmgr.Lock, error), func()) {
	c, cancel := context.WithCancel(ctx)
	var l *lockmgr.Lock
	var failed error
	returned := make(chan struct{})
	before := m.Stats().Pending
	go func() {
		defer close(returned)
		l, failed = m.Lock(c, name)
	}()
	for m.Stats().Pending == before { // until it has been made
		runtime.Gosched()
	}
	return func() (*lockmgr.Lock, error) { <-returned; return l, failed }, func() { cancel(); <-returned }
}

var withdrawals = map[string]withdrawal{
	"future cancelled": {
		begin: func(m *lockmgr.Manager, name string) (func() (*lockmgr.Lock, error), func()) {
			f := m.LockAsync(name)
			return await(f), func() { f.Cancel() }
		},
		err: lockmgr.ErrCanceled,
	},
	"context cancelled": {begin: byContext, err: context.Canceled},
	"wait ran out": {
		begin: func(m *lockmgr.Manager, name string) (func() (*lockmgr.Lock, error), func()) {
			// Long enough to get to the point in hand; where it is not, this is a cancel at an
			// earlier one.
			const wait = 40 * time.Millisecond
			f := m.LockAsync(name, lockmgr.MaxWait(wait))
			return await(f), func() { <-f.Done() }
		},
		err: lockmgr.ErrWaitTimeout,
	},
}

// A point is a moment in the life of a request. reach brings a request for name there, calls
// withdraw, and then lets everything run again. begin makes the request.
type point struct {
	name  string
	reach func(w *stage, name string, begin func() func())
	// contended: another manager holds the name, and gives it back in the end.
	contended bool
}

// A stage is a server, the manager under test and another one.
type stage struct {
	t     *testing.T
	s     *redistest.Server
	m     *lockmgr.Manager
	other *lockmgr.Manager
	lock  *lockmgr.Lock // the other's, at contended points
}

// sending waits until the manager has made n scripts in all.
func (w *stage) sending(n uint64) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.m.Stats().Scripts >= n }, faults.Patience, 50*time.Microsecond)
}

var points = []point{
	{name: "queued behind a script", reach: func(w *stage, _ string, begin func() func()) {
		resume := pause(w.t, w.s)
		first := w.m.LockAsync("first")
		held(w.t, w.s, 1)
		withdraw := begin()
		w.sending(2)
		withdraw()
		resume()
		l := faults.Await(w.t, first)
		require.NoError(w.t, l.Unlock(faults.Patient(w.t)))
	}},
	{name: "the answer is on its way", reach: func(w *stage, _ string, begin func() func()) {
		resume := pause(w.t, w.s)
		withdraw := begin()
		held(w.t, w.s, 1)
		withdraw()
		resume()
	}},
	{name: "refused, and subscribing", contended: true, reach: func(w *stage, name string, begin func() func()) {
		withdraw := begin()
		require.Eventually(w.t, func() bool { return w.over() || w.m.Stats().Subscriptions > 0 }, faults.Patience, 50*time.Microsecond)
		withdraw()
	}},
	{name: "waiting for a message", contended: true, reach: func(w *stage, name string, begin func() func()) {
		withdraw := begin()
		w.subscribed(name)
		withdraw()
	}},
	{name: "woken, and asking again", reach: func(w *stage, name string, begin func() func()) {
		faults.Do(w.t, w.s, "HSET", name, "somebody:1", "1")
		faults.Do(w.t, w.s, "PEXPIRE", name, "120000")
		withdraw := begin()
		w.subscribed(name)
		// What an unlock does, but so that the next script is held back.
		atOnce(w.t, w.s, "DEL "+name, "PUBLISH "+faults.Channel(name)+" 0", "CLIENT PAUSE 60000 WRITE")
		require.Eventually(w.t, func() bool { return w.over() || blocked(w.t, w.s) > 0 }, faults.Patience, time.Millisecond, "no script arrived")
		withdraw()
		faults.Do(w.t, w.s, "CLIENT", "UNPAUSE")
	}},
}

// over reports whether the request has ended. One whose wait ran out may have, on a busy machine,
// before it came to the point in hand.
func (w *stage) over() bool { return w.m.Stats().Pending == 0 }

// subscribed waits until the manager listens, and has looked once more, or the request is over.
func (w *stage) subscribed(name string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.over() || faults.Subscribers(w.t, w.s, name) != 0 }, faults.Patience, time.Millisecond)
	sent := w.m.Stats().Scripts
	require.Eventually(w.t, func() bool {
		was := sent
		sent = w.m.Stats().Scripts
		redistest.Must(w.m.Inspect(faults.Patient(w.t), name))(w.t) // goes behind a try
		return was == sent
	}, faults.Patience, time.Millisecond)
}

// Whatever a request is doing when it is taken back, and however that is done: nothing is left of
// it, and those who still want the lock get it. A wake-up that came for it goes to the next in
// line.
func TestCancel_AtEveryPointLeavesNothing(t *testing.T) {
	s := redistest.Start(t).Unrestricted() // an administrator acts here, over a connection of its own
	for _, p := range points {
		for way, wd := range withdrawals {
			for _, followed := range []bool{false, true} {
				what := fmt.Sprintf("%s/%s/alone", p.name, way)
				if followed {
					what = fmt.Sprintf("%s/%s/others wait", p.name, way)
				}
				t.Run(what, func(t *testing.T) { cancelAt(t, s, p, wd, followed) })
			}
		}
	}
}

func cancelAt(t *testing.T, s *redistest.Server, p point, wd withdrawal, followed bool) {
	const name = "a"
	faults.Do(t, s, "CONFIG", "RESETSTAT")
	w := &stage{t: t, s: s, m: dial(t, s, lockmgr.Options{}), other: dial(t, s, lockmgr.Options{})}
	if p.contended {
		w.lock = faults.Take(t, w.other, name)
	}

	var result func() (*lockmgr.Lock, error)
	var here, there *futures.Future[*lockmgr.Lock]
	p.reach(w, name, func() func() {
		var withdraw func()
		result, withdraw = wd.begin(w.m, name)
		return func() {
			if followed {
				here, there = w.m.LockAsync(name), w.other.LockAsync(name)
			}
			withdraw()
		}
	})
	_, err := result()
	if !errors.Is(err, lockmgr.ErrUnavailable) { // a busy server did not answer in time
		require.ErrorIs(t, err, wd.err)
	}
	if w.lock != nil && w.lock.Err() == nil {
		require.NoError(t, w.lock.Unlock(faults.Patient(t)))
	}
	if followed {
		// In either order: each is served, and only when the other is done.
		served := make(chan error, 2)
		for _, f := range []*futures.Future[*lockmgr.Lock]{here, there} {
			go func() {
				l, err := f.Await(faults.Patient(t))
				if err == nil {
					err = l.Unlock(faults.Patient(t))
				}
				served <- err
			}()
		}
		require.NoError(t, <-served)
		require.NoError(t, <-served)
	}
	require.Eventually(t, func() bool {
		st := w.m.Stats()
		return st.Pending == 0 && st.Waiting == 0 && faults.Do(t, s, "EXISTS", name) == "0"
	}, faults.Patience, time.Millisecond, "what is left while the manager lives")
	faults.AwaitSubscribed(t, s, name, 0)
	require.NoError(t, w.m.Close(faults.Patient(t)))
	require.NoError(t, w.other.Close(faults.Patient(t)))
	requireNothingLeft(t, s)
}
