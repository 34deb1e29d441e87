package lockmgr_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

var errStopping = errors.New("stopping")

// WaitContext ends each call that waits, as the context of the call does.
func TestWaitContext_EndsTheWait(t *testing.T) {
	for _, c := range optionCalls() {
		if c.column[:3] == "Try" {
			continue // it does not wait
		}
		inBubble(t, c.name, func(t *testing.T, w *scene) {
			m, other := w.managers(lockmgr.Options{})
			take := other.Lock
			if c.column == "Acquire" {
				take = func(ctx context.Context, name string, o ...lockmgr.LockOption) (*lockmgr.Lock, error) {
					return other.Permits(name, 2).Acquire(ctx, 2, o...)
				}
			}
			held := must(take(ctx, "a"))(t)
			stopping, stop := context.WithCancelCause(ctx)
			ended := make(chan error, 1)
			go func() { ended <- c.call(m, "a", lockmgr.WaitContext(stopping)) }()
			time.Sleep(time.Minute)
			require.Empty(t, ended)
			begin := time.Now()
			stop(errStopping)
			err := <-ended
			require.Zero(t, time.Since(begin))
			require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, errStopping)
			synctest.Wait()
			require.Zero(t, m.Stats().Pending)
			mustUnlock(t, held)

			scripts := m.Stats().Scripts
			err = c.call(m, "a", lockmgr.WaitContext(stopping)) // it had ended before
			require.ErrorIs(t, err, errStopping)
			require.ErrorIs(t, err, context.Canceled)
			require.False(t, lockmgr.Temporary(err))
			require.Equal(t, scripts, m.Stats().Scripts)
		})
	}
}

// The end of WaitContext is no end of the work.
func TestWaitContext_EndsNoWork(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		stopping, stop := context.WithCancelCause(ctx)
		got, err := lockmgr.DoValue(ctx, m, "a", func(c context.Context, l *lockmgr.Lock) (string, error) {
			stop(errStopping)
			time.Sleep(time.Hour)
			require.NoError(t, c.Err())
			require.True(t, l.Valid())
			return "done", nil
		}, lockmgr.WaitContext(stopping))
		require.NoError(t, err)
		require.Equal(t, "done", got)
	})
}

// A leader goes on leading when WaitContext ends. It does not campaign again after a loss, and tells
// the loss and the result of its function.
func TestWaitContext_OfALeader(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, n := w.manager(lockmgr.Options{Lease: 3 * second})
		stopping, stop := context.WithCancelCause(ctx)
		terms, failed := 0, errors.New("failed")
		err := m.Lead(ctx, "leader", func(c context.Context, term int64) error {
			terms++
			stop(errStopping)
			time.Sleep(time.Hour)
			require.NoError(t, c.Err())
			n.hush()
			<-c.Done()
			n.heal()
			return failed
		}, lockmgr.WaitContext(stopping))
		require.ErrorIs(t, err, failed)
		require.ErrorIs(t, err, lockmgr.ErrLeaseLost)
		require.Equal(t, 1, terms)
	})
}

// The pause after a failed campaign ends with WaitContext.
func TestWaitContext_EndsThePauseOfACampaign(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, n := w.manager(lockmgr.Options{RetryTime: time.Millisecond})
		n.down.Store(true)
		n.cut()
		stopping, stop := context.WithCancelCause(ctx)
		l := m.CampaignFor(ctx, "leader", lockmgr.WaitContext(stopping))
		time.Sleep(time.Minute) // pauses are of half a second and more
		begin := time.Now()
		stop(errStopping)
		<-l.Done()
		require.Zero(t, time.Since(begin))
		require.ErrorIs(t, l.Err(), errStopping)
		require.NotErrorIs(t, l.Err(), lockmgr.ErrNotAcquired, "the server is away")
	})
}

// A countedContext counts the functions that wait for its end.
type countedContext struct {
	context.Context
	waiting atomic.Int64
}

// Value hides the context of package context, which would be used without AfterFunc.
func (c *countedContext) Value(any) any { return nil }

func (c *countedContext) AfterFunc(f func()) func() bool {
	c.waiting.Add(1)
	stop := context.AfterFunc(c.Context, f)
	return func() bool { c.waiting.Add(-1); return stop() }
}

// Nothing is left at the context of WaitContext when its request has ended.
func TestWaitContext_KeepsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{})
		base, cancel := context.WithCancel(ctx)
		defer cancel()
		c := &countedContext{Context: base}
		granted := mustLock(t, m, "a", lockmgr.WaitContext(c))
		require.Zero(t, c.waiting.Load(), "after the grant")
		mustUnlock(t, granted)
		mustLock(t, other, "a")
		require.Error(t, errOf(m.Lock(ctx, "a", lockmgr.WaitContext(c), lockmgr.MaxWait(second))))
		f := m.LockAsync("a", lockmgr.WaitContext(c))
		require.EqualValues(t, 1, c.waiting.Load())
		f.Cancel()
		synctest.Wait()
		require.Zero(t, c.waiting.Load())
		mustClose(t, m)
		require.ErrorIs(t, errOf(m.Lock(ctx, "a", lockmgr.WaitContext(c))), lockmgr.ErrClosed)
		require.Zero(t, c.waiting.Load())
	})
}

// A lateContext ends just after it was first asked whether it has ended.
type lateContext struct {
	context.Context
	end context.CancelFunc
}

func (c lateContext) Err() error {
	err := c.Context.Err()
	c.end()
	return err
}

// A context of WaitContext that ends while its request is made leaves no request behind.
func TestWaitContext_EndsDuringTheCall(t *testing.T) {
	t.Parallel()
	m := dialMini(t, lockmgr.Options{})
	held := mustLock(t, m, "a")
	for range 2000 {
		base, end := context.WithCancel(ctx)
		stopping := lateContext{base, end}
		require.ErrorIs(t, errOf(m.LockAsync("a", lockmgr.WaitContext(stopping)).Await(ctx)), context.Canceled)
	}
	require.Eventually(t, func() bool { return m.Stats().Pending == 0 }, time.Minute, time.Millisecond)
	mustUnlock(t, held)
	awaitIdle(t, m)
}
