package core

import "time"

// ask sends a try for the first waiter, unless it is the turn of others. No
// script may be in flight.
func (m *Machine) ask(n *name) {
	if c := n.c; n.contended() {
		c.turns.pass(m.now, &m.cfg, n.phase != idle)
		if !c.turns.ready(m.now, &m.cfg) {
			m.subscribe(n)
			m.becomeWaiting(n, c.turns.wakeAt(m.now))
			m.failOnce(n, ErrNotAcquired) // the last of them lets the name rest
			return
		}
	}
	r := n.queue.head
	r.own.Number = 0 // one that it had before belongs to an earlier record
	m.unlocked(n, nil)
	m.becomeAsking(n)
	// Each try has a new number, so that only one command can create a record
	// of it: an earlier try leaves a record of another number.
	m.send(n, VerbAcquire, m.number(), m.leaseOf(r), m.tokensFor(n, r))
}

// leaseOf is the lease that a request's record gets when it is acquired or
// passed on. A fixed lease that is longer than the watchdog's is set by a
// renewal afterwards, when the record is known to be ours: an acquire that runs
// late must not leave a record for so long.
func (m *Machine) leaseOf(r *Request) time.Duration {
	if r.Lease == 0 {
		return m.cfg.Lease
	}
	return min(r.Lease, m.cfg.Lease)
}

// acquired handles the answer to a try.
func (m *Machine) acquired(n *name, r *Reply) {
	op := r.Op
	switch {
	case r.Ran != Yes:
		m.tryFailed(n, r)
	case !r.OK:
		m.othersHold(n, r)
	default:
		n.entry.number = op.Owner
		n.entry.since = m.now
		n.entry.sent, n.entry.until = op.Sent, op.Sent+m.cfg.usable(op.Lease)
		m.dropTokens(n) // those of an earlier record are too old
		if op.Tokens > 0 {
			n.more().tokens.got(r.Token, op.Tokens)
		}
		if m.now >= n.entry.until {
			m.tooLate(n, op.Lease)
			return
		}
		if c := n.c; n.contended() {
			c.retry.succeeded()
			c.longer.set = c.longer.set && len(op.Others) > 0 // it may be the record that we had
			c.turns.acquired(m.now, &m.cfg)
			c.nextTransfer, c.spacing, c.retry.at = m.now, 0, m.now
			c.firstPass = 0
		}
		m.next(n, op)
	}
}

// lateGrants is how many grants in a row may come too late for a request. One
// may be an accident; more mean that its lease is too short for this server.
const lateGrants = 3

// tooLate handles a grant that came after its deadline. It does not count against
// requests with a longer lease.
func (m *Machine) tooLate(n *name, lease time.Duration) {
	m.stats.Fails++
	m.abandon(n)
	for r := n.queue.head; r != nil; {
		next := r.next
		if m.leaseOf(r) <= lease {
			if r.late++; r.Once || r.late >= lateGrants {
				m.giveUp(r, ErrTooLate)
			}
		}
		r = next
	}
	if n.queue.head == nil {
		m.leave(n)
		return
	}
	m.becomeWaiting(n, m.now+m.pause(1))
}

// tryFailed handles a try that did not run, or may not have. A final error of a
// try with tokens may be due to the token counter, which plain requests don't
// need.
func (m *Machine) tryFailed(n *name, r *Reply) {
	m.failed(n, r.Err)
	tokens := r.Op.Tokens > 0
	for q := n.queue.head; q != nil; {
		next := q.next
		concerned := q.Fenced || !tokens || !r.Final
		if concerned && (r.Final || q.Once || m.overdue(n, q)) {
			m.giveUp(q, r.Err)
		}
		q = next
	}
	if r.Final {
		n.c.retry.succeeded() // those that are left have not met a failure yet
	}
	if n.queue.head != nil {
		m.becomeWaiting(n, n.c.retry.at)
		return
	}
	m.leave(n)
}

// othersHold handles the answer that another manager holds the lock.
func (m *Machine) othersHold(n *name, r *Reply) {
	c := n.more()
	c.retry.succeeded()
	t := &c.turns
	t.refused(m.now, &m.cfg, n.woken)
	n.entry.number = 0
	ttl := r.TTL
	if r.Elsewhere && (ttl <= 0 || ttl > m.cfg.PollBlind) {
		ttl = m.cfg.PollBlind
	}
	poll := m.now + m.poll(n, ttl)
	t.tryAt = min(t.tryAt, poll) // whatever is heard, its record expires
	m.failOnce(n, ErrNotAcquired)
	m.notice(Notice{What: Refused, Name: n.name, TTL: r.TTL})
	switch {
	case n.queue.head == nil:
		m.leave(n)
	case n.woken && t.ready(m.now, &m.cfg), t.press(&m.cfg):
		// The message and this refusal came over different connections: the lock
		// may have been released after the refusal.
		m.ask(n)
	default:
		m.subscribe(n)
		if t.back {
			poll = t.wakeAt(m.now)
		}
		m.becomeWaiting(n, poll)
	}
}
