// Package agenda has the parts of a simulation in exact time: a queue of planned events, and a
// generator of random numbers.
package agenda

import "time"

// A Queue holds functions to be called at an instant, in order of time. Those of one instant are in
// the order in which they were put in.
type Queue struct {
	heap []happening
	seq  uint64
}

type happening struct {
	at  time.Duration
	seq uint64
	do  func()
}

func (a *happening) before(b *happening) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

// Put adds a function to be called at an instant.
func (q *Queue) Put(at time.Duration, do func()) {
	q.seq++
	h := append(q.heap, happening{at, q.seq, do})
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].before(&h[i]) {
			break
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
	q.heap = h
}

// Empty reports whether nothing is planned.
func (q *Queue) Empty() bool { return len(q.heap) == 0 }

// Take removes the first function. The queue must not be empty.
func (q *Queue) Take() (at time.Duration, do func()) {
	h := q.heap
	top := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h[last] = happening{}
	h = h[:last]
	i := 0
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h[child].before(&h[least]) {
				least = child
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	q.heap = h
	return top.at, top.do
}
