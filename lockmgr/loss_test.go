package lockmgr_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/thorough"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestRenewal_FindsALoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		w.server.Del("a")
		start := time.Now()
		<-l.Lost()
		require.LessOrEqual(t, time.Since(start), 12*second)
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		require.False(t, w.server.Exists("a"), "a renewal must not bring the record back")
	})
}

func TestForceUnlock_IsSeenAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		start := time.Now()
		there, err := m.ForceUnlock(ctx, "a")
		require.NoError(t, err)
		require.True(t, there)
		<-l.Lost()
		require.Less(t, time.Since(start), second)
		there, err = m.ForceUnlock(ctx, "a")
		require.NoError(t, err)
		require.False(t, there)
	})
}

func TestLock_LostAtTheDeadlineOfASilentServer(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		start := time.Now()
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		net.hush()
		c := l.Context(ctx)
		done := c.Done() // asked for while the lock is held
		<-l.Lost()
		require.Equal(t, 29698*milli, time.Since(start).Round(milli))
		<-done // a moment after Lost
		require.ErrorIs(t, context.Cause(c), lockmgr.ErrLeaseLost)
		net.heal()
		again, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		require.NoError(t, again.Unlock(ctx))
		time.Sleep(time.Minute)
		require.Zero(t, m.Stats().Locks)
	})
}

func TestRenewal_FailuresCostNoLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		time.Sleep(9 * second)
		net.cut()
		time.Sleep(14 * second) // a renewal was due at 10 s
		require.True(t, l.Valid())
		net.heal()
		time.Sleep(time.Minute)
		require.True(t, l.Valid(), "the renewal is tried again before the deadline")
		require.NoError(t, l.Unlock(ctx))
	})
}

// Bursts of requests must not delay renewals until leases are lost.
func TestServer_BurstLosesNothing(t *testing.T) {
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{Lease: 3 * time.Second, CommandTimeout: 900 * time.Millisecond})
	var held []*lockmgr.Lock
	for i := range 100 {
		l, err := m.Lock(ctx, fmt.Sprint("held:", i))
		require.NoError(t, err)
		held = append(held, l)
	}
	fs := make([]*futures.Future[*lockmgr.Lock], 10_000)
	for m.Stats().Renewals < uint64(thorough.Choose(1, 2)*len(held)) { // each may have been renewed
		for i := range fs {
			fs[i] = m.LockAsync(fmt.Sprint("burst:", i))
		}
		for _, f := range fs {
			l, err := f.Await(ctx)
			require.NoError(t, err)
			l.UnlockAsync()
		}
	}
	for _, l := range held {
		require.NoError(t, l.Err())
	}
	require.Zero(t, m.Stats().Losses)
}

// The error of a fixed lease that ended by itself says so.
func TestLease_FixedTellsThatItIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l, err := m.Lock(ctx, "a", lockmgr.FixedLease(second))
		require.NoError(t, err)
		<-l.Lost()
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		require.ErrorContains(t, l.Err(), "fixed lease is over")
	})
}

// The error of a fixed lease that an outage cut short does not say that it is over.
func TestLease_FixedTellsThatItWasCutShort(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, n := w.manager(lockmgr.Options{})
		first, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		f := m.LockAsync("a", lockmgr.FixedLease(time.Minute))
		time.Sleep(500 * milli)
		require.NoError(t, first.Unlock(ctx))
		l, err := f.Await(ctx)
		require.NoError(t, err)
		n.hush()
		<-l.Lost()
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		require.NotContains(t, l.Err().Error(), "is over")
	})
}
