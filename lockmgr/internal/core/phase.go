package core

import "time"

// phase is the state of an entry. See the diagram in doc.go.
type phase uint8

const (
	idle      phase = iota // nobody here wants it, and it is not known to be on the server
	asking                 // an acquire is in flight for the first waiter
	waiting                // others have the name: a wake-up or the poll comes next
	held                   // it has at least one hold
	passing                // it is ours and has no hold: a reply or a request comes next
	releasing              // it is to be removed: nobody here waits, or others go first
)

// become changes the phase of an entry. Only the functions below call become. Each function also
// makes the changes that belong to its phase.
func (m *Machine) become(e *entry, p phase) {
	was := e.phase
	e.phase = p
	if x := e.of.index(); x != nil {
		x.moved(e, was, p)
	}
	if (was == idle) != (p == idle) && e.of.othersIdle(e) {
		if p == idle {
			m.resting++
		} else {
			m.resting--
		}
	}
}

// becomeIdle: nobody here wants the entry, the entry is not known to be ours, and no script about
// the entry is in flight.
func (m *Machine) becomeIdle(e *entry) { m.become(e, idle) }

// becomeAsking: an acquire is about to be sent.
func (m *Machine) becomeAsking(e *entry) {
	m.become(e, asking)
	e.woken = false
}

// becomeWaiting: the entry is not ours. If no message comes, the next try is at the given instant.
func (m *Machine) becomeWaiting(e *entry, at time.Duration) {
	m.become(e, waiting)
	e.makeUpkeep().retry.at = at
}

// becomeHeld: a hold of the entry begins.
func (m *Machine) becomeHeld(e *entry, h *Hold) {
	m.become(e, held)
	e.add(h)
}

// becomePassing: the entry has no hold, and passOn decides what becomes of it. The entry is ours
// unless its number is zero.
func (m *Machine) becomePassing(e *entry) { m.become(e, passing) }

// becomeReleasing: the entry is to be removed from the server as soon as no script is in flight.
func (m *Machine) becomeReleasing(e *entry) {
	m.become(e, releasing)
	if g := e.of.details.gathering; g != nil && e.number != 0 && e.of.rules().parts(e) {
		g.lastHad = m.now
	}
	e.woken = false
	m.renewals.Remove(e)
	if e.of.hasDetails() {
		e.upkeep().unknown.goneBy = 0
	}
}
