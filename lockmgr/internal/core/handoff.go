package core

import "time"

// next finds a lock its next holder. The record is ours, as far as we know,
// and nobody holds it. answered is the operation just confirmed, or nil.
func (m *Machine) next(l *lock, answered *Op) {
	m.becomePassing(l)
	r := l.queue.head
	switch {
	case l.owner == 0: // the record is gone
		m.startOver(l)
		return
	case m.now >= l.until:
		m.abandon(l)
		if r != nil && l.flight == 0 && m.boundary(l) != goOn {
			// The answer says whether others wait: leases that run out one after
			// another must not keep the lock from them.
			l.more().giveBack = true
			m.release(l)
			return
		}
		m.startOver(l)
		return
	case r == nil:
		if m.keep(l) {
			return
		}
		m.release(l)
		return
	}
	passed := answered == nil || answered.Kind != KindAcquire
	if passed {
		turn := m.boundary(l)
		switch {
		case l.c.longer.set, turn == standBack:
			// The record of a long fixed lease must not outlive its holder: if
			// this process died, it would lock for the rest of that lease.
			l.c.giveBack = true
			m.release(l)
			return
		case turn == askFirst:
			m.unlocked(l, nil)
			m.transferFirst(l, r)
			return
		}
	}
	m.unlocked(l, nil)
	// The record may be that of an earlier request with a short lease.
	tooShort := (answered == nil || answered.Lease < m.leaseOf(r)) && l.until-m.now < m.cfg.usable(m.leaseOf(r))/3
	if tooShort || r.Fenced && !l.c.tokens.left() || l.c.doubt.open() {
		m.transferFirst(l, r)
		return
	}
	r.Passed = passed
	m.hold(l, r)
	m.tend(l)
}

// keep reports whether the record is kept although nobody here waits. A caller
// that takes the lock again and again needs a round trip for each grant, and a
// client that asks again at once is always there first. So once others have had
// much more than their share, the record stays ours for a moment after an
// unlock, until the caller comes back.
func (m *Machine) keep(l *lock) bool {
	c := l.c
	if !l.contended() || m.closing || l.flight != 0 || c.doubt.open() || c.longer.set || l.retried || c.retry.failing() ||
		c.turns.others == 0 || !c.turns.inCredit(m.now, l.since, &m.cfg) {
		return false
	}
	if l.unlocking != nil {
		c.keepUntil = m.now + m.cfg.BackTime/4
		m.unlocked(l, nil)
	}
	c.retry.at = c.keepUntil
	return m.now < c.keepUntil
}

// startOver asks for a lock whose record is not ours, or lets it rest.
func (m *Machine) startOver(l *lock) {
	switch {
	case l.flight != 0: // its answer leads here again
	case l.queue.head != nil:
		m.ask(l)
	default:
		m.leave(l)
	}
}

type boundary uint8

const (
	goOn      boundary = iota
	askFirst           // the run may go on if nobody else waits: find out
	standBack          // the run is over
)

// boundary returns whether a run may go on. It ends after PassCount grants or
// PassTime, unless a transfer has reported meanwhile that nobody else
// subscribes. Then it may be longer, because the transfers of a fast run report
// a new subscriber in time. A waiter need not subscribe: once in ShareEvery the
// lock is given back all the same.
func (m *Machine) boundary(l *lock) boundary {
	t := &l.more().turns
	if m.keptLong(l) {
		return standBack
	}
	if c := l.c; c.firstPass == 0 {
		c.firstPass = m.now
	}
	if t.count == 0 {
		return goOn
	}
	if t.count < m.runLimit(t) && m.now-t.start < m.cfg.PassTime || t.inCredit(m.now, l.since, &m.cfg) {
		return goOn
	}
	switch {
	case !m.cfg.TrustSubscribers || t.others > 0:
		return standBack
	case t.fresh: // nobody waited a moment ago
		t.newRun(m.now)
		return goOn
	default:
		return askFirst
	}
}

// keptLong reports whether the lock has been passed on here for so long that a
// process without a subscription must get a chance. How long the first holder had
// it does not count: it gave nobody a chance, here or elsewhere.
func (m *Machine) keptLong(l *lock) bool {
	first := l.c.firstPass
	return m.cfg.ShareEvery > 0 && first > 0 && m.now-first >= m.cfg.ShareEvery/4*3
}

