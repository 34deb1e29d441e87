package renewal

import (
	"math"
	"math/bits"
	"time"
)

const (
	// window is the number of boundaries with their own list, and of bits in Map.used. The window
	// covers eight ticks, and items are normally due within a tick. So nearly all items are in the
	// window, even if the Map's caller is late, or calls Due only when Next says so.
	window = 64
	// outside is the list of the items of all other boundaries.
	outside = window
)

// first returns the first boundary of the window that has items, or math.MaxInt64 if none has.
func (m *Map[T]) first() int64 {
	if m.used == 0 {
		return math.MaxInt64
	}
	next := m.passed + 1
	return next + int64(bits.TrailingZeros64(bits.RotateLeft64(m.used, -int(next%window))))
}

// advance moves the beginning of the window to now, or to the first item of the window if earlier.
func (m *Map[T]) advance(now time.Duration) {
	m.passed = max(m.passed, min(floor(now, m.slot), m.first()-1))
}

// place appends a node to the list of boundary at, or to outside.
func (m *Map[T]) place(node uint32, at int64) {
	if at > m.passed && at <= m.passed+window {
		slot := uint64(at) % window
		m.used |= 1 << slot
		m.lists.link(node, uint32(slot))
		return
	}
	m.firstOutside = min(m.firstOutside, at)
	m.lists.link(node, outside)
}

// take removes up to most items from the front of a list and appends them to out. all reports
// whether none is left.
func (m *Map[T]) take(list uint32, most int, out []T) (_ []T, all bool) {
	for ; most > 0; most-- {
		node := m.lists.front(list)
		if node == list {
			break
		}
		x, _, _ := m.lists.at(node)
		m.lists.unlink(node)
		out = m.takeOne(node, x, out)
	}
	return out, m.lists.front(list) == list
}

// takeOutside removes the items outside of the window that are due at boundary k. takeOutside
// places the remaining items again, because the window has moved.
func (m *Map[T]) takeOutside(k int64, out []T) []T {
	m.firstOutside = math.MaxInt64
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
