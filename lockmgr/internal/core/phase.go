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
func (m *Machine) become(l *lock, p phase) {
	switch {
	case p == idle && l.phase != idle:
		m.resting++
	case p != idle && l.phase == idle:
		m.resting--
	}
	l.phase = p
}

// becomeIdle: nobody here wants the lock, the record is not ours, no script is in
// flight.
func (m *Machine) becomeIdle(l *lock) { m.become(l, idle) }

// becomeAsking: an acquire is about to be sent.
func (m *Machine) becomeAsking(l *lock) {
	m.become(l, asking)
	l.woken = false
}

// becomeWaiting: the record is not ours. Without a message we try at an instant.
func (m *Machine) becomeWaiting(l *lock, at time.Duration) {
	m.become(l, waiting)
	l.more().retry.at = at
}

// becomeHeld: a hold begins.
func (m *Machine) becomeHeld(l *lock, h *Hold) {
	m.become(l, held)
	l.hold = h
}

// becomePassing: the record is ours, and nobody holds it any more, or yet.
func (m *Machine) becomePassing(l *lock) { m.become(l, passing) }

// becomeReleasing: the record is to be removed, as soon as no script is in flight.
func (m *Machine) becomeReleasing(l *lock) {
	m.become(l, releasing)
	l.retried = false
	m.renewals.Remove(l)
	if l.contended() {
		l.c.unknown.goneBy = 0
	}
}

// Phase returns the phase of a name: idle, asking, waiting, held, passing or
// releasing. A name that the machine does not know is idle.
func (m *Machine) Phase(name string) string {
	if l := m.locks[name]; l != nil {
		return l.phase.String()
	}
	return idle.String()
}
