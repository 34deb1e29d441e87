package renewal

import (
	"math"
	"time"
)

// perTick is how many slots a tick has.
const perTick = 8

// Entry remembers an item's place in a Map, so that it is found without a search. It is embedded by value in what holds a lease, belongs to
// one Map at a time, and must not be copied while it is scheduled. Its zero value is in no Map.
type Entry struct {
	node uint32 // index in lists.nodes; 0 is a head, hence never an item's
}

// Scheduled reports whether the item is in a Map.
func (e *Entry) Scheduled() bool { return e.node != 0 }

// Item is what a Map holds. RenewalEntry must always return the same Entry.
type Item interface{ RenewalEntry() *Entry }

// Map holds leases until they are due for renewal. It is not safe for concurrent use. Make one with NewMap.
//
// Boundaries are counted: boundary k is the instant k·slot. The window holds those in (passed, passed+window], each in a list of its own; one
// more list takes the items of all others, which lie far ahead, or in the past because they were scheduled with an old reading of the clock.
type Map[T Item] struct {
	slot time.Duration
	last int64 // the last boundary that a time.Duration can name

	lists  lists[T]
	passed int64  // this boundary and those before it have no items in the window
	used   uint64 // bit k%window: boundary k of the window has items
	other  int64  // no item outside of the window has an earlier boundary; math.MaxInt64 if there is none
}

// NewMap returns an empty Map whose slots are an eighth of tick long. Leases are to be renewed once a tick, so it is a third of the lease.
// A tick of less than 8 ns counts as 8 ns.
func NewMap[T Item](tick time.Duration) *Map[T] {
	slot := max(tick/perTick, 1)
	return &Map[T]{
		slot:  slot,
		last:  math.MaxInt64 / int64(slot),
		lists: lists[T]{nodes: heads[T]()},
		other: math.MaxInt64,
	}
}

// Schedule places x, or moves it if it is in the Map already. Its boundary is the first one that is at or after due and after now: so it
// comes out no earlier than due, less than a slot later, and, if it is overdue, not at once but within one slot from now.
//
// now is a reading of the clock. It may be older than the one that Due was last called with; then the boundary may have passed, and x comes
// out the next time. The last boundary that a time.Duration can name, after 292 years, stands for all instants after it as well.
func (m *Map[T]) Schedule(x T, now, due time.Duration) {
	e := x.RenewalEntry()
	m.remove(e)
	at := m.boundary(now, due)
	if at > m.passed+window {
		m.advance(now)
	}
	e.node = m.lists.add(x, at)
	m.place(e.node, at)
}

// boundary takes one division: there is a boundary after now at or before the first one after a later instant.
func (m *Map[T]) boundary(now, due time.Duration) int64 {
	if due <= now {
		return min(floor(now, m.slot)+1, m.last)
	}
	return min(ceil(due, m.slot), m.last)
}

// Remove takes x out of the Map. It does nothing if x is not in it.
func (m *Map[T]) Remove(x T) { m.remove(x.RenewalEntry()) }

func (m *Map[T]) remove(e *Entry) {
	if e.node == 0 {
		return
	}
	if emptied := m.lists.unlink(e.node); emptied < window {
		m.used &^= 1 << emptied
	} else if emptied == outside {
		m.other = math.MaxInt64
	}
	m.lists.release(e.node)
	e.node = 0
}

// Due takes out whatever has a boundary at or before now, appends it to out and returns that. Items of the window come by boundary, those of
// one boundary in the order in which they were scheduled; then come the others, in the order of their scheduling. It costs nothing to
// speak of while now is before Next.
func (m *Map[T]) Due(now time.Duration, out []T) []T {
	if next, ok := m.Next(); !ok || now < next {
		return out
	}
	k := floor(now, m.slot)
	for at := m.first(); at <= k && m.used != 0; at = m.first() {
		slot := uint64(at) % window
		m.used &^= 1 << slot
		out = m.take(uint32(slot), out)
	}
	m.passed = max(m.passed, k)
	if m.other <= k {
		out = m.takeOthers(k, out)
	}
	return out
}

// Next returns the next instant at which Due has something to give; ok is false if the Map is empty. After an item was removed or moved whose
// boundary lay outside of the window, Next may name that boundary still. Calling Due then finds nothing, and corrects it.
func (m *Map[T]) Next() (at time.Duration, ok bool) {
	if m.lists.n == 0 {
		return 0, false
	}
	return time.Duration(min(m.first(), m.other)) * m.slot, true
}

// Len returns how many items are in the Map.
func (m *Map[T]) Len() int { return m.lists.n }

func floor(d, slot time.Duration) int64 {
	q := d / slot
	if d%slot < 0 {
		q--
	}
	return int64(q)
}

func ceil(d, slot time.Duration) int64 {
	q := d / slot
	if d%slot > 0 {
		q++
	}
	return int64(q)
}
