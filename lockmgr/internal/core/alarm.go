package core

import (
	"container/heap"
	"iter"
	"time"
)

// heapItem is an item of a heap of alarms. heapPos points to the position of the item in the heap,
// from 1, or to zero if the item is not in the heap. So removing an item needs no search.
type heapItem interface{ heapPos() *int32 }

// alarms is a heap of items, each with an instant. The earliest is first. The methods with capital
// letters are those of a heap.Interface.
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
	if *x.heapPos() == 0 {
		heap.Push(h, x)
	}
	if a := &h.a[*x.heapPos()-1]; at < a.at {
		a.at = at
		heap.Fix(h, int(*x.heapPos())-1)
	}
}

func (h *alarms[T]) remove(x T) {
	if pos := *x.heapPos(); pos != 0 {
		heap.Remove(h, int(pos)-1)
	}
}

func (h *alarms[T]) Len() int           { return len(h.a) }
func (h *alarms[T]) Less(i, j int) bool { return h.a[i].at < h.a[j].at }

func (h *alarms[T]) Swap(i, j int) {
	h.a[i], h.a[j] = h.a[j], h.a[i]
	*h.a[i].x.heapPos(), *h.a[j].x.heapPos() = int32(i+1), int32(j+1)
}

// Push adds an item that is never due: see atLatest.
func (h *alarms[T]) Push(x any) {
	h.a = append(h.a, alarm[T]{Forever, x.(T)})
	*x.(T).heapPos() = int32(len(h.a))
}

// Pop removes the last item. Nobody needs what Pop returns.
func (h *alarms[T]) Pop() any {
	last := len(h.a) - 1
	*h.a[last].x.heapPos() = 0
	h.a[last] = alarm[T]{}
	if h.a = h.a[:last]; cap(h.a) > 1024 && last < cap(h.a)/4 {
		h.a = append(make([]alarm[T], 0, cap(h.a)/2), h.a...) // after a burst
	}
	return nil
}
