package lockmgr_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestTwoExtendsAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		l, err := m.Lock(ctx, "a", lockmgr.FixedLease(20*second))
		require.NoError(t, err)
		net.delay.Store(int64(10 * milli))
		// The second asks while the renewal for the first is in flight.
		done := make(chan error, 2)
		go func() { done <- l.Extend(ctx, 20*second) }()
		time.Sleep(5 * milli)
		go func() { done <- l.Extend(ctx, 20*second) }()
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		time.Sleep(19 * second)
		require.True(t, l.Valid())
	})
}

func TestExtendOfAFixedLeaseBeyondTheWatchdogs(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l, err := m.Lock(ctx, "a", lockmgr.FixedLease(second))
		require.NoError(t, err)
		require.NoError(t, l.Extend(ctx, time.Hour))
		time.Sleep(59 * time.Minute)
		require.True(t, l.Valid())
		<-l.Lost()
		require.ErrorIs(t, l.Extend(ctx, second), lockmgr.ErrLeaseLost)
	})
}

func TestExtendTellsOfALoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		require.ErrorIs(t, l.Extend(ctx, time.Nanosecond), lockmgr.ErrInvalidLease)
		w.server.Del("a")
		require.ErrorIs(t, l.Extend(ctx, second), lockmgr.ErrLeaseLost)
		require.False(t, l.Valid())

		l, err = m.Lock(ctx, "a")
		require.NoError(t, err)
		require.NoError(t, l.Unlock(ctx))
		require.ErrorIs(t, l.Extend(ctx, second), lockmgr.ErrNotHeld)
	})
}

func TestMaxHoldEndsAWatchedLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		begin := time.Now()
		l, err := m.Lock(ctx, "a", lockmgr.MaxHold(2*time.Minute))
		require.NoError(t, err)
		<-l.Lost()
		require.Equal(t, 2*time.Minute, time.Since(begin), "renewed for so long, and no longer")
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		require.ErrorContains(t, l.Err(), "MaxHold")
	})
}

func TestAReentryWithMaxHoldShortensNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		o := m.NewOwner()
		_, err := m.Lock(ctx, "a", lockmgr.AsOwner(o), lockmgr.FixedLease(20*second))
		require.NoError(t, err)
		l, err := m.Lock(ctx, "a", lockmgr.AsOwner(o), lockmgr.MaxHold(second))
		require.NoError(t, err)
		time.Sleep(19 * second)
		require.True(t, l.Valid())
	})
}

// A worker that asks for a context with each job does not pile them up.
func TestAContextOfTheSameParentIsTheSame(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		first := l.Context(ctx)
		require.Equal(t, first, l.Context(ctx))
		other, cancel := context.WithCancel(ctx)
		defer cancel()
		require.NotEqual(t, first, l.Context(other))
		require.NoError(t, l.Unlock(ctx))
		require.ErrorIs(t, context.Cause(first), lockmgr.ErrNotHeld)
		require.ErrorIs(t, context.Cause(l.Context(ctx)), lockmgr.ErrNotHeld)
	})
}
