package doctest

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

const patience = 30 * time.Second

var errBusy = errors.New("busy")

// dial calls use with a manager.
func dial(url string, use func(*lockmgr.Manager) error) error {
	mgr, err := lockmgr.DialURL(url, lockmgr.Options{})
	if err != nil {
		return err
	}
	defer mgr.Close(context.Background())
	return use(mgr)
}

// What the first snippet uses.
var (
	url, name string
	work      func(context.Context) error
)

var _ = main // TestReadme calls run alone

// README.md 1
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil { // no signal
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	// One per process and server. Without a Logger, nothing is logged.
	mgr, err := lockmgr.DialURL(url, lockmgr.Options{Logger: slog.Default()})
	if err != nil {
		return err
	}
	defer mgr.Close(context.Background()) // waits some 7 s at most
	return mgr.Do(ctx, name, func(ctx context.Context, lock *lockmgr.Lock) error {
		return work(ctx) // ctx ends at a signal, and as soon as the lock is lost: see context.Cause
	})
}

// end

// A clock is the part of package time that the second snippet uses.
type clock struct{ Second time.Duration }

// lock is the second snippet.
func lock(ctx context.Context, mgr *lockmgr.Manager, name string, work func(context.Context) error, time clock) error {
	// README.md 2
	f := mgr.LockAsync(name, lockmgr.MaxWait(time.Second)) // never blocks
	select {
	case <-f.Done():
		lock, err := f.Result()
		if err != nil {
			return err // ErrWaitTimeout, or why the server can't be used
		}
		return lock.Do(ctx, work) // unlocks, too
	case <-ctx.Done():
		f.Cancel() // a lock that comes too late is given back
		return ctx.Err()
	}
	// end
}

// TestReadme sets variables of the package, so it is not parallel.
func TestReadme(t *testing.T) {
	s := redistest.Start(t)
	ctx := t.Context()
	url, name = "redis://"+s.Addr(), "orders:42"
	worked := 0
	work = func(ctx context.Context) error {
		worked++
		return ctx.Err()
	}
	require.NoError(t, run(ctx))
	require.NoError(t, dial(url, func(mgr *lockmgr.Manager) error {
		require.NoError(t, lock(ctx, mgr, name, work, clock{time.Second}))
		require.Equal(t, 2, worked)

		held := redistest.Must(mgr.Lock(ctx, name))(t)
		require.ErrorIs(t, lock(ctx, mgr, name, work, clock{time.Millisecond}), lockmgr.ErrWaitTimeout)
		return held.Unlock(ctx)
	}))
	keys := redistest.Must(s.Do("DBSIZE"))(t)
	require.Equal(t, "0", keys)
	url = "redis://127.0.0.1:1"
	require.Error(t, run(ctx), "nobody listens there")
}

// The second snippet, by impatient callers: many of them leave when their lock has
// just been granted. Nothing may be held in the end that nobody knows of.
func TestReadme_UnderLoad(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx := t.Context()
	const names, callers, rounds = 100, 3, 100
	var worked, busy atomic.Int64
	require.NoError(t, dial("redis://"+s.Addr(), func(mgr *lockmgr.Manager) error {
		var g errgroup.Group
		for i := range names * callers {
			g.Go(func() error {
				for range rounds {
					// From 10 µs to 1 s, so that some are granted and some leave at any speed of the machine.
					ctx, leave := context.WithTimeout(ctx, time.Duration(float64(time.Second)*math.Pow(10, -5*rand.Float64())))
					err := lock(ctx, mgr, fmt.Sprint("name:", i%names), func(context.Context) error { worked.Add(1); return nil }, clock{time.Minute})
					if leave(); errors.Is(err, context.DeadlineExceeded) {
						busy.Add(1)
					} else if err != nil {
						return err
					}
				}
				return nil
			})
		}
		require.NoError(t, g.Wait())
		t.Logf("%d times granted, %d times busy", worked.Load(), busy.Load())
		require.Positive(t, worked.Load())
		require.Positive(t, busy.Load())
		require.Eventually(t, func() bool { return mgr.Stats().Held == 0 && mgr.Stats().Pending == 0 }, patience, time.Millisecond)
		require.Eventually(t, func() bool {
			keys, err := s.Do("DBSIZE")
			return err == nil && keys == "0"
		}, patience, time.Millisecond)
		return nil
	}))
}
