package turns

import (
	"container/heap"
	"time"
)

// A queue holds functions to be called at an instant, in order of time. Those of one instant are in
// the order in which they were put in.
type queue struct {
	heap happenings
	seq  uint64
}

type happening struct {
	at  time.Duration
	seq uint64
	do  func()
}

// put adds a function to be called at an instant.
func (q *queue) put(at time.Duration, do func()) {
	q.seq++
	heap.Push(&q.heap, happening{at, q.seq, do})
}

// empty reports whether nothing is planned.
func (q *queue) empty() bool { return len(q.heap) == 0 }

// take removes the first function. The queue must not be empty.
func (q *queue) take() (at time.Duration, do func()) {
	first := heap.Pop(&q.heap).(happening)
	return first.at, first.do
}

// happenings is a heap.Interface.
type happenings []happening

func (h happenings) Len() int { return len(h) }

func (h happenings) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}

func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *happenings) Push(x any) { *h = append(*h, x.(happening)) }

func (h *happenings) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = happening{}
	*h = (*h)[:last]
	return x
}