// runLimit is the most grants of a run before it ends, or checks again for
// others.
func (m *Machine) runLimit(t *turns) int {
	if t.alone && m.cfg.TrustSubscribers {
		return 8 * m.cfg.PassCount
	}
	return m.cfg.PassCount
}

// leaving reports whether a release must go out although someone here waits.
func (m *Machine) leaving(l *lock) bool {
	return m.closing || l.c.giveBack
}

// transferFirst holds the lock back from its next holder until a transfer has
// been answered: too little of the lease is left, there is no token left,
// others may be waiting, or the record may be gone.
func (m *Machine) transferFirst(l *lock, r *Request) {
	if c := l.more(); l.flight != 0 || m.now < c.retry.at {
		return
	}
	if r.own.Number == 0 {
		r.own.Number = m.number()
	}
	m.transfer(l, r.own.Number, m.leaseOf(r), m.tokensFor(l, r))
}

// transferTo records the present holder.
func (m *Machine) transferTo(l *lock, h *Hold) {
	lease := m.cfg.Lease
	if !h.watched {
		lease = m.leaseOf(h.Request)
	}
	m.transfer(l, h.Number, lease, 0)
}

// transfer records a number of ours as the holder's, and renews the lease in
// passing.
func (m *Machine) transfer(l *lock, number uint64, lease time.Duration, tokens int64) {
	l.more().nextTransfer = m.now + m.cfg.RecordEvery
	m.send(l, KindTransfer, number, lease, tokens)
}

// transferred handles the answer to a transfer.
func (m *Machine) transferred(l *lock, r *Reply) {
	op := r.Op
	c := l.more()
	if r.Ran == Yes && !r.OK {
		m.gone(l)
		return
	}
	if r.Ran != Yes {
		m.transferFailed(l, r)
		return
	}
	c.retry.succeeded()
	if l.owner != 0 {
		l.owner = op.Owner
		m.trust(l, op.ID, op.Sent, op.Lease)
		if op.Tokens > 0 {
			c.tokens.got(r.Token, op.Tokens)
		}
	} else { // given up while this was under way
		c.unknown.add(suspect{owner: op.Owner, until: m.suspectUntil(), stray: true})
	}
	t := &c.turns
	t.others = m.othersOf(l, r.Subscribers)
	if t.alone = t.others == 0; t.alone {
		t.newRun(m.now)
	}
	t.fresh = true
	if l.phase == passing {
		m.next(l, op)
		return
	}
	m.proceed(l)
}

// transferFailed tries again later. It fails the requests that the error concerns.
func (m *Machine) transferFailed(l *lock, r *Reply) {
	c := l.c
	c.nextTransfer = m.failed(l, r.Err)
	if l.phase != held {
		m.failOnce(l, r.Err)
	}
	if l.phase == passing && r.Final { // do not wait for tokens or a subscriber count
		c.turns.others = max(c.turns.others, 1)
		for q := l.queue.head; q != nil; {
			next := q.next
			if q.Fenced && !l.c.tokens.left() {
				m.giveUp(q, r.Err)
			}
			q = next
		}
	}
	if l.flight == 0 {
		m.proceed(l)
	}
}

// trust moves the deadline of the record forward, never back: no script
// shortens the life of a record.
func (m *Machine) trust(l *lock, id uint64, sent, lease time.Duration) {
	l.sent = max(l.sent, sent)
	l.until = max(l.until, sent+m.cfg.usable(lease))
	m.extended(l)
	m.prolonged(l, id)
}

// mostOthers caps the reported count, which is not trusted.
const mostOthers = 1 << 20

// othersOf returns the number of other subscribers of a lock's channel. It is 1
// if the count is unknown.
func (m *Machine) othersOf(l *lock, subscribers int64) int64 {
	if subscribers < 0 || !m.cfg.TrustSubscribers {
		return 1
	}
	if l.sub == subOn {
		subscribers--
	}
	return max(0, min(subscribers, mostOthers))
}
