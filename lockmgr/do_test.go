package lockmgr_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestDo(t *testing.T) {
	t.Parallel()
	m := dialMini(t, lockmgr.Options{})
	type key struct{}
	parent := context.WithValue(ctx, key{}, "kept")
	var inner context.Context
	require.NoError(t, m.Do(parent, "a", func(c context.Context, l *lockmgr.Lock) error {
		require.True(t, l.Valid())
		require.NotZero(t, l.Token(), "options are passed on")
		require.Equal(t, "kept", c.Value(key{}))
		require.NoError(t, c.Err())
		child, cancel := context.WithTimeout(context.WithValue(c, key{}, "of the child"), time.Minute)
		defer cancel()
		require.Same(t, l, lockmgr.FromContext(c))
		require.Same(t, l, lockmgr.FromContext(child))
		require.NoError(t, m.Do(child, "b", func(c context.Context, l *lockmgr.Lock) error {
			require.Same(t, l, lockmgr.FromContext(c), "the innermost")
			return nil
		}))
		inner = c
		require.ErrorIs(t, errOf(m.TryLock(ctx, "a")), lockmgr.ErrNotAcquired)
		return nil
	}, lockmgr.Fenced()))
	require.ErrorIs(t, context.Cause(inner), lockmgr.ErrNotHeld)
	require.False(t, lockmgr.FromContext(inner).Valid())
	require.Nil(t, lockmgr.FromContext(parent))
	awaitIdle(t, m)
}

func TestDo_ReturnsTheErrors(t *testing.T) {
	t.Parallel()
	m := dialMini(t, lockmgr.Options{})
	held := mustLock(t, m, "held")
	err := m.Do(ctx, "held", func(context.Context, *lockmgr.Lock) error {
		t.Error("called without the lock")
		return nil
	}, lockmgr.MaxWait(0))
	requireLockError(t, err, "lock", "held", lockmgr.ErrNotAcquired)
	mustUnlock(t, held)

	failed := errors.New("failed")
	require.Equal(t, failed, m.Do(ctx, "a", func(context.Context, *lockmgr.Lock) error { return failed }), "as it is")
	require.NoError(t, m.Do(ctx, "a", func(_ context.Context, l *lockmgr.Lock) error { return l.Unlock(ctx) }), "an early unlock")
	awaitIdle(t, m)
}

// Lock.Do runs no function without the lock, and unlocks.
func TestLockDo(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		calls, failed := 0, errors.New("failed")
		work := func(c context.Context) error {
			calls++
			require.True(t, lockmgr.FromContext(c).Valid())
			return failed
		}
		l := mustAwait(t, m.LockAsync("orders"))
		require.Equal(t, failed, l.Do(ctx, work))
		requireLockError(t, l.Do(ctx, work), "hold", "orders", lockmgr.ErrNotHeld)
		l = mustLock(t, m, "orders", lockmgr.FixedLease(second))
		<-l.Lost()
		requireLockError(t, l.Do(ctx, work), "hold", "orders", lockmgr.ErrLeaseLost)
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		ended, cancel := context.WithCancelCause(ctx)
		cancel(&lockmgr.LockError{Op: "lock", Name: "others", Err: context.Canceled})
		l = mustLock(t, m, "orders")
		err := l.Do(ended, work)
		require.ErrorIs(t, err, context.Canceled)
		require.EqualError(t, err, `lockmgr: lock "orders": lock "others": context canceled`)
		require.ErrorIs(t, l.Err(), lockmgr.ErrNotHeld)
		require.Equal(t, 1, calls)
		awaitIdle(t, m)
	})
}

