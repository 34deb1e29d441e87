package renewal

import (
	"math"
	"math/bits"
	"time"
)

const (
	// window is how many boundaries have a list of their own: as many as there are bits in Map.used. That is eight ticks, while items are
	// normally due within one, so nearly all of them are in the window even if the Map's owner is late, or calls Due only when there is
	// something.
	window = 64
	// outside is the list of all other boundaries' items.
	outside = window
)

// first returns the first boundary of the window that has items, math.MaxInt64 if none has.
func (m *Map[T]) first() int64 {
	if m.used == 0 {
		return math.MaxInt64
	}
	next := m.passed + 1
	return next + int64(bits.TrailingZeros64(bits.RotateLeft64(m.used, -int(next%window))))
}

// advance moves the window up to now, or as far as the items in it allow.
func (m *Map[T]) advance(now time.Duration) {
	m.passed = max(m.passed, min(floor(now, m.slot), m.first()-1))
}

// place links a node whose boundary is at into the list where it belongs.
func (m *Map[T]) place(node uint32, at int64) {
	if at > m.passed && at <= m.passed+window {
		slot := uint64(at) % window
		m.used |= 1 << slot
		m.lists.link(node, uint32(slot))
		return
	}
	m.other = min(m.other, at)
	m.lists.link(node, outside)
}

// take takes out all items of a list.
func (m *Map[T]) take(list uint32, out []T) []T {
	for node := m.lists.cut(list); node != list; {
		x, _, next := m.lists.at(node)
		out = m.takeOne(node, x, out)
		node = next
	}
	return out
}

// takeOthers takes out the items outside of the window that are due at boundary k, and places the rest anew, since the window has moved.
func (m *Map[T]) takeOthers(k int64, out []T) []T {
	m.other = math.MaxInt64
	for node := m.lists.cut(outside); node != outside; {
		x, at, next := m.lists.at(node)
		if at <= k {
			out = m.takeOne(node, x, out)
		} else {
			m.place(node, at)
		}
		node = next
	}
	return out
}

func (m *Map[T]) takeOne(node uint32, x T, out []T) []T {
	m.lists.release(node)
	x.RenewalEntry().node = 0
	return append(out, x)
}
