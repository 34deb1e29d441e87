package lockmgr_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A granted lock has exactly one keeper: its future until somebody takes it.

func TestCancel_AfterTheGrantGivesTheLockBack(t *testing.T) {
	m := dialMini(t, lockmgr.Options{})
	f := m.LockAsync("a")
	<-f.Done()
	require.Equal(t, 1, m.Stats().Held)
	next := m.LockAsync("a")
	require.True(t, f.Cancel())
	require.ErrorIs(t, errOf(f.Result()), lockmgr.ErrCanceled)
	mustUnlock(t, must(next.Await(ctx))(t, "the next waiter gets it"))
	awaitIdle(t, m)
}

// A lock whose fixed lease ended while it was in its future needs no unlock, and its loss is
// counted once.
func TestCancel_OfALockLostInItsFuture(t *testing.T) {
	m := dialMini(t, lockmgr.Options{})
	f := m.LockAsync("a", lockmgr.FixedLease(lockmgr.MinLease))
	<-f.Done()
	faults.Eventually(t, func() bool { return m.Stats().Losses == 1 })
	require.True(t, f.Cancel())
	awaitIdle(t, m)
}

func TestCombinator_ThatFailsKeepsNoLock(t *testing.T) {
	m := dialMini(t, lockmgr.Options{})
	held := mustLock(t, m, "held")

	require.ErrorIs(t, errOf(futures.All(nil, m.LockAsync("a"), m.LockAsync("b"), m.LockAsync("held", lockmgr.MaxWait(0))).Await(ctx)), lockmgr.ErrNotAcquired)

	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, errOf(futures.All(nil, m.LockAsync("a"), m.LockAsync("held")).Await(short)), context.DeadlineExceeded)

	f := futures.All(nil, m.LockAsync("a"), m.LockAsync("b"))
	<-f.Done()
	require.True(t, f.Cancel())

	one := futures.Any(nil, m.LockAsync("a"), m.LockAsync("b"))
	<-one.Done()
	require.True(t, one.Cancel())

	l := mustAwait(t, futures.Any(nil, m.LockAsync("a"), m.LockAsync("b")))
	require.NoError(t, errors.Join(l.Unlock(ctx), held.Unlock(ctx)))
	awaitIdle(t, m)
}
