package lockmgr_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// In these tests a Stopper stops the manager's goroutine at a chosen moment.

// Valid does not depend on the manager: it ends at the deadline even if the manager's goroutine
// cannot notice anything.
func TestLock_ValidEndsWhileTheManagerIsStuck(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var stopper lockmgr.Stopper
		m, _ := w.manager(stopper.Options(lockmgr.Options{}))
		l := mustLock(t, m, "a", lockmgr.FixedLease(second))
		lost := l.Lost()
		resume := stopper.Stop(m)
		left := l.Remaining()
		time.Sleep(left - 1)
		require.True(t, l.Valid())
		time.Sleep(time.Nanosecond)
		require.False(t, l.Valid())
		require.Zero(t, l.Remaining())
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		require.False(t, closedNow(lost), "the manager has noticed: it was not stuck")
		resume()
		<-lost
	})
}

// A withdrawal is a request and a way to withdraw it. begin makes the request. withdraw ends it,
// which takes 41 ms at most; err is the request's error then.
type withdrawal struct {
	begin func(m *lockmgr.Manager) (result func() (*lockmgr.Lock, error), withdraw func())
	err   error
}

const briefly = 40 * milli

// blocking makes a withdrawal of a call that ends with its context.
func blocking(m *lockmgr.Manager, c context.Context, withdraw func()) (func() (*lockmgr.Lock, error), func()) {
	var l *lockmgr.Lock
	var err error
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		l, err = m.Lock(c, "a")
	}()
	synctest.Wait()
	return func() (*lockmgr.Lock, error) { <-returned; return l, err }, withdraw
}

var withdrawals = map[string]withdrawal{
	"future cancelled": {func(m *lockmgr.Manager) (func() (*lockmgr.Lock, error), func()) {
		f := m.LockAsync("a")
		return func() (*lockmgr.Lock, error) { <-f.Done(); return f.Result() }, func() { f.Cancel() }
	}, lockmgr.ErrCanceled},
	"context cancelled": {func(m *lockmgr.Manager) (func() (*lockmgr.Lock, error), func()) {
		c, cancel := context.WithCancel(ctx)
		return blocking(m, c, cancel)
	}, context.Canceled},
	"context timed out": {func(m *lockmgr.Manager) (func() (*lockmgr.Lock, error), func()) {
		c, cancel := context.WithTimeout(ctx, briefly)
		return blocking(m, c, func() { <-c.Done(); cancel() })
	}, context.DeadlineExceeded},
	"wait ran out": {func(m *lockmgr.Manager) (func() (*lockmgr.Lock, error), func()) {
		f := m.LockAsync("a", lockmgr.MaxWait(briefly))
		return func() (*lockmgr.Lock, error) { return f.Await(ctx) }, func() { time.Sleep(briefly + milli) }
	}, lockmgr.ErrWaitTimeout},
}

// A stopping is a moment at which the manager's goroutine stands still while a request is
// withdrawn.
type stopping struct {
	name string
	// contended: another manager holds the lock when the request is made.
	contended bool
	// late: the grant may have been decided before.
	late bool
	// before makes the request. If nil, it is made while the manager stands still.
	before func(net *network, begin func())
	// stopped runs while the manager stands still, before the withdrawal.
	stopped func(t *testing.T, theirs *lockmgr.Lock)
}

var stoppings = []stopping{
	{name: "before it is sent", stopped: func(*testing.T, *lockmgr.Lock) {}},
	{name: "the grant is in the mailbox", late: true,
		before: func(net *network, begin func()) {
			net.delay.Store(int64(5 * milli))
			begin()
			synctest.Wait()
		},
		stopped: func(*testing.T, *lockmgr.Lock) { time.Sleep(20 * milli) }, // the answer arrives
	},
	{name: "a message is coming in", contended: true, late: true,
		before:  func(_ *network, begin func()) { begin(); time.Sleep(30 * milli) }, // until it listens
		stopped: func(t *testing.T, theirs *lockmgr.Lock) { mustUnlock(t, theirs) },
	},
}

// A request that is withdrawn while the manager's goroutine stands still leaves nothing behind, and
// later requests get the lock. The tests of internal/faults/client withdraw requests while the
// goroutine runs.
func TestCancel_WhileTheManagerIsStuckLeavesNothing(t *testing.T) {
	for _, at := range stoppings {
		for way, wd := range withdrawals {
			for _, followed := range []bool{false, true} {
				inBubble(t, fmt.Sprintf("%s/%s/followed %v", at.name, way, followed), func(t *testing.T, w *scene) {
					withdrawStopped(t, w, at, wd, followed)
				})
			}
		}
	}
}

func withdrawStopped(t *testing.T, w *scene, at stopping, wd withdrawal, followed bool) {
	var stopper lockmgr.Stopper
	m, net := w.manager(stopper.Options(lockmgr.Options{Linger: -1}))
	other, _ := w.manager(lockmgr.Options{Linger: -1})
	var theirs *lockmgr.Lock
	if at.contended {
		theirs = mustLock(t, other, "a")
	}

	var result func() (*lockmgr.Lock, error)
	var withdraw func()
	begin := func() { result, withdraw = wd.begin(m) }
	if at.before != nil {
		at.before(net, begin)
	}
	resume := stopper.Stop(m)
	if at.before == nil {
		begin()
	}
	at.stopped(t, theirs)
	var next []*futures.Future[*lockmgr.Lock]
	if followed {
		next = append(next, m.LockAsync("a"), other.LockAsync("a"))
	}
	withdraw()
	synctest.Wait()
	resume()
	net.delay.Store(0)

	if l, err := result(); at.late && err == nil {
		mustUnlock(t, l)
	} else {
		if !errors.Is(err, lockmgr.ErrUnavailable) { // a busy server did not answer in time
			require.ErrorIs(t, err, wd.err)
		}
	}
	served := make(chan error, len(next))
	for _, f := range next { // in either order
		go func() {
			l, err := f.Await(endsIn(t, 10*second))
			if err == nil {
				err = l.Unlock(ctx)
			}
			served <- err
		}()
	}
	for range next {
		require.NoError(t, <-served)
	}
	time.Sleep(second)
	st := m.Stats()
	require.Zero(t, st.Pending)
	require.Zero(t, st.Waiting)
	require.Zero(t, st.Subscriptions)
	require.Zero(t, st.Held)
	require.Empty(t, w.owners("a"), "it would stay until its lease ends")
	require.Zero(t, st.Unreleased)
}
