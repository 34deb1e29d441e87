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
	s, m, other := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	l := mustLockAll(t, m, mixed, lockmgr.Fenced())
	require.EqualValues(t, 1, m.Stats().Scripts)
	require.True(t, l.IsSet())
	require.Equal(t, []string{"a", "b", "r", "w", "x"}, l.Names())
	require.Equal(t, `"a", "b", "r" (shared), "w" (exclusive), "x" (exclusive)`, l.Name())
	require.Zero(t, l.Token())
	for _, name := range l.Names() {
		require.Equal(t, int64(1), l.TokenOf(name), name)
		info := mustInspect(t, m, name)
		require.Len(t, info.Holders, 1, name)
		require.Contains(t, info.Holders[0].Owner, l.HolderID(), name)
	}
	require.Zero(t, l.TokenOf("nobody"))
	for _, name := range []string{"a", "b"} {
		require.ErrorIs(t, errOf(other.TryLock(ctx, name)), lockmgr.ErrNotAcquired)
	}
	require.ErrorIs(t, errOf(other.TryLock(ctx, "r", lockmgr.Exclusive())), lockmgr.ErrNotAcquired)
	reads := must(other.TryLock(ctx, "r", lockmgr.Shared()))(t, "both read")
	require.ErrorIs(t, errOf(other.TryLockAll(ctx, lockmgr.All("a", "z"))), lockmgr.ErrNotAcquired)
	require.Equal(t, "0", faults.Do(t, s, "EXISTS", "z"), "none of the set was taken")

	before := m.Stats().Scripts
	mustUnlock(t, l)
	require.Equal(t, before+1, m.Stats().Scripts)
	require.Equal(t, "1", faults.Do(t, s, "EXISTS", "a", "b", "r", "w", "x"), "only the other reader is left")
	mustUnlock(t, reads)
	l = must(other.TryLockAll(ctx, mixed, lockmgr.Fenced()))(t)
	require.Equal(t, int64(2), l.TokenOf("a"))
	require.Equal(t, int64(1), l.TokenOf("r"), "nobody has written since")
	mustUnlock(t, l)
}

func TestLockAll_BadSets(t *testing.T) {
	_, m, _ := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	var big lockmgr.Set
	for i := range lockmgr.MaxSet + 1 {
		big.Names = append(big.Names, fmt.Sprint(i))
	}
	for what, set := range map[string]lockmgr.Set{
		"empty": {}, "an empty name": lockmgr.All("a", ""), "too many": big,
		"both kinds": {Names: []string{"a"}, Shared: []string{"a"}}, "a channel": lockmgr.All("redisson_lock__channel:{a}"),
	} {
		require.ErrorIs(t, errOf(m.TryLockAll(ctx, set)), lockmgr.ErrInvalidName, what)
	}
	require.ErrorIs(t, errOf(m.LockAll(ctx, lockmgr.All("a"), lockmgr.Shared())), lockmgr.ErrInvalidOption)
	_, err := m.LockAllAsync(lockmgr.All("a", `b"c`), lockmgr.FixedLease(1)).Result()
	require.EqualError(t, err, `lockmgr: lock "a", "b\"c": invalid lease: FixedLease is 1ns, want at least 10ms`)
	one := must(m.LockAll(ctx, lockmgr.All("a")))(t, "a set of one")
	require.ErrorIs(t, errOf(m.TryLock(ctx, "a", lockmgr.Shared())), lockmgr.ErrKind)
	require.ErrorIs(t, errOf(m.TryLockAll(ctx, lockmgr.Set{Names: []string{"z"}, Shared: []string{"a"}})), lockmgr.ErrKind)
	mustUnlock(t, one)
}

