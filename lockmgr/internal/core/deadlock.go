package core

// ownerWaits are the requests that one named owner waits with. Anonymous
// owners can't be part of a deadlock: each makes one request and holds
// nothing while it waits.
type ownerWaits struct{ requests []*Request }

func (m *Machine) ownerWaits(r *Request) {
	w := m.owners[r.Owner]
	if w == nil {
		w = &ownerWaits{}
		m.owners[r.Owner] = w
	}
	w.requests = append(w.requests, r)
}

func (m *Machine) ownerWaitsNoMore(r *Request) {
	w := m.owners[r.Owner]
	for i, q := range w.requests {
		if q == r {
			w.requests = append(w.requests[:i], w.requests[i+1:]...)
			break
		}
	}
	if len(w.requests) == 0 {
		delete(m.owners, r.Owner)
	}
}

// waitsFor lists the requests of an owner for one lock, in their order.
func (m *Machine) waitsFor(owner uint64, l *lock) (out []*Request) {
	if w := m.owners[owner]; w != nil {
		for _, r := range w.requests {
			if r.lock == l {
				out = append(out, r)
			}
		}
	}
	return out
}

// breakDeadlock looks for cycles through an owner that has just begun to wait
// or to hold, and fails the youngest request of each.
func (m *Machine) breakDeadlock(owner uint64) {
	for {
		cycle := m.findCycle(owner)
		if cycle == nil {
			return
		}
		e := &DeadlockError{}
		youngest := cycle[0]
		for _, r := range cycle {
			if r.ID > youngest.ID {
				youngest = r
			}
			e.Cycle = append(e.Cycle, Wait{r.ID, r.Owner, r.Name, r.lock.holder.Owner})
		}
		m.giveUp(youngest, e)
	}
}

// findCycle returns requests that each wait for a lock which the owner of the
// next one holds, beginning and ending with one owner; or nil.
func (m *Machine) findCycle(start uint64) []*Request {
	var path []*Request
	seen := map[uint64]bool{}
	var visit func(owner uint64) bool
	visit = func(owner uint64) bool {
		if seen[owner] {
			return false
		}
		seen[owner] = true
		w := m.owners[owner]
		if w == nil {
			return false
		}
		for _, r := range w.requests {
			h := r.lock.holder
			if h == nil || !h.Explicit {
				continue
			}
			path = append(path, r)
			if h.Owner == start || visit(h.Owner) {
				return true
			}
			path = path[:len(path)-1]
		}
		return false
	}
	if !visit(start) {
		return nil
	}
	return path
}
