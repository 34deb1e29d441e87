package core

import "time"

// verify looks at once whether the record of a held lock is still there. Doing
// so renews it.
func (m *Machine) verify(name string) {
	if l := m.locks[name]; l != nil && (l.phase == held || l.phase == passing) {
		m.doubt(l)
		m.settle(l)
	}
}

// doubt notes that the record may be gone: a message that is not of our own
// release came while it was ours. A script is sent at once to find out. Until
// one finds the record, the lock is not passed on in memory.
func (m *Machine) doubt(l *lock) {
	c := l.more()
	c.doubt.raise(m.lastID)
	if l.phase != held {
		return // the next holder waits for a transfer
	}
	m.extendSoon(l, m.verifyLease(l))
	c.nextTransfer = min(c.nextTransfer, m.now) // which looks as well
	m.tend(l)
}

// verifyLease is the lease of a renewal that only looks for the record: it must
// not make the record of a fixed lease outlive that lease.
func (m *Machine) verifyLease(l *lock) time.Duration {
	if l.hold.watched {
		return m.cfg.Lease
	}
	left := min(l.hold.limit-m.now, m.cfg.Lease)
	return max(left.Truncate(time.Millisecond), time.Millisecond)
}

// confirm ends the doubt about a record when a script has found it.
func (m *Machine) confirm(l *lock, id uint64) {
	if l.contended() {
		l.c.doubt.found(id)
	}
}

// prolong handles a holder that wants to keep its lock for longer.
func (m *Machine) prolong(p *Prolongation) {
	r := p.Request
	l := r.lock
	if r.state != reqGranted || l.phase != held || l.hold != r.Hold {
		m.emit(Prolonged{p, ErrLeaseLost})
		return
	}
	if m.now >= l.holdUntil() {
		m.emit(Prolonged{p, m.expire(l)})
		m.settle(l)
		return
	}
	if h := r.Hold; !h.watched {
		h.limit = max(h.limit, m.now+m.cfg.usable(p.Lease)) // l.until still bounds the hold
	}
	p.until, p.after = m.now+m.cfg.usable(p.Lease), m.lastID
	c := l.more()
	c.longer.asked = append(c.longer.asked, p)
	m.extendSoon(l, p.Lease)
	m.tend(l)
	m.settle(l)
}

// prolonged answers the prolongations that a confirmed script, sent after they
// were asked for, has fulfilled.
func (m *Machine) prolonged(l *lock, id uint64) {
	c := l.c
	if len(c.longer.asked) == 0 {
		return
	}
	rest := c.longer.asked[:0]
	for _, p := range c.longer.asked {
		if p.until <= l.until && p.after < id {
			m.emit(Prolonged{p, nil})
		} else {
			rest = append(rest, p)
		}
	}
	clear(c.longer.asked[len(rest):])
	c.longer.asked = rest
}

// answerProlongations fails all prolongations.
func (m *Machine) answerProlongations(l *lock, err error) {
	for _, p := range l.c.longer.asked {
		m.emit(Prolonged{p, err})
	}
	l.c.longer.asked = nil
}
