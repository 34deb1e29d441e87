package renewal

import (
	"math"
	"math/bits"
)

const (
	// window is how many slots the ring has: as many as there are bits in ring.used. That is eight ticks, while items are normally due
	// within one, so nearly every item is in the ring even if the Map's owner is late or calls Due only when there is something.
	window = 64
	// small is the room that an empty slot keeps for itself.
	small = 32
)

// ring holds the items of the boundaries in (passed, passed+window]. An item's Entry.list is 1 + its slot.
type ring[T Item] struct {
	passed int64 // this boundary and those before it have no items in the ring
	used   uint64
	slots  [window][]T // bit i of used: slots[i] is not empty

	// spare is the largest slice that an emptied slot left behind, for the next slot that outgrows its own. Without it each slot would
	// hold room for the largest batch it ever had, 64 times as much as is ever needed at once.
	spare []T
}

func (r *ring[T]) covers(at int64) bool { return at > r.passed && !r.beyond(at) }
func (r *ring[T]) beyond(at int64) bool { return at > r.passed+window }

// first returns the first boundary that has items, math.MaxInt64 if none has.
func (r *ring[T]) first() int64 {
	if r.used == 0 {
		return math.MaxInt64
	}
	next := r.passed + 1
	return next + int64(bits.TrailingZeros64(bits.RotateLeft64(r.used, -int(next%window))))
}

// advance moves the window up to boundary k, or as far as the items in it allow.
func (r *ring[T]) advance(k int64) { r.passed = max(r.passed, min(k, r.first()-1)) }

// put adds x, whose Entry is e, at a boundary that the window covers.
func (r *ring[T]) put(x T, e *Entry, at int64) {
	i := uint64(at) % window
	items := r.slots[i]
	if len(items) == cap(items) && cap(items) < cap(r.spare) {
		items, r.spare = append(r.spare, items...), nil
	}
	*e = Entry{list: uint32(i) + 1, pos: uint32(len(items))}
	r.slots[i] = append(items, x)
	r.used |= 1 << i
}

// remove takes out the item at e, and fills the gap with the last of its slot.
func (r *ring[T]) remove(e *Entry) {
	i := e.list - 1
	items := r.slots[i]
	last := len(items) - 1
	moved := items[last]
	items[e.pos] = moved
	moved.RenewalEntry().pos = e.pos
	clear(items[last:])
	r.slots[i] = items[:last]
	if last == 0 {
		r.vacate(i)
	}
}

// takeUntil takes out the items of all boundaries up to k, which have passed then.
func (r *ring[T]) takeUntil(k int64, out []T) []T {
	for at := r.first(); at <= k && r.used != 0; at = r.first() {
		i := uint32(uint64(at) % window)
		items := r.slots[i]
		for _, x := range items {
			*x.RenewalEntry() = Entry{}
		}
		out = append(out, items...)
		clear(items)
		r.slots[i] = items[:0]
		if len(items) < cap(items)/4 && cap(items) > small {
			r.slots[i] = nil // made for times that are over
		}
		r.vacate(i)
	}
	r.passed = max(r.passed, k)
	return out
}

// vacate marks slot i, which is empty, as such. It may keep little room; more than that is passed on, or let go.
func (r *ring[T]) vacate(i uint32) {
	r.used &^= 1 << i
	if items := r.slots[i]; cap(items) > small {
		r.slots[i] = nil
		if cap(items) > cap(r.spare) {
			r.spare = items
		}
	}
}
