package lockmgr

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// heldLock is a lock with a hold of an hour and no manager.
func heldLock() *Lock {
	l := &Lock{}
	l.ticket.shell = &shell{clock: newClock(readClocks)}
	r := &l.ticket.request
	r.Tag, r.Hold = l, &core.Hold{Request: r}
	l.ticket.hold().until.Store(int64(time.Hour))
	return l
}

// endLease makes a lease end, and nobody notices it.
func (l *Lock) endLease() { l.ticket.hold().until.Store(int64(l.ticket.shell.clock.exact())) }

// A context of a lock ends with the lease, whichever method is asked first, before the manager has
// noticed anything: a process that was paused continues with all its goroutines at once.
func TestContext_EndsWithTheLease(t *testing.T) {
	type key struct{}
	parent := context.WithValue(context.Background(), key{}, "value")
	for what, ended := range map[string]func(ctx context.Context) bool{
		"Err":   func(ctx context.Context) bool { return ctx.Err() == context.Canceled },
		"Cause": func(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrLeaseLost) },
		"Done": func(ctx context.Context) bool {
			select {
			case <-ctx.Done():
				return true
			default:
				return false
			}
		},
		"a context with a value": func(ctx context.Context) bool {
			return context.WithValue(ctx, key{}, "another").Err() == context.Canceled
		},
		"a new child": func(ctx context.Context) bool {
			child, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			return child.Err() == context.Canceled && errors.Is(context.Cause(child), ErrLeaseLost)
		},
		"AfterFunc": func(ctx context.Context) bool {
			done := make(chan struct{})
			context.AfterFunc(ctx, func() { close(done) })
			<-done
			return true
		},
	} {
		t.Run(what, func(t *testing.T) {
			l := heldLock()
			ctx := l.Context(parent)
			goroutines := runtime.NumGoroutine()
			var children []context.Context
			told := make(chan struct{})
			for range 100 {
				child, cancel := context.WithCancel(ctx)
				defer cancel()
				children = append(children, child)
			}
			context.AfterFunc(ctx, func() { close(told) })
			require.LessOrEqual(t, runtime.NumGoroutine(), goroutines, "no goroutine for a child")
			require.NoError(t, ctx.Err())
			require.NoError(t, context.Cause(ctx))
			require.Same(t, ctx, l.Context(parent))
			l.endLease()
			require.True(t, ended(ctx))
			require.Equal(t, context.Canceled, ctx.Err())
			require.ErrorIs(t, context.Cause(ctx), ErrLeaseLost)
			require.Equal(t, "value", ctx.Value(key{}))
			for _, child := range children {
				require.Equal(t, context.Canceled, child.Err())
			}
			<-told
			require.Equal(t, context.Canceled, l.Context(parent).Err(), "one that is made later")
			l.ticket.hold().end(ErrLeaseLost, ErrLeaseLost) // the manager notices it now
			require.ErrorIs(t, context.Cause(l.Context(parent)), ErrLeaseLost)
			require.Zero(t, l.bound(), "nothing is kept for a lock that has ended")
		})
	}
}

// An unheard context has the error of another one, and does not end.
type unheard struct {
	context.Context
	other context.Context
}

func (c unheard) Err() error { return c.other.Err() }

// A leader whose lease is over does not lead, even if nobody has noticed.
func TestLeader_NeverLate(t *testing.T) {
	held := heldLock()
	held.ticket.request.Hold.Token = 7
	l := Leader{parent: context.Background(), ctx: context.Background()}
	l.held.Store(held)
	require.True(t, l.IsLeader())
	require.EqualValues(t, 7, l.Term())
	ended, end := context.WithCancel(context.Background())
	end()
	l.parent = unheard{context.Background(), ended}
	require.False(t, l.IsLeader(), "the context of the campaign has ended, and told nobody")
	l.parent = context.Background()
	held.endLease()
	require.False(t, l.IsLeader())
	require.Zero(t, l.Term())
}

func (l *Lock) bound() int {
	more := l.ticket.hold().makeMore()
	more.mu.Lock()
	defer more.mu.Unlock()
	return len(more.contexts)
}

// A long hold forgets the contexts whose parents have ended, and keeps the others.
func TestContext_ForgottenOnceItsParentEnded(t *testing.T) {
	l := heldLock()
	var live []context.Context
	for i := range 100 {
		live = append(live, l.Context(context.Background()))
		for range 100 {
			parent, cancel := context.WithCancel(context.Background())
			l.Context(parent)
			cancel()
		}
		require.LessOrEqual(t, l.bound(), 2*i+2*minSweep)
	}
	goroutines := runtime.NumGoroutine()
	for _, c := range live {
		require.NoError(t, c.Err())
	}
	l.ticket.hold().end(ErrLeaseLost, ErrLeaseLost)
	for _, c := range live {
		require.ErrorIs(t, context.Cause(c), ErrLeaseLost)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
}

// A countedContext counts how often it was asked whether it has ended.
type countedContext struct {
	context.Context
	asked *int
}

func (c countedContext) Err() error {
	*c.asked++
	return c.Context.Err()
}

// The cost of a call does not depend on how many contexts the hold has.
func TestContext_CallLooksAtFewOthers(t *testing.T) {
	l := heldLock()
	asked := 0
	const n = 10_000
	for range n {
		ctx, cancel := context.WithCancelCause(context.Background())
		l.ticket.hold().bind(boundContext{over: &l.ticket.over, ctx: countedContext{ctx, &asked}, cancel: cancel})
	}
	require.Equal(t, n, l.bound())
	require.LessOrEqual(t, asked, 2*n)
	l.ticket.hold().end(ErrLeaseLost, ErrLeaseLost)
}

// A call of Lost while the loss is reported: the channel is closed exactly once. With the race
// detector this fails at once if both close it, or neither.
func TestLock_LostIsAskedForDuringTheLoss(t *testing.T) {
	for range 2000 {
		l := heldLock()
		h := l.ticket.hold()
		h.makeMore() // as after Context
		var wg sync.WaitGroup
		wg.Go(func() { h.end(errors.New("lost"), nil) })
		<-l.Lost()
		wg.Wait()
	}
}
