package renewal

import "math"

// outside is the Entry.list of items whose boundary the ring does not cover: far ahead, or in the past because they were scheduled with an
// old reading of the clock. Both are rare, so they are kept in no order.
const outside = window + 1

type others[T Item] struct {
	list  []other[T]
	first int64 // no boundary in the list is before this one; math.MaxInt64 if it is empty
}

type other[T Item] struct {
	item T
	at   int64
}

func (o *others[T]) put(x T, e *Entry, at int64) {
	*e = Entry{list: outside, pos: uint32(len(o.list))}
	o.list = append(o.list, other[T]{x, at})
	o.first = min(o.first, at)
}

// remove takes out the item at e, and fills the gap with the last. It leaves first alone, which would need a search.
func (o *others[T]) remove(e *Entry) {
	last := len(o.list) - 1
	moved := o.list[last]
	o.list[e.pos] = moved
	moved.item.RenewalEntry().pos = e.pos
	clear(o.list[last:])
	o.list = o.list[:last]
	if last == 0 {
		*o = others[T]{first: math.MaxInt64}
	}
}
