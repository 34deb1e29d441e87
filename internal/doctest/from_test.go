package doctest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func fromRedsync(ctx context.Context, mgr *lockmgr.Manager, name string, work simple) error {
	// docs/from-redsync.md 1
	lock, err := mgr.Lock(ctx, name, lockmgr.MaxWait(5*time.Second))
	if err != nil {
		return err
	}
	return lock.Do(ctx, work) // the context of work ends when the lock is lost; nothing to extend
	// end
}

type oldLock = func(ctx context.Context, name string) (unlock func(), err error)

func bothOfRedsync(ctx context.Context, mgr *lockmgr.Manager, name string, lockOld oldLock, work simple) error {
	// docs/from-redsync.md 2
	unlock, err := lockOld(ctx, name) // redsync, as before
	if err != nil {
		return err
	}
	defer unlock()
	return mgr.Do(ctx, "holdfast:orders:42", func(ctx context.Context, lock *lockmgr.Lock) error {
		return work(ctx)
	})
	// end
}

func fromRedislock(ctx context.Context, mgr *lockmgr.Manager, name string, work simple) error {
	// docs/from-redislock.md 1
	lock, err := mgr.Lock(ctx, name, lockmgr.MaxWait(30*time.Second))
	if errors.Is(err, lockmgr.ErrNotAcquired) {
		return errBusy
	} else if err != nil {
		return err
	}
	return lock.Do(ctx, work) // the context of work ends when the lock is lost; nothing to refresh
	// end
}

func fromRedisson(ctx context.Context, mgr *lockmgr.Manager, name string, work simple) error {
	// docs/from-redisson.md 1
	lock, err := mgr.Lock(ctx, name, lockmgr.MaxWait(5*time.Second))
	if errors.Is(err, lockmgr.ErrNotAcquired) {
		return errBusy
	} else if err != nil {
		return err
	}
	return lock.Do(ctx, work) // the context of work ends when the lock is lost
	// end
}

func TestFrom_Snippets(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx := t.Context()
	require.NoError(t, dial("redis://"+s.Addr(), func(mgr *lockmgr.Manager) error {
		for what, from := range map[string]func(context.Context, *lockmgr.Manager, string, simple) error{
			"redsync": fromRedsync, "redislock": fromRedislock, "redisson": fromRedisson,
		} {
			ran := false
			require.NoError(t, from(ctx, mgr, what, func(ctx context.Context) error { ran = true; return ctx.Err() }), what)
			require.True(t, ran, what)
		}

		// A record of Redisson excludes Go, and its message lets Go in.
		const java = "8f14e45f-ceea-467f-a8b5-6d1c3f1b2a90:57"
		command(t, s, "HSET", "a", java, "2")
		command(t, s, "PEXPIRE", "a", "600000")
		info, err := mgr.Inspect(ctx, "a")
		require.NoError(t, err)
		require.Equal(t, []lockmgr.Holder{{Owner: java, Count: 2}}, info.Holders)
		f := mgr.LockAsync("a")
		require.Eventually(t, func() bool {
			n, _ := s.Do("PUBSUB", "NUMSUB", "redisson_lock__channel:{a}")
			return n != "" && n[len(n)-1] == '1'
		}, patience, time.Millisecond)
		command(t, s, "DEL", "a")
		command(t, s, "PUBLISH", "redisson_lock__channel:{a}", "0")
		l, err := f.Await(ctx)
		require.NoError(t, err)
		return l.Unlock(ctx)
	}))
}

// A name that is to stay taken: KeepFor outlives Unlock and Close, a fixed lease neither of them.
func TestFrom_NeverUnlocked(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx := t.Context()
	taken := func(name string) string { return command(t, s, "EXISTS", name) }
	require.NoError(t, dial("redis://"+s.Addr(), func(mgr *lockmgr.Manager) error {
		for name, o := range map[string]lockmgr.LockOption{"fixed": lockmgr.FixedLease(time.Hour), "kept": lockmgr.KeepFor(time.Hour)} {
			for _, suffix := range []string{":unlocked", ":closed"} {
				l, err := mgr.TryLock(ctx, name+suffix, o)
				require.NoError(t, err)
				require.Equal(t, "1", taken(name+suffix))
				if suffix == ":unlocked" {
					require.NoError(t, l.Unlock(ctx))
				}
			}
		}
		return nil
	}))
	require.Equal(t, []string{"0", "0", "1", "1"},
		[]string{taken("fixed:unlocked"), taken("fixed:closed"), taken("kept:unlocked"), taken("kept:closed")})
}

