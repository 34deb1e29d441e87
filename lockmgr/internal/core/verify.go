package core

import "time"

// verify looks at once whether the record of a held lock is still there. Doing
// so renews it.
func (m *Machine) verify(name string) {
	if n := m.names[name]; n != nil && (n.phase == held || n.phase == passing) {
		m.doubt(n)
		m.settle(n)
	}
}

// doubt notes that the record may be gone: a message that is not of our own
// release came while it was ours. A script is sent at once to find out. Until
// one finds the record, the lock is not passed on in memory.
func (m *Machine) doubt(n *name) {
	c := n.more()
	c.doubt.raise(m.lastID)
	if n.phase != held {
		return // the next holder waits for a transfer
	}
	m.extendSoon(n, m.verifyLease(n))
	c.nextTransfer = min(c.nextTransfer, m.now) // which looks as well
	m.tend(n)
}

// verifyLease is the lease of a renewal that only looks for the record: it must
// not make the record of a fixed lease outlive that lease.
func (m *Machine) verifyLease(n *name) time.Duration {
	if n.hold.watched {
		return m.cfg.Lease
	}
	left := min(n.hold.limit-m.now, m.cfg.Lease)
	return max(left.Truncate(time.Millisecond), time.Millisecond)
}

// confirm ends the doubt about a record when a script has found it.
func (m *Machine) confirm(n *name, id uint64) {
	if n.contended() {
		n.c.doubt.found(id)
	}
}
