package turns

import "time"

// A queue holds future events, ordered by time and then by insertion.
type queue struct {
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

func (q *queue) put(at time.Duration, do func()) {
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

func (q *queue) take() happening {
	h := q.heap
	top := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h[last] = happening{}
	h = h[:last]
	for i := 0; ; {
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
	return top
}

// A rng is a splitmix64 generator.
type rng uint64

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// between returns a duration in [lo, hi].
func (r *rng) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(r.next()%uint64(hi-lo+1))
}
