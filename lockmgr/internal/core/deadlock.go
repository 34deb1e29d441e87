package core

import (
	"cmp"
	"container/list"
	"slices"
)

// waits are the waiting requests of owners that callers have named, by owner, and by what the
// requests want. Each list has requests, in order. An anonymous owner can't close a cycle, because
// the owner makes one request, and holds nothing while waiting.
type waits map[uint64]map[wanted]*list.List

// wanted is what a request waits for, and whether the request only tries.
type wanted struct {
	name *name
	side Side
	once bool
}

func (r *Request) wanted() wanted { return wanted{r.entry.of, r.Side, r.Once} }

func (w waits) add(r *Request) {
	locks := w[r.Owner()]
	if locks == nil {
		locks = make(map[wanted]*list.List)
		w[r.Owner()] = locks
	}
	if locks[r.wanted()] == nil {
		locks[r.wanted()] = list.New()
	}
	r.Terms.inWaits = locks[r.wanted()].PushBack(r)
}

func (w waits) remove(r *Request) {
	locks := w[r.Owner()]
	q := locks[r.wanted()]
	if q.Remove(r.Terms.inWaits); q.Len() == 0 {
		delete(locks, r.wanted())
	}
	if len(locks) == 0 {
		delete(w, r.Owner())
	}
}

// firstOf returns an owner's first request that wants the same, or nil.
func (w waits) firstOf(owner uint64, what wanted) *Request {
	if q := w[owner][what]; q != nil {
		return q.Front().Value.(*Request)
	}
	return nil
}

// first returns an owner's first request for a name, or nil.
func (w waits) first(owner uint64, n *name) (first *Request) {
	for s := range sides {
		for _, once := range []bool{false, true} {
			if r := w.firstOf(owner, wanted{n, s, once}); r != nil && (first == nil || r.ID < first.ID) {
				first = r
			}
		}
	}
	return first
}

// An edge is a waiting request, and a hold whose end the request waits for.
type edge struct {
	request *Request
	hold    *Hold
}

// blockers calls yield for each hold whose end a request waits for. A request with Once set waits
// for none. A Shared request does not wait for Shared holds, unless the request waits behind a
// request for the side Alone, here or elsewhere. The holds of overlapping sets and single names
// count, too.
func (m *Machine) blockers(r *Request) func(func(*Hold) bool) {
	return func(yield func(*Hold) bool) {
		if r.Once || !r.ownBlockers(yield) {
			return
		}
		for o := range m.overlaps(r.entry.of, m.heldSets) {
			for e := range o.name.entries {
				for h := range e.holds {
					if o.blocks(r, h) && !yield(h) {
						return
					}
				}
			}
		}
	}
}

// ownBlockers calls yield for the holds of the request's own name, and reports whether yield always
// returned true.
func (r *Request) ownBlockers(yield func(*Hold) bool) bool {
	n := r.entry.of
	behind := r.Side == Alone || r.behindAlone()
	for e := range n.entries {
		if !behind && e.aloneHold() == nil && !r.behindWriter(e) {
			continue
		}
		for h := range e.holds {
			if !yield(h) {
				return false
			}
		}
	}
	return true
}

// item returns the single name for which the request of an edge waits.
func (w *edge) item() string {
	for _, it := range w.request.entry.of.items() {
		h := w.hold.Request.entry.of
		if !h.isSet() && h.name == it.Name {
			return it.Name
		}
		for _, other := range h.items() {
			if other.Name == it.Name && it.excludes(&other) {
				return it.Name
			}
		}
	}
	return w.request.Name
}

// breakDeadlock looks for the cycles that a request closes by waiting, and fails the youngest
// request of each cycle.
func (m *Machine) breakDeadlock(r *Request) {
	for r.state == reqQueued {
		cycle := m.cycle(r)
		if cycle == nil {
			return
		}
		m.failYoungest(cycle)
	}
}

// cycle returns a cycle that begins with a request, or nil. A Shared request closes no cycle if its
// owner waits for the same side of the name already, even behind a request for the side Alone. The
// request re-enters when the owner's first request is granted.
func (m *Machine) cycle(r *Request) []edge {
	if first := m.waits.firstOf(r.Owner(), r.wanted()); r.Side == Shared && first != nil && first != r {
		return nil
	}
	for h := range m.blockers(r) {
		if h.Request.Owner() == r.Owner() {
			return []edge{{r, h}} // the owner of r has one of these items in another way: no release will come
		}
		if path := m.path(h.Request.Owner(), r.Owner()); len(path) > 0 {
			return append([]edge{{r, h}}, path...)
		}
	}
	return nil
}

// breakDeadlocks looks for the cycles that an owner closes by getting a hold of a name for which
// others wait, or of a set. breakDeadlocks fails the youngest request of each cycle.
func (m *Machine) breakDeadlocks(owner uint64, n *name) {
	if len(m.waits[owner]) == 0 {
		return // it waits for nothing
	}
	seen := map[*name]bool{n: true} // a name may have many items in common with n
	all := n.explicit()
	for o := range m.overlaps(n, m.sets) {
		if !seen[o.name] {
			seen[o.name] = true
			all = append(all, o.name.explicit()...)
		}
	}
	for _, r := range all {
		m.breakDeadlock(r)
	}
}

// explicit returns the requests in the queue of a name whose owners callers have named.
func (n *name) explicit() (all []*Request) {
	for r := range n.queue.all {
		if r.Explicit {
			all = append(all, r)
		}
	}
	return all
}

// othersFirst notes a reply by which others come before the waiting requests of a name. The
// requests may thus close cycles, for which endStep looks: see behindWriter.
func (m *Machine) othersFirst(e *entry, r *Reply) {
	e.upkeep().refusedAt = r.Op.Sent
	m.search = append(m.search, e.of.explicit()...)
}

func (m *Machine) failYoungest(cycle []edge) {
	e := &DeadlockError{}
	youngest := cycle[0].request
	for _, w := range cycle {
		if w.request.ID > youngest.ID {
			youngest = w.request
		}
		e.Cycle = append(e.Cycle, Wait{w.request.Owner(), w.item(), w.hold.Request.Owner()})
	}
	m.failQueued(youngest, e)
}

// path returns a path of edges from one owner to another, without edges if there is none. The
// request of the first edge is of the owner from. The hold of each edge is of the owner of the next
// edge's request. The hold of the last edge is of the owner to.
func (m *Machine) path(from, to uint64) []edge {
	var path []edge
	seen := map[uint64]bool{}
	var visit func(owner uint64) bool
	visit = func(owner uint64) bool {
		if seen[owner] {
			return false
		}
		seen[owner] = true
		for _, r := range m.inOrder(owner) {
			for h := range m.blockers(r) {
				path = append(path, edge{r, h})
				if h.Request.Owner() == to || visit(h.Request.Owner()) {
					return true
				}
				path = path[:len(path)-1]
			}
		}
		return false
	}
	visit(from)
	return path
}

// inOrder returns an owner's first request for each side of each name, the oldest first. The
// requests are sorted, because the order of a map must not decide what happens.
func (m *Machine) inOrder(owner uint64) []*Request {
	var all []*Request
	for what := range m.waits[owner] {
		all = append(all, m.waits.firstOf(owner, what))
	}
	slices.SortFunc(all, func(a, b *Request) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