// A function that returns why its lock was lost adds nothing: the loss is told once. An error that
// only matches the loss is kept.
func TestDo_TellsTheLossOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		for name, result := range map[string]func(cause error) error{
			"nothing":           func(error) error { return nil },
			"the loss itself":   func(cause error) error { return cause },
			"another failure":   func(error) error { return errors.New("failed") },
			"with words around": func(cause error) error { return fmt.Errorf("working: %w", cause) },
			"the loss of another": func(error) error {
				return &lockmgr.LockError{Op: "hold", Name: "others", Err: lockmgr.ErrLeaseLost}
			},
			"an inner Do without a lock": func(error) error {
				return &lockmgr.LockError{Op: "hold", Name: "orders", Err: lockmgr.ErrNotHeld}
			},
			"another error of the lock": func(error) error {
				return &lockmgr.LockError{Op: "lock", Name: "orders", Err: lockmgr.ErrNotAcquired}
			},
			"one not to compare":   func(cause error) error { return incomparable{cause} },
			"the end of a context": func(error) error { return context.Canceled },
		} {
			var told error
			err := m.Do(ctx, "orders", func(c context.Context, l *lockmgr.Lock) error {
				<-c.Done()
				told = result(context.Cause(c))
				return told
			}, lockmgr.MaxHold(second))
			lines := strings.Split(err.Error(), "\n")
			require.ErrorIs(t, err, lockmgr.ErrLeaseLost, name)
			if last := `lockmgr: hold "orders": lease lost: its MaxHold is over`; name == "the loss itself" || told == nil {
				require.Equal(t, []string{last}, lines, name)
				requireLockError(t, err, "hold", "orders", lockmgr.ErrLeaseLost)
			} else {
				require.True(t, name == "one not to compare" || errors.Is(err, told), name)
				require.Equal(t, []string{told.Error(), last}, lines, name)
			}
		}

		require.NotPanics(t, func() {
			_ = m.Do(ctx, "orders", func(c context.Context, l *lockmgr.Lock) error {
				<-c.Done()
				var none *lockmgr.LockError
				return none
			}, lockmgr.MaxHold(second))
		})

		// Timers are late: the function knows of the loss before the manager.
		err := m.Do(ctx, "orders", func(c context.Context, l *lockmgr.Lock) error {
			for l.Valid() {
				time.Sleep(milli)
			}
			require.Error(t, c.Err())
			return context.Cause(c)
		}, lockmgr.FixedLease(second))
		requireLockError(t, err, "hold", "orders", lockmgr.ErrLeaseLost)

		// The context of an outer lock, and one that ends with an error not to compare.
		outer := incomparable{lockmgr.ErrLeaseLost}
		c, cancel := context.WithCancelCause(ctx)
		err = m.Do(c, "orders", func(c context.Context, l *lockmgr.Lock) error {
			cancel(outer)
			<-l.Lost()
			return context.Cause(c)
		}, lockmgr.MaxHold(second))
		require.ErrorContains(t, err, "not to compare\nlockmgr: hold")

		closing := func(c context.Context, _ *lockmgr.Lock) error {
			mustClose(t, m)
			return context.Cause(c)
		}
		requireLockError(t, m.Do(ctx, "orders", closing), "hold", "orders", lockmgr.ErrClosed)
		m, _ = w.manager(lockmgr.Options{})
		err = m.Lead(ctx, "orders", func(c context.Context, _ int64) error { return closing(c, nil) })
		requireLockError(t, err, "hold", "orders", lockmgr.ErrClosed)
	})
}

// incomparable is an error that == can't compare.
type incomparable []error

func (incomparable) Error() string     { return "not to compare" }
func (e incomparable) Unwrap() []error { return e }

// An unlock ends the context that the lock gave out. Given that context, or a child of it, Unlock
// waits all the same.
func TestUnlock_WithItsOwnContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{})
		require.NoError(t, m.Do(ctx, "a", func(own context.Context, l *lockmgr.Lock) error {
			child, cancel := context.WithTimeout(own, time.Minute)
			defer cancel()
			require.NoError(t, l.Unlock(child))
			require.ErrorIs(t, context.Cause(child), lockmgr.ErrNotHeld)
			free := mustTryLock(t, other, "a")
			require.ErrorIs(t, l.Unlock(child), lockmgr.ErrNotHeld)
			return free.Unlock(ctx)
		}))
	})
}

// On a silent server Do returns in time, and its error is that of fn, since fn held the lock all the
// time. If the context of Do has ended, Do waits for the unlock just as long.
func TestDo_OnASilentServerEndsInTime(t *testing.T) {
	for _, ends := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *scene) {
			m, n := w.manager(lockmgr.Options{RetryTime: time.Second, CommandTimeout: time.Second})
			c, cancel := context.WithCancel(ctx)
			defer cancel()
			start := time.Now()
			err := m.Do(c, "a", func(c context.Context, _ *lockmgr.Lock) error {
				n.hush()
				if ends {
					cancel()
				}
				return c.Err()
			})
			require.Equal(t, ends, err == context.Canceled, err)
			require.Equal(t, !ends, err == nil, err)
			require.GreaterOrEqual(t, time.Since(start), time.Second)
			require.LessOrEqual(t, time.Since(start), 2*time.Second+10*time.Millisecond)
			n.heal()
			time.Sleep(time.Minute)
			require.Empty(t, w.owners("a"))
		})
	}
}

func TestDo_LetsPanicsPass(t *testing.T) {
	t.Parallel()
	m := dialMini(t, lockmgr.Options{})
	require.PanicsWithValue(t, "at the disco", func() {
		_ = m.Do(ctx, "a", func(context.Context, *lockmgr.Lock) error { panic("at the disco") })
	})
	require.Zero(t, m.Stats().Held, "released before the panic goes on")
	awaitIdle(t, m)
}
