package core

import "time"

// settle must follow every change of a name. settle does what is due for each entry of the name,
// then for the name.
func (m *Machine) settle(n *name) {
	again := Forever
	for e := range n.entries {
		again = min(again, m.advance(e))
	}
	m.settleName(n, again)
}

// settleEntry is settle after a change that concerns one entry of a name, and no other held
// entry. A name may have many held entries.
func (m *Machine) settleEntry(e *entry) {
	n := e.of
	if n.index() == nil {
		m.settle(n)
		return
	}
	again := m.advance(e)
	for other := range n.toLookAt {
		if other != e {
			again = min(again, m.advance(other))
		}
	}
	m.settleName(n, again)
}

// settleName does what is due for a name and for no entry in particular. settleName sets the name's
// alarm, for again at the latest. If the name has no state left, settleName forgets the name.
func (m *Machine) settleName(n *name, again time.Duration) {
	if n.index() != nil {
		again = min(again, m.settleIndexed(n))
	}
	if n.hasDetails() && n.idle() && (m.now >= n.details.restUntil || m.closing) {
		m.restName(n)
	}
	switch {
	case n.hasDetails() && n.idle():
		again = min(again, n.details.restUntil)
	case n.idle():
		m.forget(n)
		return
	}
	if again != Forever {
		m.alarms.atLatest(n, again)
	}
}

// settleIndexed is the part of settleName for a name with an index. If requests wait, settleIndexed
// asks for further entries. settleIndexed returns when to call it again.
func (m *Machine) settleIndexed(n *name) (again time.Duration) {
	again = m.leaveLine(n)
	for !m.closing && n.queue.head != nil && !n.enoughAsk(nil) {
		e := n.spare()
		if e == nil {
			break
		}
		m.ask(e)
		again = min(again, m.advance(e))
	}
	if x := n.index(); !n.hasRoom() && len(x.moving)+len(x.idle) == 0 { // all entries are held
		m.failImpatient(n, ErrNotAcquired) // such a request does not wait for an unlock
	}
	return again
}

// advance does what is due for an entry, and returns when to call it again if nothing happens
// before.
func (m *Machine) advance(e *entry) (again time.Duration) {
	for again = m.dueAt(e); m.now >= again; again = m.dueAt(e) {
		m.phaseOver(e)
	}
	if e.phase == held {
		again = min(m.admit(e), m.lookBehind(e), m.extendIfDue(e), m.sendDue(e), e.holdUntil()) // these act, in order
	}
	return again
}

// dueAt returns the instant at which the phase of an entry is over if nothing happens before.
func (m *Machine) dueAt(e *entry) time.Duration {
	if e.flight != 0 && e.phase != held {
		if e.phase == passing && e.number != 0 {
			return e.until // then the entry is given up without the answer: see recordExpired
		}
		return Forever // the answer comes next
	}
	switch e.phase {
	case held:
		return e.holdUntil()
	case passing:
		return min(e.until, e.upkeep().retry.at)
	case waiting:
		return m.tryAt(e)
	case releasing:
		return e.upkeep().retry.at
	}
	return Forever
}

// phaseOver handles an entry whose phase is over: see dueAt.
func (m *Machine) phaseOver(e *entry) {
	switch e.phase {
	case held:
		m.expire(e)
	case passing:
		m.passOn(e, nil)
	case waiting:
		m.waitOver(e)
	case releasing:
		m.sendRelease(e)
	}
}
