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
	list uint32 // 0: not scheduled; else 1 + the ring's slot, or outside
	pos  uint32 // index in that list
}

// Scheduled reports whether the item is in a Map.
func (e *Entry) Scheduled() bool { return e.list != 0 }

// Item is what a Map holds.
type Item interface{ RenewalEntry() *Entry }

// Map holds leases until they are due for renewal. It is not safe for concurrent use. Make one with NewMap.
//
// Boundaries are counted: boundary k is the instant k·slot. All items in one slot of the ring have the same boundary, so what is due comes
// out by whole slots, and no item's boundary needs to be stored.
type Map[T Item] struct {
	slot time.Duration
	last int64 // the last boundary that a time.Duration can name
	n    int   // items, in the ring and outside

	ring   ring[T]
	others others[T] // items whose boundary is not in the ring's window
}

// NewMap returns an empty Map whose slots are an eighth of tick long. Leases are to be renewed once a tick, so it is a third of the lease.
// A tick of less than 8 ns counts as 8 ns.
func NewMap[T Item](tick time.Duration) *Map[T] {
	m := &Map[T]{slot: max(tick/perTick, 1)}
	m.last = math.MaxInt64 / int64(m.slot)
	m.ring.passed = math.MinInt64
	m.others.first = math.MaxInt64
	return m
}

// Schedule places x, or moves it if it is in the Map already. Its boundary is the first one that is at or after due and after now: so it
// comes out no earlier than due, less than a slot later, and, if it is overdue, not at once but within one slot from now.
//
// now is a reading of the clock; an older one than Due was last called with is fine, and merely means that the boundary may have passed.
// Of the last slot that a time.Duration can name (after 292 years), nothing is due.
func (m *Map[T]) Schedule(x T, now, due time.Duration) {
	e := x.RenewalEntry()
	m.remove(e)
	m.n++

	at := m.boundary(now, due)
	if m.ring.beyond(at) {
		m.ring.advance(floor(now, m.slot))
	}
	if m.ring.covers(at) {
		m.ring.put(x, e, at)
	} else {
		m.others.put(x, e, at)
	}
}

func (m *Map[T]) boundary(now, due time.Duration) int64 {
	if due <= now {
		return min(floor(now, m.slot)+1, m.last)
	}
	return min(ceil(due, m.slot), m.last)
}

// Remove takes x out of the Map. It does nothing if x is not in it.
func (m *Map[T]) Remove(x T) { m.remove(x.RenewalEntry()) }

func (m *Map[T]) remove(e *Entry) {
	switch e.list {
	case 0:
		return
	case outside:
		m.others.remove(e)
	default:
		m.ring.remove(e)
	}
	*e = Entry{}
	m.n--
}

// Due takes out whatever has a boundary at or before now, appends it to out and returns that. The order depends on nothing but the calls
// made on the Map; items in the ring's window come by boundary. It costs nothing to speak of while now is before Next.
func (m *Map[T]) Due(now time.Duration, out []T) []T {
	if next, ok := m.Next(); !ok || now < next {
		return out
	}
	before := len(out)
	k := floor(now, m.slot)
	out = m.ring.takeUntil(k, out)
	if m.others.first <= k {
		out = m.takeOthers(k, out)
	}
	m.n -= len(out) - before
	return out
}

// takeOthers is Due for the items outside the ring. Those that the window reaches by now move into the ring.
func (m *Map[T]) takeOthers(k int64, out []T) []T {
	var rest others[T]
	rest.first = math.MaxInt64
	for _, o := range m.others.list {
		e := o.item.RenewalEntry()
		switch {
		case o.at <= k:
			*e = Entry{}
			out = append(out, o.item)
		case m.ring.covers(o.at):
			m.ring.put(o.item, e, o.at)
		default:
			rest.put(o.item, e, o.at)
		}
	}
	m.others = rest
	return out
}

// Next returns the next instant at which Due has something to give; ok is false if the Map is empty. If an item was removed whose boundary
// lay outside the ring's window, Next may still name that boundary. Calling Due then finds nothing and corrects it.
func (m *Map[T]) Next() (at time.Duration, ok bool) {
	if m.n == 0 {
		return 0, false
	}
	return time.Duration(min(m.ring.first(), m.others.first)) * m.slot, true
}

// Len returns how many items are in the Map.
func (m *Map[T]) Len() int { return m.n }

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
