package core

import "time"

// A Hold is what one owner has of a name in this process. The core writes a Hold. The shell may
// read a Hold while carrying out an effect that names the hold or a request of the hold.
type Hold struct {
	// Request is the first request that was granted the hold.
	Request *Request
	// Until is the instant until which the hold may be trusted.
	Until time.Duration
	// Token is the fencing token, or zero.
	Token int64
	// Number is the number that the hold was granted under. Redis may know the hold under a later
	// number of the entry: see entry.target. Only holds that share an entry can have the same
	// number.
	Number uint64

	count   int32 // grants that were not unlocked yet
	watched bool  // renewed by the watchdog
	unsure  bool  // an acquire of Number got no answer and may run late: see places

	// Permits is how many permits the hold has, for the kind Permits.
	Permits uint16
}

// next returns the next hold in the list of holds that share an entry, or nil. The list uses the
// links of granted requests, which are in no queue.
func (h *Hold) next() *Hold {
	if r := h.Request.next; r != nil {
		return &r.own
	}
	return nil
}

// holds calls yield for each hold of the entry. yield may remove the hold.
func (e *entry) holds(yield func(*Hold) bool) {
	for h := e.hold; h != nil; {
		next := h.next()
		if !yield(h) {
			return
		}
		h = next
	}
}

// add puts a hold at the head of the entry's list.
func (e *entry) add(h *Hold) {
	if e.hold != nil {
		h.Request.next, e.hold.Request.prev = e.hold.Request, h.Request
		first := e.hold.Request.Ends
		if e.hold.next() != nil {
			first = e.upkeep().firstEnd
		}
		u := e.makeUpkeep()
		u.firstEnd = min(first, h.Request.Ends)
		if u.readers == nil {
			u.readers = make(map[uint64]*Hold)
			e.hold.addTo(u.readers)
		}
		h.addTo(u.readers)
	}
	e.hold = h
}

// addTo adds a hold to the readers of an entry if the hold is Shared.
func (h *Hold) addTo(readers map[uint64]*Hold) {
	if r := h.Request; r.Side == Shared {
		readers[r.Owner()] = h
	}
}

// drop removes a hold from the entry's list.
func (e *entry) drop(h *Hold) {
	r := h.Request
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		e.hold = h.next()
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
	switch u := e.upkeep(); {
	case u.readers == nil:
	case e.hold == nil:
		u.readers = nil
	case u.readers[r.Owner()] == h:
		delete(u.readers, r.Owner())
	}
}

// aloneHold returns the hold with the side Alone, or nil. An entry with an Alone hold has at most
// one more hold, of the same owner. So aloneHold looks at the first two holds only.
func (e *entry) aloneHold() *Hold {
	for _, h := range e.firstTwo() {
		if h != nil && h.Request.Side == Alone {
			return h
		}
	}
	return nil
}

// firstTwo returns the first two holds of the entry, with nil for each missing hold.
func (e *entry) firstTwo() (holds [2]*Hold) {
	if holds[0] = e.hold; e.hold != nil {
		holds[1] = e.hold.next()
	}
	return holds
}

// owned returns up to two holds of an owner, with nil for each missing hold.
func (e *entry) owned(owner uint64) [2]*Hold {
	holds := e.firstTwo()
	if holds[1] != nil && e.aloneHold() == nil { // any number of readers
		return [2]*Hold{e.upkeep().readers[owner]}
	}
	for i, h := range holds {
		if h != nil && h.Request.Owner() != owner {
			holds[i] = nil
		}
	}
	return holds
}

// watched reports whether the watchdog renews the entry: at least one hold is watched.
func (e *entry) watched() bool {
	for h := range e.holds {
		if h.watched {
			return true
		}
	}
	return false
}

// end returns the deadline of a hold: the deadline of the entry, or the end of the fixed lease or
// of MaxHold, whichever is earlier.
func (h *Hold) end() time.Duration { return min(h.Request.entry.until, h.Request.Ends) }

// tellUntils tells the holders whose deadlines have moved.
func (m *Machine) tellUntils(e *entry) {
	for h := range e.holds {
		m.tellUntil(h)
	}
}

// tellUntil tells a holder if its deadline has moved.
func (m *Machine) tellUntil(h *Hold) {
	if until := h.end(); until != h.Until {
		h.Until = until
		m.emit(Extended{h})
	}
}
