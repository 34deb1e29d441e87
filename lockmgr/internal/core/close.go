package core

// close refuses new requests, fails the requests that wait, ends all holds and releases their
// entries.
func (m *Machine) close() {
	if m.closing {
		return
	}
	m.closing = true
	m.closedAt = m.now
	for i := range m.shards {
		h := &m.shards[i]
		h.checkAt = m.closeDue(h)
	}
	for _, n := range m.everyName() {
		for n.queue.head != nil {
			m.failQueued(n.queue.head, ErrClosed)
		}
		for e := range n.entries {
			switch e.phase {
			case held:
				m.failUpgrade(e, ErrClosed)
				m.loseAll(e, ErrClosed)
				m.release(e)
			case idle:
				m.releaseOrRest(e)
			}
		}
		m.settle(n)
	}
}

// abort closes without waiting for the answers to releases. Records that are left expire. err is
// why, or nil.
func (m *Machine) abort(err error) {
	m.close()
	for _, n := range m.everyName() {
		for e := range n.entries {
			if e.mayHaveHold() || e.flight != 0 && e.flightVerb == VerbAcquire {
				m.noteUnreleased(n, err)
			}
			m.answerUnlock(e, ErrClosed)
		}
		m.unsubscribe(n)
		m.forget(n)
	}
}
