package core

import "time"

// next finds a lock its next holder. The record is ours, as far as we know,
// and nobody holds it. answered is the operation just confirmed, or nil.
func (m *Machine) next(n *name, answered *Op) {
	m.becomePassing(n)
	r := n.queue.head
	switch {
	case n.entry.number == 0: // the record is gone
		m.startOver(n)
		return
	case m.now >= n.entry.until:
		m.abandon(n)
		if r != nil && n.flight == 0 && m.boundary(n) != goOn {
			// The answer says whether others wait: leases that run out one after
			// another must not keep the lock from them.
			n.more().giveBack = true
			m.release(n)
			return
		}
		m.startOver(n)
		return
	case r == nil:
		if m.keep(n) {
			return
		}
		m.release(n)
		return
	}
	passed := answered == nil || answered.Verb != VerbAcquire
	if passed {
		turn := m.boundary(n)
		switch {
		case n.c.longer.set, turn == standBack:
			// The record of a long fixed lease must not outlive its holder: if
			// this process died, it would lock for the rest of that lease.
			n.c.giveBack = true
			m.release(n)
			return
		case turn == askFirst:
			m.unlocked(n, nil)
			m.transferFirst(n, r)
			return
		}
	}
	m.unlocked(n, nil)
	// The record may be that of an earlier request with a short lease.
	tooShort := (answered == nil || answered.Lease < m.leaseOf(r)) && n.entry.until-m.now < m.cfg.usable(m.leaseOf(r))/3
	if tooShort || r.Fenced && !n.c.tokens.left() || n.c.doubt.open() {
		m.transferFirst(n, r)
		return
	}
	r.Passed = passed
	m.hold(n, r)
	m.tend(n)
}

// startOver asks for a lock whose record is not ours, or lets it rest.
func (m *Machine) startOver(n *name) {
	switch {
	case n.flight != 0: // its answer leads here again
	case n.queue.head != nil:
		m.ask(n)
	default:
		m.leave(n)
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
func (m *Machine) boundary(n *name) boundary {
	t := &n.more().turns
	if m.keptLong(n) {
		return standBack
	}
	if c := n.c; c.firstPass == 0 {
		c.firstPass = m.now
	}
	if t.count == 0 {
		return goOn
	}
	if t.count < m.runLimit(t) && m.now-t.start < m.cfg.PassTime || t.inCredit(m.now, n.entry.since, &m.cfg) {
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
func (m *Machine) keptLong(n *name) bool {
	first := n.c.firstPass
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
func (m *Machine) leaving(n *name) bool {
	return m.closing || n.c.giveBack
}

// mostSpacing is the longest time between two transfers of a lock that moves fast,
// in Config.RecordEvery. It grows to that while nobody else waits, or to a quarter of
// PassTime if that is less: a run that goes on must not have to ask. A process that
// begins to wait is noticed that much later, and a record that an administrator
// reads may name a holder that is that long gone.
const mostSpacing = 16

// transferFirst holds the lock back from its next holder until a transfer has
// been answered: too little of the lease is left, there is no token left,
// others may be waiting, or the record may be gone.
func (m *Machine) transferFirst(n *name, r *Request) {
	if c := n.more(); n.flight != 0 || m.now < c.retry.at {
		return
	}
	if r.own.Number == 0 {
		r.own.Number = m.number()
	}
	m.transfer(n, r.own.Number, m.leaseOf(r), m.tokensFor(n, r))
}

// transferTo records the present holder.
func (m *Machine) transferTo(n *name, h *Hold) {
	lease := m.cfg.Lease
	if !h.watched {
		lease = m.leaseOf(h.Request)
	}
	m.transfer(n, h.Number, lease, 0)
}

// transfer records a number of ours as the holder's, and renews the lease in
// passing.
func (m *Machine) transfer(n *name, number uint64, lease time.Duration, tokens int64) {
	c := n.more()
	c.nextTransfer = m.now + max(m.cfg.RecordEvery, c.spacing)
	m.send(n, VerbTransfer, number, lease, tokens)
}

// transferred handles the answer to a transfer.
func (m *Machine) transferred(n *name, r *Reply) {
	op := r.Op
	c := n.more()
	if r.Ran == Yes && !r.OK {
		m.gone(n)
		return
	}
	if r.Ran != Yes {
		m.transferFailed(n, r)
		return
	}
	c.retry.succeeded()
	if n.entry.number != 0 {
		n.entry.number = op.Owner
		m.trust(n, op.ID, op.Sent, op.Lease)
		if op.Tokens > 0 {
			c.tokens.got(r.Token, op.Tokens)
		}
	} else { // given up while this was under way
		c.unknown.add(suspect{owner: op.Owner, until: m.suspectUntil(), stray: true})
	}
	t := &c.turns
	t.others = m.othersOf(n, r.Subscribers)
	if t.alone = t.others == 0; t.alone {
		t.newRun(m.now)
		c.spacing = min(2*max(c.spacing, m.cfg.RecordEvery), mostSpacing*m.cfg.RecordEvery, max(m.cfg.RecordEvery, m.cfg.PassTime/4))
	} else {
		c.spacing, c.nextTransfer = 0, min(c.nextTransfer, m.now+m.cfg.RecordEvery)
	}
	t.fresh = true
	if n.phase == passing {
		m.next(n, op)
		return
	}
	m.proceed(n)
}

// transferFailed tries again later. It fails the requests that the error concerns.
func (m *Machine) transferFailed(n *name, r *Reply) {
	c := n.c
	c.nextTransfer = m.failed(n, r.Err)
	if n.phase != held {
		m.failOnce(n, r.Err)
	}
	if n.phase == passing && r.Final { // do not wait for tokens or a subscriber count
		c.turns.others = max(c.turns.others, 1)
		for q := n.queue.head; q != nil; {
			next := q.next
			if q.Fenced && !n.c.tokens.left() {
				m.giveUp(q, r.Err)
			}
			q = next
		}
	}
	if n.flight == 0 {
		m.proceed(n)
	}
}
