package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A handle gives its lock back once, however many try at the same time: one of them succeeds, the
// others are told, and whoever has the lock next keeps it.
func TestUnlock_TwiceIsHarmless(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m, other := dial(t, s, lockmgr.Options{}), dial(t, s, lockmgr.Options{})
	for i := range 20 {
		first := faults.Take(t, m, "a")
		next := []*lockmgr.Manager{m, other}[i%2].LockAsync("a")
		var wg sync.WaitGroup
		var done, refused atomic.Int32
		for range 16 {
			wg.Go(func() {
				switch err := first.Unlock(ctx); {
				case err == nil:
					done.Add(1)
				case errors.Is(err, lockmgr.ErrNotHeld):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, done.Load())
		require.EqualValues(t, 15, refused.Load())
		l := faults.Await(t, next)
		for range 3 {
			require.ErrorIs(t, first.Unlock(ctx), lockmgr.ErrNotHeld)
		}
		require.True(t, l.Valid())
		require.ErrorIs(t, first.Err(), lockmgr.ErrNotHeld)
		require.False(t, faults.Closed(first.Lost()), "an unlock is no loss")
		faults.Release(t, l)
	}
}

// A handle whose lock is lost releases nothing and extends nothing; it says that it was lost, to
// those as well who ask for the first time.
func TestHandle_StaleTouchesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	soon := []lockmgr.LockOption{lockmgr.FixedLease(50 * time.Millisecond)}
	for what, tt := range map[string]struct {
		opts   []lockmgr.LockOption
		forced bool
		here   bool // the next holder is of the same manager
	}{
		"its lease ended":               {opts: soon},
		"it was forced open":            {forced: true},
		"another of its manager has it": {opts: soon, here: true},
	} {
		t.Run(what, func(t *testing.T) {
			m, other := dial(t, s, lockmgr.Options{}), dial(t, s, lockmgr.Options{})
			l := faults.Take(t, m, "a", tt.opts...)
			if tt.forced {
				redistest.Must(m.ForceUnlock(faults.Patient(t), "a"))(t)
			}
			next := faults.Take(t, map[bool]*lockmgr.Manager{true: m, false: other}[tt.here], "a")
			require.Eventually(t, func() bool { return l.Err() != nil }, faults.Patience, time.Millisecond)
			require.False(t, l.Valid())
			require.Zero(t, l.Remaining())
			faults.AwaitLost(t, l) // asks for Lost for the first time
			require.ErrorIs(t, context.Cause(l.Context(ctx)), lockmgr.ErrLeaseLost)
			require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)

			// The answer to an Inspect comes after that to all that was sent before.
			redistest.Must(m.Inspect(faults.Patient(t), "a"))(t)
			sent := m.Stats().Scripts
			require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
			require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrNotHeld)
			require.Equal(t, sent, m.Stats().Scripts, "a lost lock is not released")
			info := redistest.Must(m.Inspect(faults.Patient(t), "a"))(t)
			require.Equal(t, []lockmgr.Holder{{Owner: next.HolderID(), Count: 1}}, faults.Entries(info))
			require.True(t, next.Valid())
			faults.Release(t, next)
		})
	}
}
