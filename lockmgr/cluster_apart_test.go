package lockmgr_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/thorough"
	"github.com/holdfast-go/holdfast/lockmgr"
	wires "github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// apart is a lock of some kind whose slot is being moved. The manager m holds it, and maybe other.
// The manager stranger does not.
type apart struct {
	m, other, stranger *lockmgr.Manager
	name               string
	held               []*lockmgr.Lock
	tokens             []int64 // in the order in which they were given
}

// got notes a grant.
func (a *apart) got(l *lockmgr.Lock, err error) error {
	if err == nil {
		a.held = append(a.held, l)
		if token := max(l.Token(), l.TokenOf(a.name)); token > 0 {
			a.tokens = append(a.tokens, token)
		}
	}
	return err
}

// unlock gives back the hold at a position.
func (a *apart) unlock(ctx context.Context, i int) error {
	l := a.held[i]
	a.held = slices.Delete(a.held, i, i+1)
	return l.Unlock(ctx)
}

// apartOp is what is done while the slot is being moved. It may be refused until the slot has
// moved.
type apartOp struct {
	name string
	run  func(ctx context.Context, a *apart) error
}

// apartKind is a kind of lock, or a way in which it is held.
type apartKind struct {
	name string
	keys int // how many it has while it is held
	take func(ctx context.Context, a *apart) error
	ops  []apartOp
	// enemy tries to take what nobody may have beside those that hold it.
	enemy func(ctx context.Context, a *apart) (*lockmgr.Lock, error)
}

type opts = []lockmgr.LockOption

func unlocks(i int) apartOp {
	return apartOp{fmt.Sprintf("unlock%d", i), func(ctx context.Context, a *apart) error { return a.unlock(ctx, i) }}
}

// asks asks for the lock, then runs before, and waits for the lock.
func asks(name string, ask func(a *apart) *futures.Future[*lockmgr.Lock], before func(ctx context.Context, a *apart) error) apartOp {
	return apartOp{name, func(ctx context.Context, a *apart) error {
		f := ask(a)
		if before != nil {
			if err := before(ctx, a); err != nil {
				return err
			}
		}
		return a.got(f.Await(ctx))
	}}
}

