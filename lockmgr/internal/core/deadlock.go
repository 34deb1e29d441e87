package core

import (
	"cmp"
	"slices"
)

// waits are the waiting requests of named owners. An anonymous owner can't
// close a cycle: it makes one request, and holds nothing while it waits.
type waits map[uint64]map[*name]*ownerQueue

// An ownerQueue is the requests of one owner that wait for one lock, in order.
// One that was removed leaves a nil at its place.
type ownerQueue struct {
	requests []*Request
	n        int
}

func (w waits) add(r *Request) {
	locks := w[r.Owner]
	if locks == nil {
		locks = make(map[*name]*ownerQueue)
		w[r.Owner] = locks
	}
	q := locks[r.of]
	if q == nil {
		q = &ownerQueue{}
		locks[r.of] = q
	}
	q.push(r)
}

func (w waits) remove(r *Request) {
	q := w[r.Owner][r.of]
	q.requests[r.place] = nil
	if q.n--; q.n > 0 {
		return
	}
	delete(w[r.Owner], r.of)
	if len(w[r.Owner]) == 0 {
		delete(w, r.Owner)
	}
}

// first returns an owner's first request for a lock, or nil.
func (w waits) first(owner uint64, n *name) *Request {
	if q := w[owner][n]; q != nil {
		return q.first()
	}
	return nil
}

func (q *ownerQueue) push(r *Request) {
	if len(q.requests) >= 2*q.n+16 {
		q.compact()
	}
	r.place = int32(len(q.requests))
	q.requests = append(q.requests, r)
	q.n++
}

// first returns the first request. It forgets the places before it.
func (q *ownerQueue) first() *Request {
	for i, r := range q.requests {
		if r != nil {
			if i > 64 {
				q.compact()
			}
			return r
		}
	}
	return nil
}

func (q *ownerQueue) compact() {
	rest := q.requests[:0]
	for _, r := range q.requests {
		if r != nil {
			r.place = int32(len(rest))
			rest = append(rest, r)
		}
	}
	clear(q.requests[len(rest):])
	q.requests = rest
}

// breakDeadlock looks for a cycle that a request closes by waiting for a lock,
// and fails the youngest request of it.
func (m *Machine) breakDeadlock(r *Request, n *name) {
	for r.state == reqQueued && n.hold != nil {
		path := m.path(n.hold.Request.Owner, r.Owner)
		if path == nil {
			return
		}
		m.failYoungest(append([]*Request{r}, path...))
	}
}

// breakDeadlocks looks for the cycles that an owner closes by taking a lock
// which others wait for, and fails the youngest request of each.
func (m *Machine) breakDeadlocks(owner uint64, n *name) {
	if len(m.waits[owner]) == 0 {
		return // it waits for nothing
	}
	for r := n.queue.head; r != nil; {
		next := r.next
		if r.Explicit {
			m.breakDeadlock(r, n)
			if next != nil && next.state != reqQueued {
				next = n.queue.head // it was the youngest
			}
		}
		r = next
	}
}

func (m *Machine) failYoungest(cycle []*Request) {
	e := &DeadlockError{}
	youngest := cycle[0]
	for _, r := range cycle {
		if r.ID > youngest.ID {
			youngest = r
		}
		e.Cycle = append(e.Cycle, Wait{r.ID, r.Owner, r.Name, r.of.hold.Request.Owner})
	}
	m.giveUp(youngest, e)
}

// path returns requests that lead from one owner to another: each waits for a
// lock which the owner of the next one holds, and the last for one that the
// other holds. It returns nil if there are none.
func (m *Machine) path(from, to uint64) []*Request {
	if !m.leads(from, to, map[uint64]bool{}) {
		return nil // the usual case, at less cost
	}
	var path []*Request
	seen := map[uint64]bool{}
	var visit func(owner uint64) bool
	visit = func(owner uint64) bool {
		if seen[owner] {
			return false
		}
		seen[owner] = true
		for _, r := range m.inOrder(owner) {
			h := r.of.hold
			if h == nil {
				continue
			}
			path = append(path, r)
			if h.Request.Owner == to || visit(h.Request.Owner) {
				return true
			}
			path = path[:len(path)-1]
		}
		return false
	}
	if !visit(from) {
		return nil
	}
	return path
}

// leads reports whether an owner waits for another, if only through others.
func (m *Machine) leads(from, to uint64, seen map[uint64]bool) bool {
	if seen[from] {
		return false
	}
	seen[from] = true
	for n := range m.waits[from] {
		if h := n.hold; h != nil && (h.Request.Owner == to || m.leads(h.Request.Owner, to, seen)) {
			return true
		}
	}
	return false
}

// inOrder lists an owner's first request for each lock, the oldest first: the
// order of a map must not decide what happens.
func (m *Machine) inOrder(owner uint64) []*Request {
	var all []*Request
	for _, q := range m.waits[owner] {
		all = append(all, q.first())
	}
	slices.SortFunc(all, func(a, b *Request) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
