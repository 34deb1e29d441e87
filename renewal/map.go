package renewal

import (
	"math"
	"time"
)

// perTick is how many slots a tick has.
const perTick = 8

// Entry is an item's place in a Map, so the Map finds the item without a search. An Entry is meant
// to be embedded by value in the item. An Entry belongs to one Map at a time and must not be copied
// while scheduled. The zero value is in no Map.
type Entry struct {
	node uint32 // index in lists.nodes; 0 is a head, hence never an item's
}

// Scheduled reports whether the item is in a Map.
func (e *Entry) Scheduled() bool { return e.node != 0 }

// Item is an element of a Map. RenewalEntry must always return the same Entry.
type Item interface{ RenewalEntry() *Entry }

// Map holds leases until they are due for renewal. A Map is not safe for concurrent use. Make a Map
// with NewMap.
//
// Boundary k is the instant k·slot. The boundaries in (passed, passed+window] are the window. Each
// boundary of the window has its own list. A further list has the items of all boundaries outside.
// Boundaries outside are far ahead, or in the past if an item was scheduled with an old reading of
// the clock.
type Map[T Item] struct {
	slot time.Duration
	last int64 // the last boundary that a time.Duration can represent

	lists  lists[T]
	passed int64  // this boundary and those before it have no items in the window
	used   uint64 // bit k%window is set if boundary k of the window has items
	// firstOutside is the first boundary of the items outside of the window, or an earlier
	// boundary. Without such items it is math.MaxInt64.
	firstOutside int64
}

// NewMap returns an empty Map whose slots are an eighth of tick long. A lease is renewed once a
// tick, so tick is a third of the lease. A tick of less than 8 ns counts as 8 ns.
func NewMap[T Item](tick time.Duration) *Map[T] {
	slot := max(tick/perTick, 1)
	return &Map[T]{
		slot:         slot,
		last:         math.MaxInt64 / int64(slot),
		lists:        lists[T]{nodes: heads[T]()},
		firstOutside: math.MaxInt64,
	}
}

// Schedule adds x to the Map, or moves x if already in the Map. The boundary of x is the first
// boundary at or after due and also after now. So x comes out no earlier than due, and less than a
// slot later. An overdue x does not come out at once but within a slot from now.
//
// now is a reading of the clock. now may be older than the now of the last call of Due. In that
// case the boundary may have passed, and x comes out at the next call of Due. The last boundary
// that a time.Duration can represent, after 292 years, also stands for all later instants.
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

// boundary returns the first boundary at or after due and after now. A single division is enough:
// if due is after now, so is each boundary at or after due.
func (m *Map[T]) boundary(now, due time.Duration) int64 {
	if due <= now {
		return min(floor(now, m.slot)+1, m.last)
	}
	return min(ceil(due, m.slot), m.last)
}

// Remove removes x from the Map. Remove does nothing if x is not in the Map.
func (m *Map[T]) Remove(x T) { m.remove(x.RenewalEntry()) }

func (m *Map[T]) remove(e *Entry) {
	if e.node == 0 {
		return
	}
	if emptied := m.lists.unlink(e.node); emptied < window {
		m.used &^= 1 << emptied
	} else if emptied == outside {
		m.firstOutside = math.MaxInt64
	}
	m.lists.release(e.node)
	e.node = 0
}

// Due removes the items whose boundary is at or before now, appends them to out and returns the
// extended slice. The items of the window come first, by boundary. The items of a boundary are in
// the order of scheduling. The items outside of the window come last, in the order of scheduling.
// While now is before Next, a call costs next to nothing.
func (m *Map[T]) Due(now time.Duration, out []T) []T { return m.DueAtMost(now, math.MaxInt, out) }

// DueAtMost is Due for about most items: the remaining items come out with the next calls, in the
// order of Due. Meanwhile Next returns a past instant. Items outside of the window come out all at
// once.
func (m *Map[T]) DueAtMost(now time.Duration, most int, out []T) []T {
	if next, ok := m.Next(); !ok || now < next {
		return out
	}
	k := floor(now, m.slot)
	before := len(out)
	for at := m.first(); at <= k && m.used != 0; at = m.first() {
		slot := uint64(at) % window
		var all bool
		if out, all = m.take(uint32(slot), most-(len(out)-before), out); !all {
			m.passed = max(m.passed, at-1)
			return out
		}
		m.used &^= 1 << slot
	}
	m.passed = max(m.passed, k)
	if m.firstOutside <= k {
		out = m.takeOutside(k, out)
	}
	return out
}

// Next returns the next instant at which Due returns an item. ok is false if the Map is empty. If
// an item outside of the window was removed or moved, Next may still return the item's boundary. A
// call of Due then finds no item, and corrects Next.
func (m *Map[T]) Next() (at time.Duration, ok bool) {
	if m.lists.n == 0 {
		return 0, false
	}
	return time.Duration(min(m.first(), m.firstOutside)) * m.slot, true
}

// Len returns the number of items in the Map.
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