// passes asks for the lock, and gives it back.
func passes(name string, by func(a *apart) *lockmgr.Manager, with ...lockmgr.LockOption) apartOp {
	return asks(name, func(a *apart) *futures.Future[*lockmgr.Lock] { return by(a).LockAsync(a.name, with...) }, func(ctx context.Context, a *apart) error {
		for len(a.held) > 0 {
			if err := a.unlock(ctx, 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// tries tries to get the lock, which must fail if in vain is set.
func tries(name string, inVain bool, try func(ctx context.Context, a *apart) (*lockmgr.Lock, error)) apartOp {
	return apartOp{name, func(ctx context.Context, a *apart) error {
		err := a.got(try(ctx, a))
		switch {
		case err == nil && inVain:
			return fmt.Errorf("%s: got it", name)
		case errors.Is(err, lockmgr.ErrNotAcquired), errors.Is(err, lockmgr.ErrUnavailable):
			return nil
		}
		return err
	}}
}

func triesLock(name string, inVain bool, with ...lockmgr.LockOption) apartOp {
	return tries(name, inVain, func(ctx context.Context, a *apart) (*lockmgr.Lock, error) {
		return a.stranger.TryLock(ctx, a.name, with...)
	})
}

func triesSet(name string, inVain bool, set func(a *apart) lockmgr.Set, with ...lockmgr.LockOption) apartOp {
	return tries(name, inVain, func(ctx context.Context, a *apart) (*lockmgr.Lock, error) {
		return a.stranger.TryLockAll(ctx, set(a), with...)
	})
}

var (
	none    = apartOp{"nothing", func(context.Context, *apart) error { return nil }}
	extends = apartOp{"extend", func(ctx context.Context, a *apart) error { return a.held[0].Extend(ctx, time.Minute) }}
	inspect = apartOp{"inspect", func(ctx context.Context, a *apart) error {
		if _, err := a.stranger.Inspect(ctx, a.name); !errors.Is(err, lockmgr.ErrUnavailable) {
			return err
		}
		return nil
	}}
	removes = apartOp{"remove", func(ctx context.Context, a *apart) error {
		removed, err := a.stranger.ForceUnlock(ctx, a.name)
		if removed {
			for _, l := range a.held {
				l.UnlockAsync()
			}
			a.held = nil
		}
		if errors.Is(err, lockmgr.ErrUnavailable) {
			return nil
		}
		return err
	}}
)

func here(a *apart) *lockmgr.Manager  { return a.m }
func there(a *apart) *lockmgr.Manager { return a.other }

// aloneKinds are those that one holder has at a time.
func aloneKinds() (kinds []apartKind) {
	for name, with := range map[string]opts{
		"plain": nil, "fenced": {lockmgr.Fenced()}, "exclusive": {lockmgr.Exclusive()}, "exclusive fenced": {lockmgr.Exclusive(), lockmgr.Fenced()},
		"fair": {lockmgr.Fair()}, "fair fenced": {lockmgr.Fair(), lockmgr.Fenced()},
	} {
		counters := 0
		if strings.Contains(name, "fenced") {
			counters = 1
		}
		take := func(ctx context.Context, a *apart) error { return a.got(a.m.Lock(ctx, a.name, with...)) }
		enemy := func(ctx context.Context, a *apart) (*lockmgr.Lock, error) {
			return a.stranger.TryLock(ctx, a.name, with...)
		}
		ops := []apartOp{none, unlocks(0), extends, inspect, removes, passes("pass", here, with...), passes("pass to another manager", there, with...)}
		if strings.Contains(name, "exclusive") {
			reader := append(opts{lockmgr.Shared()}, with[1:]...)
			ops = append(ops, passes("pass to a reader", here, reader...), passes("pass to a reader of another manager", there, reader...))
		}
		kinds = append(kinds, apartKind{name, 1 + counters, take, ops, enemy})
		free := func(ctx context.Context, a *apart) error { return errors.Join(take(ctx, a), a.unlock(ctx, 0)) }
		kinds = append(kinds, apartKind{name + " free", counters, free, []apartOp{inspect, passes("take", there, with...)}, enemy})
	}
	return kinds
}

// sharedKinds are those that readers have.
func sharedKinds() (kinds []apartKind) {
	for name, more := range map[string]opts{"shared": nil, "shared fenced": {lockmgr.Fenced()}} {
		read, write := append(opts{lockmgr.Shared()}, more...), append(opts{lockmgr.Exclusive()}, more...)
		one := func(ctx context.Context, a *apart) error { return a.got(a.m.Lock(ctx, a.name, read...)) }
		two := func(ctx context.Context, a *apart) error {
			return errors.Join(one(ctx, a), a.got(a.other.Lock(ctx, a.name, read...)))
		}
		upgrades := func(inVain bool) apartOp {
			return tries("upgrade", inVain, func(ctx context.Context, a *apart) (*lockmgr.Lock, error) {
				return a.m.TryLock(ctx, a.name, append(write, lockmgr.AsOwner(a.held[0].Owner()))...)
			})
		}
		ops := []apartOp{
			none, unlocks(0), extends, inspect, removes, triesLock("try to read", false, read...), triesLock("try to write", true, write...),
			triesSet("try to write a set", true, func(a *apart) lockmgr.Set { return lockmgr.Set{Exclusive: []string{a.name}} }, more...),
			triesSet("try to read a set", false, func(a *apart) lockmgr.Set { return lockmgr.Set{Shared: []string{a.name}} }, more...),
			asks("read", func(a *apart) *futures.Future[*lockmgr.Lock] { return a.stranger.LockAsync(a.name, read...) }, nil),
			passes("pass to a writer", here, write...), passes("pass to a writer of another manager", there, write...),
		}
		enemy := func(ctx context.Context, a *apart) (*lockmgr.Lock, error) {
			return a.stranger.TryLock(ctx, a.name, write...)
		}
		kinds = append(kinds,
			apartKind{name, 2 + len(more), one, append(slices.Clone(ops), passes("pass", here, read...), upgrades(false)), enemy},
			apartKind{name + " by two", 3 + len(more), two, append(slices.Clone(ops), unlocks(1), upgrades(true)), enemy})
	}
	return kinds
}

func permitsOf(m *lockmgr.Manager, a *apart) lockmgr.Permits { return m.Permits(a.name, 3) }

// otherKinds are permits, of which there are three, and sets.
func otherKinds() []apartKind {
	set := func(a *apart) lockmgr.Set {
		return lockmgr.Set{Names: []string{a.name + "1", a.name + "2"}, Shared: []string{a.name}}
	}
	return []apartKind{
		{"permits", 2, func(ctx context.Context, a *apart) error { return a.got(permitsOf(a.m, a).Acquire(ctx, 2)) }, []apartOp{
			none, unlocks(0), extends,
			asks("one", func(a *apart) *futures.Future[*lockmgr.Lock] { return permitsOf(a.stranger, a).AcquireAsync(1) }, nil),
			tries("two", true, func(ctx context.Context, a *apart) (*lockmgr.Lock, error) {
				return permitsOf(a.stranger, a).TryAcquire(ctx, 2)
			}),
			asks("pass", func(a *apart) *futures.Future[*lockmgr.Lock] { return permitsOf(a.m, a).AcquireAsync(2) }, unlocks(0).run),
			asks("gather", func(a *apart) *futures.Future[*lockmgr.Lock] { return permitsOf(a.stranger, a).AcquireAsync(3) }, unlocks(0).run),
		}, func(ctx context.Context, a *apart) (*lockmgr.Lock, error) {
			return permitsOf(a.stranger, a).TryAcquire(ctx, 3)
		}},
		{"set", 5, func(ctx context.Context, a *apart) error {
			return errors.Join(a.got(a.m.LockAll(ctx, set(a))), a.got(a.other.Lock(ctx, a.name, lockmgr.Shared())))
		}, []apartOp{
			none, unlocks(0), unlocks(1), extends,
			triesSet("try one", true, func(a *apart) lockmgr.Set { return lockmgr.All(a.name + "1") }),
			triesSet("try two", true, func(a *apart) lockmgr.Set { return lockmgr.All(a.name+"1", a.name+"2") }),
			triesSet("try all", true, set),
			asks("pass", func(a *apart) *futures.Future[*lockmgr.Lock] { return a.stranger.LockAllAsync(set(a)) }, unlocks(0).run),
		}, func(ctx context.Context, a *apart) (*lockmgr.Lock, error) {
			return a.stranger.TryLock(ctx, a.name, lockmgr.Exclusive())
		}},
	}
}

// A slot is being moved, and any part of the keys of a lock is at the new master. Whatever is asked
// for then is done, or refused until the slot has moved, and then done. Nobody gets what others
// hold, no hold is lost, tokens grow, and in the end the lock is free.
func TestCluster_AnyKeysOfALockAreApart(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0)
	o := lockmgr.Options{RetryTime: time.Minute, Lease: 20 * time.Second, Anonymous: true} // the record of a process may be in the slot of a name
	m, other, stranger := dialCluster(t, c, o), dialCluster(t, c, o), dialCluster(t, c, o)
	every := thorough.Choose(9, 1) // each ninth of some 900 cases, or all
	used, n := map[int]bool{}, 0
	freshName := func() string { // whose slot no other case has; braces are needed for sets
		for {
			name := c.Movable(t, fmt.Sprintf("{%d:%%d}", n))
			if slot := wires.SlotOf(name); !used[slot] {
				used[slot] = true
				return name
			}
			n++
		}
	}
	var cases errgroup.Group
	cases.SetLimit(32) // most wait
	for _, kind := range slices.Concat(aloneKinds(), sharedKinds(), otherKinds()) {
		for _, op := range kind.ops {
			for bits := range 1 << kind.keys {
				n++
				if n%every != 0 {
					continue
				}
				a := &apart{m: m, other: other, stranger: stranger, name: freshName()}
				cases.Go(func() error {
					t.Run(fmt.Sprintf("%s/%s/%05b", kind.name, op.name, bits), func(t *testing.T) { testApart(t, c, a, &kind, &op, bits) })
					return nil
				})
			}
		}
	}
	_ = cases.Wait()
}

// testApart runs one case. Bit i of bits is set if the new master has key i.
func testApart(t *testing.T, c *redistest.Cluster, a *apart, kind *apartKind, op *apartOp, bits int) {
	ctx := faults.Patient(t)
	require.NoError(t, kind.take(ctx, a))
	moving := c.BeginMove(t, a.name)
	keys := moving.Keys(moving.From)
	require.Len(t, keys, kind.keys)
	slices.Sort(keys)
	for i, key := range keys {
		if bits>>i&1 == 1 {
			moving.Migrate(key)
		}
	}
	done := make(chan error, 1)
	go func() { done <- op.run(ctx, a) }()
	var err error
	select {
	case err = <-done: // most that is not refused takes some milliseconds
		if len(a.held) > 0 {
			_, refused := kind.enemy(ctx, a)
			require.Error(t, refused, "two holders")
		}
		moving.Finish()
	case <-time.After(100 * time.Millisecond):
		moving.Finish()
		err = <-done
	}
	require.NoError(t, err)
	for len(a.held) > 0 {
		require.NoError(t, a.held[0].Err())
		require.NoError(t, a.unlock(ctx, 0))
	}
	faults.Eventually(t, func() bool {
		l, err := kind.enemy(ctx, a)
		if err == nil {
			require.NoError(t, a.got(l, nil))
			err = a.unlock(ctx, 0)
		}
		return err == nil
	}, "the lock is not free")
	for i := 1; i < len(a.tokens); i++ { // readers may have the same
		require.GreaterOrEqual(t, a.tokens[i], a.tokens[i-1])
	}
	if last := len(a.tokens) - 1; last > 0 {
		require.Greater(t, a.tokens[last], a.tokens[last-1])
	}
	if kind.name == "permits" {
		info := must(permitsOf(a.m, a).Inspect(ctx))(t)
		require.Equal(t, []int{3, 0}, []int{info.Free, len(info.Taken)})
	}
}
