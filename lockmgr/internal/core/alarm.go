package core

import (
	"iter"
	"time"
)

// heapItem is an item of a heap of alarms. heapPos points to the position of the item in the heap,
// from 1, or to zero if the item is not in the heap. So removing an item needs no search.
type heapItem interface{ heapPos() *int32 }

// alarms is a binary heap of items, each with an instant. The earliest is first.
type alarms[T heapItem] struct{ a []alarm[T] }

type alarm[T heapItem] struct {
	at time.Duration
	x  T
}

// next returns the earliest instant, or Forever.
func (h *alarms[T]) next() time.Duration {
	if len(h.a) == 0 {
		return Forever
	}
	return h.a[0].at
}

// due removes and yields each item whose instant has come. yield may change the heap.
func (h *alarms[T]) due(now time.Duration) iter.Seq[T] {
	return func(yield func(T) bool) {
		for h.next() <= now {
			x := h.a[0].x
			h.remove(x)
			if !yield(x) {
				return
			}
		}
	}
}

// atLatest makes sure that x is due at the instant or earlier. An early alarm is harmless, and
// costs less than moving x whenever the instant of x becomes later.
func (h *alarms[T]) atLatest(x T, at time.Duration) {
	p := x.heapPos()
	switch {
	case *p == 0:
		h.a = append(h.a, alarm[T]{at, x})
		*p = int32(len(h.a))
	case at < h.a[*p-1].at:
		h.a[*p-1].at = at
	default:
		return
	}
	h.up(int(*p) - 1)
}

func (h *alarms[T]) remove(x T) {
	p := x.heapPos()
	if *p == 0 {
		return
	}
	i := int(*p) - 1
	*p = 0
	last := len(h.a) - 1
	moved := h.a[last]
	h.a[last] = alarm[T]{}
	h.a = h.a[:last]
	if cap(h.a) > 1024 && last < cap(h.a)/4 {
		h.a = append(make([]alarm[T], 0, cap(h.a)/2), h.a...) // after a burst
	}
	if i == last {
		return
	}
	h.a[i] = moved
	*moved.x.heapPos() = int32(i + 1)
	h.up(i)
	h.down(i)
}

func (h *alarms[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h.a[parent].at <= h.a[i].at {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *alarms[T]) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h.a); child++ {
			if h.a[child].at < h.a[least].at {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h *alarms[T]) swap(i, j int) {
	h.a[i], h.a[j] = h.a[j], h.a[i]
	*h.a[i].x.heapPos() = int32(i + 1)
	*h.a[j].x.heapPos() = int32(j + 1)
}