// A re-entry counts: the lock is free after as many unlocks as grants.
func TestFrom_ReentryCounts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx := t.Context()
	require.NoError(t, dial("redis://"+s.Addr(), func(mgr *lockmgr.Manager) error {
		o := mgr.NewOwner()
		outer, err := mgr.TryLock(ctx, "a", lockmgr.AsOwner(o))
		require.NoError(t, err)
		inner, err := mgr.TryLock(ctx, "a", lockmgr.AsOwner(o))
		require.NoError(t, err)
		require.NoError(t, inner.Unlock(ctx))
		require.Equal(t, "1", command(t, s, "EXISTS", "a"))
		require.NoError(t, outer.Unlock(ctx))
		require.Equal(t, "0", command(t, s, "EXISTS", "a"))
		return nil
	}))
}

// What the pages say of a key that both a string's owner and holdfast use.
func TestFrom_SameKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx := t.Context()
	require.NoError(t, dial("redis://"+s.Addr(), func(mgr *lockmgr.Manager) error {
		require.Equal(t, "1", command(t, s, "SETNX", "a", "theirs"))
		_, err := mgr.Lock(ctx, "a")
		require.ErrorIs(t, err, lockmgr.ErrWrongType)
		command(t, s, "DEL", "a")
		l, err := mgr.Lock(ctx, "a")
		require.NoError(t, err)
		require.Equal(t, "0", command(t, s, "SETNX", "a", "theirs"), "redsync")
		require.Equal(t, "0", command(t, s, "MSETNX", "a", "theirs"), "redislock")
		_, err = s.Do("GETRANGE", "a", "0", "1")
		require.ErrorContains(t, err, "WRONGTYPE", "redislock asks so whose key it is")
		require.Panics(t, func() { _ = (*lockmgr.Lock)(nil).Unlock(ctx) })
		return l.Unlock(ctx)
	}))
}

// Old processes, those of the first release and those of the second: neighbours in time exclude each other.
func TestFrom_RollOut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx := t.Context()
	var inside, overlaps atomic.Int64
	work := func() {
		if inside.Add(1) > 1 {
			overlaps.Add(1)
		}
		time.Sleep(time.Millisecond)
		inside.Add(-1)
	}
	lockOld := func(ctx context.Context, name string) (func(), error) {
		for {
			got, err := s.Do("SET", name, "theirs", "NX")
			if err != nil {
				return nil, err
			}
			if got == "OK" {
				return func() { s.Do("DEL", name) }, nil
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Millisecond):
			}
		}
	}
	underLock := func(context.Context, *lockmgr.Lock) error { work(); return nil }
	simply := func(context.Context) error { work(); return nil }
	const name = "orders:42"
	before := func(*lockmgr.Manager) error {
		unlock, err := lockOld(ctx, name)
		if err == nil {
			work()
			unlock()
		}
		return err
	}
	after := func(mgr *lockmgr.Manager) error { return mgr.Do(ctx, "holdfast:orders:42", underLock) }
	together := func(a, b func(*lockmgr.Manager) error) int64 {
		overlaps.Store(0)
		var g errgroup.Group
		for range 2 {
			for _, release := range []func(*lockmgr.Manager) error{a, b} {
				g.Go(func() error {
					return dial("redis://"+s.Addr(), func(mgr *lockmgr.Manager) error {
						for range 20 {
							if err := release(mgr); err != nil {
								return err
							}
						}
						return nil
					})
				})
			}
		}
		require.NoError(t, g.Wait())
		return overlaps.Load()
	}
	first := func(mgr *lockmgr.Manager) error { return bothOfRedsync(ctx, mgr, name, lockOld, simply) }
	require.Zero(t, together(before, first))
	require.Zero(t, together(first, after))
	require.Eventually(t, func() bool { return together(before, after) > 0 }, patience, time.Millisecond, "the old release beside the second")
}

// command sends a command and returns its answer.
func command(t *testing.T, s *redistest.Server, args ...string) string {
	t.Helper()
	answer, err := s.Do(args...)
	require.NoError(t, err)
	return answer
}
