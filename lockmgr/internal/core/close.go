package core

// close refuses new requests, fails those that wait and releases held locks.
func (m *Machine) close() {
	if m.closing {
		return
	}
	m.closing = true
	m.closedAt = m.now
	m.health.tellAt = m.tellDue(m.now)
	for _, n := range m.everyName() {
		for n.queue.head != nil {
			m.giveUp(n.queue.head, ErrClosed)
		}
		switch n.phase {
		case held:
			m.loseHold(n, ErrClosed)
			m.release(n)
		case idle:
			m.leave(n)
		}
		m.settle(n)
	}
}

// abort closes without waiting for the answers to releases. Records that are
// still there expire.
func (m *Machine) abort() {
	m.close()
	for _, n := range m.everyName() {
		if n.entry.number != 0 || n.c.unknown.strays() > 0 || n.flight != 0 && n.flightVerb == VerbAcquire {
			m.stats.Unreleased++
			m.unreleased = m.health.err
		}
		m.unlocked(n, ErrClosed)
		if n.sub != subNone {
			m.unsubscribe(n)
		}
		m.forget(n)
	}
}
