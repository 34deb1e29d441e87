package lockmgr

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// MaxSet is the largest number of names in a [Set].
const MaxSet = 256

// A Set is several locks to be taken at once, by [Manager.LockAll]. The order of the names and
// repetitions have no meaning. A name in both Shared and Exclusive counts as Exclusive.
type Set struct {
	Names     []string // plain locks
	Shared    []string // the read sides of read-write locks
	Exclusive []string // the write sides of read-write locks
}

// All returns the set of plain locks with the given names. All has nothing to do with futures.All,
// which waits for several futures.
func All(names ...string) Set { return Set{Names: names} }

// LockAllAsync asks for all locks of a set, or none, and returns at once. The future settles with a
// single [Lock] for the whole set. A set does not pass to the next request in memory.
//
// One script takes all locks, and one script gives them back. In a cluster each slot has scripts of
// its own. A try asks the masters in sequence and ends at the first refusal. Renewals and releases
// go to all masters at once.
//
// A waiting set stands in the line of the first lock that it can't have, and keeps the locks
// before, in the order of the names; in a cluster, of the slots. All sets have the same order, so
// callers that hold nothing else never wait for each other in a circle. A caller that holds a lock
// may wait for another lock as long as a set keeps the other lock. For each further lock, the set
// waits half as long as it has waited so far. Then the set gives back what it keeps, and keeps
// nothing for as long, or up to twice as long. A set that tries once keeps nothing. While the set
// waits for a name that others always want, the names before are idle for a part of the time: let
// that name come first.
//
// The requests of a manager for the very same names and sides are served in order, one at a time,
// even if all read. To requests for single names and for overlapping sets, the set is like a
// request of another process.
//
// The locks share the lease, the watchdog and the holder ID. If a lock of the set is lost, the Lock
// is lost, and the remaining locks are given back. With Fenced each lock has a token: see
// [Lock.TokenOf].
//
// An owner can take a held set again, by the same names and sides. If the owner has a name of the
// set in another way, alone or in another set, and the two exclude each other, the request fails
// with ErrDeadlock. All("a") and the name "a" taken alone are different holds. A set is neither
// upgraded nor downgraded.
//
// A set without names, with more than MaxSet names, or with a name both in Names and elsewhere
// fails with ErrInvalidName. See [LockOption] for the options that a set takes, and
// [Manager.LockAsync] for everything else.
func (m *Manager) LockAllAsync(s Set, opts ...LockOption) *futures.Future[*Lock] {
	return m.request(m.wishAll(toLockAll, s, opts))
}

// LockAll waits until all locks of a set are granted. See [Manager.LockAllAsync] for details, and
// [Manager.Lock] for ctx.
func (m *Manager) LockAll(ctx context.Context, s Set, opts ...LockOption) (*Lock, error) {
	return m.lock(ctx, m.wishAll(toLockAll, s, opts))
}

// TryLockAll tries once to get all locks of a set, without waiting for others, and returns
// ErrNotAcquired if a lock is held, or if the same set is waited for in the same manager.
func (m *Manager) TryLockAll(ctx context.Context, s Set, opts ...LockOption) (*Lock, error) {
	return m.lock(ctx, m.wishAll(toTryLockAll, s, opts))
}

// DoAll is [Manager.Do] for all locks of a set. The context of fn names no owner: a request in fn
// for a name of the set waits for fn itself, and no deadlock is seen, unless ctx has an owner.
func (m *Manager) DoAll(ctx context.Context, s Set, fn func(ctx context.Context, l *Lock) error, opts ...LockOption) error {
	l, err := m.LockAll(ctx, s, opts...)
	return do(ctx, l, err, fn)
}

// wishAll returns the wish of a call for a set.
func (m *Manager) wishAll(call callKinds, s Set, opts []LockOption) wish {
	items, fault := m.itemsOf(s)
	w := wishFor(call, textOf(items), fault, opts)
	w.kind, w.items = core.Several, items
	return w
}

// itemsOf returns the items of a set, sorted by name, each name once. With an error itemsOf returns
// the items found so far.
func (m *Manager) itemsOf(s Set) ([]core.Item, error) {
	n := len(s.Names) + len(s.Shared) + len(s.Exclusive)
	if n == 0 {
		return nil, fmt.Errorf("%w: the set is empty", ErrInvalidName)
	}
	items := make([]core.Item, 0, n)
	for _, part := range []struct {
		names []string
		kind  core.Kind
		side  core.Side
	}{{s.Names, core.Exclusive, core.Alone}, {s.Shared, core.ReadWrite, core.Shared}, {s.Exclusive, core.ReadWrite, core.Alone}} {
		for _, name := range part.names {
			items = append(items, core.Item{Name: m.prefixed(name), Kind: part.kind, Side: part.side})
		}
	}
	// Alone is before Shared: of the two sides of a name, the first stays.
	slices.SortStableFunc(items, func(a, b core.Item) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return int(a.Side) - int(b.Side)
	})
	for i := 1; i < len(items); i++ {
		if a, b := &items[i-1], &items[i]; a.Name == b.Name && a.Kind != b.Kind {
			return items, fmt.Errorf("%w: %s is in Names, and in Shared or Exclusive", ErrInvalidName, shortName(a.Name))
		}
	}
	items = slices.CompactFunc(items, func(a, b core.Item) bool { return a.Name == b.Name })
	if len(items) > MaxSet {
		return items, fmt.Errorf("%w: the set has %d names, more than %d", ErrInvalidName, len(items), MaxSet)
	}
	for _, it := range items {
		if err := checkName(it.Name); err != nil {
			return items, fmt.Errorf("%w (of %s)", err, shortName(it.Name))
		}
	}
	return items, nil
}

// textOf returns a text unique to the set of items.
func textOf(items []core.Item) string {
	var b []byte
	for i, it := range items {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendQuote(b, it.Name)
		switch {
		case it.Kind != core.ReadWrite:
		case it.Side == core.Shared:
			b = append(b, " (shared)"...)
		default:
			b = append(b, " (exclusive)"...)
		}
	}
	return string(b)
}

// Names returns the name of the lock, or the sorted names of a set.
func (l *Lock) Names() []string {
	if !l.IsSet() {
		return []string{l.Name()}
	}
	var names []string
	for _, it := range l.setPart().items {
		names = append(names, it.Name)
	}
	return names
}

// TokenOf returns the fencing token of a name of the lock, with or without Options.Prefix, or zero
// if the lock does not have the name or was taken without Fenced. See [Lock.Token].
func (l *Lock) TokenOf(name string) int64 {
	name = l.ticket.shell.prefixed(name)
	if !l.IsSet() {
		if name == l.Name() {
			return l.Token()
		}
		return 0
	}
	s := l.setPart()
	i := slices.IndexFunc(s.items, func(it core.Item) bool { return it.Name == name })
	if i < 0 || i >= len(s.tokens) {
		return 0
	}
	return s.tokens[i]
}

func (l *Lock) setPart() *setPart {
	return l.ticket.hold().more.Load().set
}