// Every item may be the one that is waited for, in the same manager or in another.
func TestLockAll_WaitsForEachItem(t *testing.T) {
	_, m, other := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	holds := []struct {
		name string
		opts []lockmgr.LockOption
	}{{"a", nil}, {"b", nil}, {"r", []lockmgr.LockOption{lockmgr.Exclusive()}}, {"w", []lockmgr.LockOption{lockmgr.Shared()}}, {"x", []lockmgr.LockOption{lockmgr.Shared()}}}
	for _, holder := range []*lockmgr.Manager{m, other} {
		var held []*lockmgr.Lock
		for _, h := range holds {
			held = append(held, mustLock(t, holder, h.name, h.opts...))
		}
		f := m.LockAllAsync(mixed)
		var l *lockmgr.Lock
		faults.ByMessage(t, m, func() {
			for i, l := range held {
				requirePending(t, f, holds[i].name)
				mustUnlock(t, l)
			}
			l = must(f.Await(ctx))(t)
		})
		// And the others wait for the set.
		var waits []*futures.Future[*lockmgr.Lock]
		for _, h := range holds {
			waits = append(waits, holder.LockAsync(h.name, h.opts...))
		}
		waits = append(waits, holder.LockAllAsync(lockmgr.All("a", "free")))
		faults.Eventually(t, func() bool { return holder.Stats().Waiting == len(waits) })
		mustUnlock(t, l)
		for _, w := range waits[1:5] {
			mustUnlock(t, mustAwait(t, w))
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

// If one lock of a set is removed, the holder loses all of them, and the others come free.
func TestLockAll_LostIfAnyPartIs(t *testing.T) {
	s, m, other := startServer(t, lockmgr.Options{Lease: 1800 * time.Millisecond, CommandTimeout: 550 * time.Millisecond})
	ctx := faults.Patient(t)
	for _, gone := range []string{"a", "r", "w"} {
		l := mustLockAll(t, m, mixed)
		faults.Do(t, s, "DEL", gone)
		<-l.Lost()
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
		mustUnlock(t, mustLockAll(t, other, mixed))
	}
	// An administrator's forced unlock is noticed at once.
	l := mustLockAll(t, m, mixed, lockmgr.FixedLease(time.Hour))
	require.True(t, must(m.ForceUnlock(ctx, "b"))(t))
	<-l.Lost()
	faults.Eventually(t, func() bool { return faults.Do(t, s, "EXISTS", "a", "b", "r", "w", "x") == "0" })
	// Unlock finds it out, too.
	l = mustLockAll(t, m, mixed)
	faults.Do(t, s, "DEL", "w")
	require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
	require.Equal(t, "0", faults.Do(t, s, "EXISTS", "a", "b", "r", "w", "x"))
}

func TestLockAll_OwnersAndDeadlocks(t *testing.T) {
	_, m, _ := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	one, two := m.NewOwner(), m.NewOwner()
	l := mustLockAll(t, m, mixed, lockmgr.AsOwner(one), lockmgr.Fenced())
	again := must(m.LockAll(ctx, lockmgr.Set{Names: []string{"a", "b"}, Shared: []string{"r"}, Exclusive: []string{"w", "x"}}, lockmgr.AsOwner(one), lockmgr.Fenced()))(t, "the same set")
	require.Equal(t, l.TokenOf("a"), again.TokenOf("a"))
	require.ErrorIs(t, errOf(m.Lock(ctx, "a", lockmgr.AsOwner(one))), lockmgr.ErrDeadlock, "it would wait for itself")
	require.ErrorIs(t, errOf(m.LockAll(ctx, lockmgr.All("a"), lockmgr.AsOwner(one))), lockmgr.ErrDeadlock)
	mustUnlock(t, must(m.Lock(ctx, "r", lockmgr.AsOwner(one), lockmgr.Shared()))(t, "both read"))

	c := mustLock(t, m, "c", lockmgr.AsOwner(two))
	waits := m.LockAllAsync(lockmgr.All("b", "d"), lockmgr.AsOwner(two))
	requirePending(t, waits)
	require.ErrorIs(t, errOf(m.LockAll(ctx, lockmgr.All("c", "e"), lockmgr.AsOwner(one))), lockmgr.ErrDeadlock, "a circle of two owners")
	mustUnlock(t, l, again)
	mustUnlock(t, mustAwait(t, waits))
	mustUnlock(t, c)
}

// Overlapping sets in any order of names, single names and sides: all are granted, and no two at
// once that exclude each other. Nothing is left. In a cluster the names are in several slots.
func TestLockAll_OverlappingSetsNeverDeadlock(t *testing.T) {
	t.Run("a server", func(t *testing.T) {
		_, m, other := startServer(t, lockmgr.Options{})
		overlapSets(t, m, other)
	})
	t.Run("a cluster", func(t *testing.T) {
		_, m, other := startMasters(t, lockmgr.Options{})
		overlapSets(t, m, other)
	})
}

func overlapSets(t *testing.T, m, other *lockmgr.Manager) {
	const turns = 25
	names := numbered("s", 6)
	inside := make([]atomic.Int64, len(names)) // a reader counts 1, a writer 1,000
	var wg sync.WaitGroup
	for g := range 12 {
		r := rand.New(rand.NewPCG(uint64(g), 1))
		mgr := []*lockmgr.Manager{m, other}[g%2]
		wg.Go(func() {
			for range turns {
				var set lockmgr.Set
				weights := map[int]int64{}
				for _, i := range r.Perm(len(names))[:1+r.IntN(len(names))] {
					if weights[i] = 1000; r.IntN(2) == 0 {
						set.Exclusive = append(set.Exclusive, names[i])
					} else {
						weights[i] = 1
						set.Shared = append(set.Shared, names[i])
					}
				}
				err := mgr.DoAll(faults.Patient(t), set, func(_ context.Context, l *lockmgr.Lock) error {
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
	for _, name := range names {
		require.False(t, mustInspect(t, m, name).Locked, name)
	}
}

// A client of another library holds each of these names nearly all the time, and never lets two of
// them free at once. So a set that does not gather could never have them.
func TestLockAll_Gathers(t *testing.T) {
	s, m, _ := startServer(t, lockmgr.Options{})
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
	l, err := m.LockAll(faults.Patient(t), set)
	close(granted)
	<-over
	require.NoError(t, err)
	t.Logf("waited %v", time.Since(begin))
	for _, name := range set.Names {
		require.Equal(t, "1", faults.Do(t, s, "HEXISTS", name, l.HolderID()))
	}
	require.True(t, l.Valid())
	mustUnlock(t, l)
}

// A set of eight names, each of which one or two other processes hold again and again for 0.3 to
// 0.9 s, waits no longer than docs/choosing.md says.
func TestLockAll_BesideSingleHolders(t *testing.T) {
	for holders, limit := range map[int]time.Duration{1: 10 * second, 2: 16 * second} {
		for seed := range uint64(2) {
			bubble(t, func(t *testing.T, w *scene) {
				ctx, end := context.WithCancel(t.Context())
				var all sync.WaitGroup
				names := numbered("n", 8)
				for i := range len(names) * holders {
					m, _ := w.manager(lockmgr.Options{})
					random := rand.New(rand.NewPCG(seed, uint64(i)))
					all.Go(func() {
						<-time.After(time.Duration(random.Int64N(int64(900 * milli))))
						for ctx.Err() == nil {
							l := mustLock(t, m, names[i%len(names)])
							<-time.After(300*milli + time.Duration(random.Int64N(int64(600*milli))))
							mustUnlock(t, l)
						}
					})
				}
				sets, _ := w.manager(lockmgr.Options{})
				<-time.After(2 * second)
				for range 3 {
					asked := time.Now()
					mustUnlock(t, mustLockAll(t, sets, lockmgr.All(names...)))
					require.LessOrEqual(t, time.Since(asked), limit, "%d holders a name, seed %d", holders, seed)
					<-time.After(second)
				}
				end()
				all.Wait()
			})
		}
	}
}

// An error tells which name of a set was held, is of another kind, or is in the way.
func TestLockAll_ErrorsTellWhichName(t *testing.T) {
	s, m, other := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	held := must(other.Lock(ctx, "b", lockmgr.AsOwner(other.NewOwner())))(t)
	for _, wait := range []lockmgr.LockOption{lockmgr.OnlyIfFree(), lockmgr.MaxWait(300 * time.Millisecond)} {
		_, err := m.LockAll(ctx, lockmgr.All("a", "b", "c"), wait)
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
		require.ErrorContains(t, err, `lock "a", "b", "c": `)
		require.ErrorContains(t, err, `: "b"`)
	}
	_, err := m.TryLockAll(ctx, lockmgr.Set{Names: []string{"a"}, Shared: []string{"b"}})
	require.ErrorIs(t, err, lockmgr.ErrKind)
	require.ErrorContains(t, err, `another kind of lock: "b"`)
	_, err = other.LockAll(ctx, lockmgr.All("b", "d"), lockmgr.AsOwner(held.Owner()))
	var cycle *lockmgr.DeadlockError
	require.ErrorAs(t, err, &cycle)
	require.Equal(t, []lockmgr.Edge{{Owner: held.Owner().String(), Name: "b", Holder: held.Owner().String()}}, cycle.Cycle)
	mustUnlock(t, held)
	// "b" may be given to the set that gave up, whose manager gives it back.
	faults.Eventually(t, func() bool { return faults.Do(t, s, "EXISTS", "a", "b", "c", "d") == "0" })
}

// A set of a manager that also waits for a single name of the set, in the line of that name, is
// served beside other managers in the line.
func TestSet_BesideTheLineOfItsManager(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	patient, end := context.WithCancel(faults.Patient(t))
	var singles sync.WaitGroup
	defer singles.Wait()
	defer end()
	m := dial(t, s.Addr(), lockmgr.Options{})
	for _, m := range []*lockmgr.Manager{m, dial(t, s.Addr(), lockmgr.Options{}), dial(t, s.Addr(), lockmgr.Options{})} {
		singles.Go(func() {
			for patient.Err() == nil {
				if l, err := m.Lock(patient, "a"); err == nil {
					time.Sleep(2 * milli)
					_ = l.Unlock(context.Background())
				}
			}
		})
	}
	for range 5 {
		mustUnlock(t, must(m.LockAll(patient, lockmgr.All("a", "b")))(t))
	}
}

// A set that only tries closes no circle: the owner goes on as soon as the set is refused.
func TestLockAll_TryClosesNoCircle(t *testing.T) {
	for _, first := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *scene) {
			m, _ := w.manager(lockmgr.Options{})
			a, b := m.NewOwner(), m.NewOwner()
			x := mustLock(t, m, "x", lockmgr.AsOwner(a))
			y := mustLock(t, m, "y", lockmgr.AsOwner(b))
			var try *futures.Future[*lockmgr.Lock]
			asks := func() {
				try = m.LockAllAsync(lockmgr.All("y", "z"), lockmgr.AsOwner(a), lockmgr.OnlyIfFree())
			}
			if first {
				asks()
			}
			f := m.LockAsync("x", lockmgr.AsOwner(b))
			if !first {
				asks()
			}
			time.Sleep(second)
			require.ErrorIs(t, errOf(try.Result()), lockmgr.ErrNotAcquired)
			requirePending(t, f)
			mustUnlock(t, x)
			mustUnlock(t, mustAwait(t, f), y)
		})
	}
}
