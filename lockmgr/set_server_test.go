package lockmgr_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// mixed is a set of all ways to want a name.
var mixed = lockmgr.Set{Names: []string{"b", "a", "b"}, Shared: []string{"r", "x"}, Exclusive: []string{"x", "w"}}

func TestLockAll_AllOrNothing(t *testing.T) {
	t.Parallel()
	s, m, other := dialReadWrite(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	l, err := m.LockAll(ctx, mixed, lockmgr.Fenced())
	require.NoError(t, err)
	require.True(t, l.IsSet())
	require.Equal(t, []string{"a", "b", "r", "w", "x"}, l.Names())
	require.Equal(t, `"a", "b", "r" (shared), "w" (exclusive), "x" (exclusive)`, l.Name())
	require.Zero(t, l.Token())
	for _, name := range l.Names() {
		require.Equal(t, int64(1), l.TokenOf(name), name)
		info, err := m.Inspect(ctx, name)
		require.NoError(t, err)
		require.Len(t, info.Holders, 1, name)
		require.Contains(t, info.Holders[0].Owner, l.HolderID(), name)
	}
	require.Zero(t, l.TokenOf("nobody"))
	for _, name := range []string{"a", "b"} {
		_, err := other.TryLock(ctx, name)
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
	}
	_, err = other.TryLock(ctx, "r", lockmgr.Exclusive())
	require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
	reads, err := other.TryLock(ctx, "r", lockmgr.Shared())
	require.NoError(t, err, "both read")
	_, err = other.TryLockAll(ctx, lockmgr.All("a", "z"))
	require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
	require.Equal(t, "0", faults.Do(t, s, "EXISTS", "z"), "none of the set was taken")

	require.NoError(t, l.Unlock(ctx))
	require.Equal(t, "1", faults.Do(t, s, "EXISTS", "a", "b", "r", "w", "x"), "only the other reader is left")
	require.NoError(t, reads.Unlock(ctx))
	l, err = other.TryLockAll(ctx, mixed, lockmgr.Fenced())
	require.NoError(t, err)
	require.Equal(t, int64(2), l.TokenOf("a"))
	require.Equal(t, int64(1), l.TokenOf("r"), "nobody has written since")
	require.NoError(t, l.Unlock(ctx))
}

// A lock and an unlock of 64 names are two commands.
func TestLockAll_TwoCommands(t *testing.T) {
	t.Parallel()
	_, m, _ := dialReadWrite(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	var set lockmgr.Set
	for i := range 64 {
		set.Names = append(set.Names, fmt.Sprint("n", i))
	}
	before := m.Stats().Scripts
	l, err := m.LockAll(ctx, set)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
	require.Equal(t, before+2, m.Stats().Scripts)
}

func TestLockAll_BadSets(t *testing.T) {
	t.Parallel()
	_, m, _ := dialReadWrite(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	var big lockmgr.Set
	for i := range lockmgr.MaxSet + 1 {
		big.Names = append(big.Names, fmt.Sprint(i))
	}
	for what, set := range map[string]lockmgr.Set{
		"empty": {}, "an empty name": lockmgr.All("a", ""), "too many": big,
		"both kinds": {Names: []string{"a"}, Shared: []string{"a"}}, "a channel": lockmgr.All("redisson_lock__channel:{a}"),
	} {
		_, err := m.TryLockAll(ctx, set)
		require.ErrorIs(t, err, lockmgr.ErrInvalidName, what)
	}
	_, err := m.LockAll(ctx, lockmgr.All("a"), lockmgr.Shared())
	require.ErrorIs(t, err, lockmgr.ErrInvalidOption)
	_, err = m.LockAllAsync(lockmgr.All("a", `b"c`), lockmgr.FixedLease(1)).Result()
	require.EqualError(t, err, `lockmgr: lock "a", "b\"c": invalid lease: FixedLease is 1ns, want at least 10ms`)
	one, err := m.LockAll(ctx, lockmgr.All("a"))
	require.NoError(t, err, "a set of one")
	_, err = m.TryLock(ctx, "a", lockmgr.Shared())
	require.ErrorIs(t, err, lockmgr.ErrKind)
	_, err = m.TryLockAll(ctx, lockmgr.Set{Names: []string{"z"}, Shared: []string{"a"}})
	require.ErrorIs(t, err, lockmgr.ErrKind)
	require.NoError(t, one.Unlock(ctx))
}

// Every item may be the one that is waited for, in the same manager or in another.
func TestLockAll_WaitsForEachItem(t *testing.T) {
	t.Parallel()
	_, m, other := dialReadWrite(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	holds := []struct {
		name string
		opts []lockmgr.LockOption
	}{{"a", nil}, {"b", nil}, {"r", []lockmgr.LockOption{lockmgr.Exclusive()}}, {"w", []lockmgr.LockOption{lockmgr.Shared()}}, {"x", []lockmgr.LockOption{lockmgr.Shared()}}}
	for _, holder := range []*lockmgr.Manager{m, other} {
		var held []*lockmgr.Lock
		for _, h := range holds {
			l, err := holder.Lock(ctx, h.name, h.opts...)
			require.NoError(t, err)
			held = append(held, l)
		}
		f := m.LockAllAsync(mixed)
		var l *lockmgr.Lock
		var err error
		faults.ByMessage(t, m, func() {
			for i, l := range held {
				requirePending(t, f, holds[i].name)
				require.NoError(t, l.Unlock(ctx))
			}
			l, err = f.Await(ctx)
			require.NoError(t, err)
		})
		// And the others wait for the set.
		var waits []*futures.Future[*lockmgr.Lock]
		for _, h := range holds {
			waits = append(waits, holder.LockAsync(h.name, h.opts...))
		}
		waits = append(waits, holder.LockAllAsync(lockmgr.All("a", "free")))
		faults.Eventually(t, func() bool { return holder.Stats().Waiting == len(waits) })
		require.NoError(t, l.Unlock(ctx))
		for _, w := range waits[1:5] {
			l, err := w.Await(ctx)
			require.NoError(t, err)
			require.NoError(t, l.Unlock(ctx))
		}
		var both sync.WaitGroup
		for _, i := range []int{0, 5} { // either may be first
			both.Go(func() {
				if l, err := waits[i].Await(ctx); err != nil {
					t.Error(err)
				} else if err := l.Unlock(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
}

// If one lock of a set is removed, the holder loses all of them, and the others come
// free.
func TestLockAll_LostIfAnyPartIs(t *testing.T) {
	t.Parallel()
	s, m, other := dialReadWrite(t, lockmgr.Options{Lease: 900 * time.Millisecond})
	ctx := faults.Patient(t)
	for _, gone := range []string{"a", "r", "w"} {
		l, err := m.LockAll(ctx, mixed)
		require.NoError(t, err)
		faults.Do(t, s, "DEL", gone)
		<-l.Lost()
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
		l, err = other.LockAll(ctx, mixed)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(ctx))
	}
	// An administrator's forced unlock is noticed at once.
	l, err := m.LockAll(ctx, mixed, lockmgr.FixedLease(time.Hour))
	require.NoError(t, err)
	ok, err := m.ForceUnlock(ctx, "b")
	require.NoError(t, err)
	require.True(t, ok)
	<-l.Lost()
	faults.Eventually(t, func() bool { return faults.Do(t, s, "EXISTS", "a", "b", "r", "w", "x") == "0" })
	// Unlock finds it out, too.
	l, err = m.LockAll(ctx, mixed)
	require.NoError(t, err)
	faults.Do(t, s, "DEL", "w")
	require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
	require.Equal(t, "0", faults.Do(t, s, "EXISTS", "a", "b", "r", "w", "x"))
}

func TestLockAll_OwnersAndDeadlocks(t *testing.T) {
	t.Parallel()
	_, m, _ := dialReadWrite(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	one, two := m.NewOwner(), m.NewOwner()
	l, err := m.LockAll(ctx, mixed, lockmgr.AsOwner(one), lockmgr.Fenced())
	require.NoError(t, err)
	again, err := m.LockAll(ctx, lockmgr.Set{Names: []string{"a", "b"}, Shared: []string{"r"}, Exclusive: []string{"w", "x"}}, lockmgr.AsOwner(one), lockmgr.Fenced())
	require.NoError(t, err, "the same set")
	require.Equal(t, l.TokenOf("a"), again.TokenOf("a"))
	_, err = m.Lock(ctx, "a", lockmgr.AsOwner(one))
	require.ErrorIs(t, err, lockmgr.ErrDeadlock, "it would wait for itself")
	_, err = m.LockAll(ctx, lockmgr.All("a"), lockmgr.AsOwner(one))
	require.ErrorIs(t, err, lockmgr.ErrDeadlock)
	reads, err := m.Lock(ctx, "r", lockmgr.AsOwner(one), lockmgr.Shared())
	require.NoError(t, err, "both read")
	require.NoError(t, reads.Unlock(ctx))

	c, err := m.Lock(ctx, "c", lockmgr.AsOwner(two))
	require.NoError(t, err)
	waits := m.LockAllAsync(lockmgr.All("b", "d"), lockmgr.AsOwner(two))
	requirePending(t, waits)
	_, err = m.LockAll(ctx, lockmgr.All("c", "e"), lockmgr.AsOwner(one))
	require.ErrorIs(t, err, lockmgr.ErrDeadlock, "a circle of two owners")
	require.NoError(t, l.Unlock(ctx))
	require.NoError(t, again.Unlock(ctx))
	l, err = waits.Await(ctx)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
	require.NoError(t, c.Unlock(ctx))
}

// Overlapping sets in any order of names, single names and sides: all are granted, and
// no two at once that exclude each other.
func TestLockAll_OverlappingSetsNeverDeadlock(t *testing.T) {
	t.Parallel()
	_, m, other := dialReadWrite(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	const names, turns = 6, 25
	var inside [names]atomic.Int64 // a reader counts 1, a writer 1,000
	var wg sync.WaitGroup
	for g := range 12 {
		r := rand.New(rand.NewPCG(uint64(g), 1))
		mgr := []*lockmgr.Manager{m, other}[g%2]
		wg.Go(func() {
			for range turns {
				var set lockmgr.Set
				weights := map[int]int64{}
				for _, i := range r.Perm(names)[:1+r.IntN(names)] {
					name := fmt.Sprint("s", i)
					if weights[i] = 1000; r.IntN(2) == 0 {
						set.Exclusive = append(set.Exclusive, name)
					} else {
						weights[i] = 1
						set.Shared = append(set.Shared, name)
					}
				}
				err := mgr.DoAll(ctx, set, func(_ context.Context, l *lockmgr.Lock) error {
					for i, w := range weights {
						if now := inside[i].Add(w); now != w && (now >= 1000 || w == 1000) {
							t.Errorf("%d: %d inside", i, now)
						}
					}
					for i, w := range weights {
						inside[i].Add(-w)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A client of another library holds each of these names nearly all the time, and never
// lets two of them free at once. So a set that does not gather could never have them.
func TestLockAll_Gathers(t *testing.T) {
	t.Parallel()
	s, m, _ := dialReadWrite(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	const names = 8
	const take = "if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('HSET', KEYS[1], 'foreign:1', 1) redis.call('PEXPIRE', KEYS[1], 30000) end"
	const leave = "if redis.call('HDEL', KEYS[1], 'foreign:1') == 1 then redis.call('PUBLISH', KEYS[2], '0') end"
	var set lockmgr.Set
	for i := range names {
		set.Names = append(set.Names, fmt.Sprint("g", i))
		faults.Do(t, s, "EVAL", take, "1", set.Names[i])
	}
	granted, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for i := 0; ; i++ {
			name := set.Names[i%names]
			_, _ = s.Do("EVAL", leave, "2", name, "redisson_lock__channel:{"+name+"}")
			select {
			case <-granted:
				return
			case <-time.After(5 * time.Millisecond):
			}
			_, _ = s.Do("EVAL", take, "1", name)
		}
	}()
	begin := time.Now()
	l, err := m.LockAll(ctx, set)
	close(granted)
	<-over
	require.NoError(t, err)
	t.Logf("waited %v", time.Since(begin))
	for _, name := range set.Names {
		require.Equal(t, "1", faults.Do(t, s, "HEXISTS", name, l.HolderID()))
	}
	require.True(t, l.Valid())
	require.NoError(t, l.Unlock(ctx))
}

// A caller who leaves while the set has a part of its names leaves nothing behind.
func TestLockAll_CancelledWhileItGathers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m, other := dial(t, s.Addr(), lockmgr.Options{PassTime: time.Second}), dial(t, s.Addr(), lockmgr.Options{})
	ctx := faults.Patient(t)
	held, err := other.Lock(ctx, "b")
	require.NoError(t, err)
	f := m.LockAllAsync(lockmgr.All("a", "b", "c"))
	require.Equal(t, "0", faults.Do(t, s, "EXISTS", "a", "c"), "it holds nothing while it waits")
	faults.Eventually(t, func() bool { return m.Stats().Waiting == 1 })
	nudge := time.NewTicker(20 * time.Millisecond) // a poll would make it try as late as the record ends
	defer nudge.Stop()
	for faults.Do(t, s, "EXISTS", "a", "c") != "2" {
		<-nudge.C
		faults.Do(t, s, "PUBLISH", "redisson_lock__channel:{b}", "0")
	}
	f.Cancel()
	faults.Eventually(t, func() bool { return faults.Do(t, s, "EXISTS", "a", "c") == "0" })
	require.NoError(t, held.Unlock(ctx))
}
