package core

import "time"

// phase is the state of a lock in this manager. See the diagram in doc.go.
type phase uint8

const (
	idle      phase = iota // nobody here wants it and the record is not ours
	asking                 // an acquire is in flight for the first waiter
	waiting                // others hold it: a wake-up or the poll comes next
	held                   // a local owner holds it
	passing                // the record is ours, the next holder waits for a reply
	releasing              // the record is to be removed: nobody here waits, or others go first
)

func (p phase) String() string {
	return [...]string{"idle", "asking", "waiting", "held", "passing", "releasing"}[p]
}

// become changes the phase of a lock. Only the functions below call it. Each makes
// the other changes that belong to its phase.
func (m *Machine) become(n *name, p phase) {
	switch {
	case p == idle && n.phase != idle:
		m.resting++
	case p != idle && n.phase == idle:
		m.resting--
	}
	n.phase = p
}

// becomeIdle: nobody here wants the lock, the record is not ours, no script is in
// flight.
func (m *Machine) becomeIdle(n *name) { m.become(n, idle) }

// becomeAsking: an acquire is about to be sent.
func (m *Machine) becomeAsking(n *name) {
	m.become(n, asking)
	n.woken = false
}

// becomeWaiting: the record is not ours. Without a message we try at an instant.
func (m *Machine) becomeWaiting(n *name, at time.Duration) {
	m.become(n, waiting)
	n.more().retry.at = at
}

// becomeHeld: a hold begins.
func (m *Machine) becomeHeld(n *name, h *Hold) {
	m.become(n, held)
	n.hold = h
}

// becomePassing: the record is ours, and nobody holds it any more, or yet.
func (m *Machine) becomePassing(n *name) { m.become(n, passing) }

// becomeReleasing: the record is to be removed, as soon as no script is in flight.
func (m *Machine) becomeReleasing(n *name) {
	m.become(n, releasing)
	n.retried = false
	m.renewals.Remove(&n.entry)
	if n.contended() {
		n.c.unknown.goneBy = 0
	}
}

// Phase returns the phase of a name: idle, asking, waiting, held, passing or
// releasing. A name that the machine does not know is idle.
func (m *Machine) Phase(name string) string {
	if n := m.names[name]; n != nil {
		return n.phase.String()
	}
	return idle.String()
}
