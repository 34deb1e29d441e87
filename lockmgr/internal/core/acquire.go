package core

import (
	"fmt"
	"time"
)

// ask sends an acquire for the first waiter, unless others go first. No script about the entry may
// be in flight. Requests that try once do not wait for clients of whom nobody knows: their error
// would say that others have the lock.
func (m *Machine) ask(e *entry) {
	n := e.of
	m.advanceOutsiders(n)
	if o := n.outsiders(); o != nil && m.now < o.until && !(o.blind && n.triesNext()) {
		m.subscribe(n)
		m.becomeWaiting(e, o.nextLook(&m.cfg))
		n.details.special.hear(m, n)
		m.failImpatient(n, ErrNotAcquired) // if nobody waits then, the entry rests
		return
	}
	r := n.queue.head
	m.becomeAsking(e)
	e.setPermits(r)
	m.send(e, VerbAcquire, r.Side, m.tryNumber(r), m.leaseOf(r), tokensFor(r))
}

// waitOrAsk serves the first waiter. A grant that has come is taken. If the position of the manager
// stands, the entry waits for a grant. Otherwise an acquire is sent. Somebody must wait, and no
// script about the entry may be in flight.
func (m *Machine) waitOrAsk(e *entry) {
	n := e.of
	p := n.position()
	switch {
	case m.takeGrant(e):
	case p != nil && p.mayWait(n, m.now):
		m.becomeWaiting(e, p.standsUntil)
	default:
		m.ask(e)
	}
}

// tryNumber returns the number of a request's next try. Each try has a new number, so only one
// command can create a record with the number. The number of a place stays.
func (m *Machine) tryNumber(r *Request) uint64 {
	switch {
	case r.entry.of.places() == nil:
		r.own.Number = 0
		return m.newNumber()
	case r.own.Number == 0:
		r.own.Number = m.newNumber()
	}
	return r.own.Number
}

// acquired handles the answer to a try.
func (m *Machine) acquired(e *entry, r *Reply) {
	n := e.of
	op := r.Op
	if r.Ran != Yes {
		m.tryFailed(e, r)
		return
	}
	// An Unlock is still open if its release or transfer had no answer, and this try was sent
	// instead of a repetition. The try has named the number of the unlocked hold, so the record of
	// that hold is gone.
	m.answerUnlock(e, nil)
	if !r.OK {
		m.othersHold(e, r)
		return
	}
	e.number, e.side, e.mayBeShared = op.Number, op.Side, op.Side == Shared
	e.runSince = m.now
	e.sent, e.until = op.Sent, op.Sent+m.cfg.usable(op.Lease)
	if op.Tokens > 0 {
		e.makeUpkeep().tokens.got(r.Token, op.Tokens)
		e.upkeep().tokens.each = r.Tokens
	}
	m.gatherAcquired(e)
	n.details.special.acquired(n)
	if m.now >= e.until {
		m.tooLate(e, op.Lease)
		return
	}
	if u := e.upkeep(); n.hasDetails() {
		u.retry = retry{at: m.now}
		u.life = life{until: later(m.now, op.Lease)}
		u.tenure = tenure{nextTransfer: m.now, trip: m.now - op.Sent}
	}
	m.passOn(e, op)
}

// takeGrant gives an entry to the first waiter if a message has granted the lock to this manager,
// and reports whether it does. takeGrant drops a grant that is only a hint: see grants. No script
// about the entry may be in flight.
func (m *Machine) takeGrant(e *entry) bool {
	n := e.of
	grants := n.details.grants
	if grants == nil || grants.newest.Number == 0 {
		return false
	}
	g := grants.newest
	grants.newest = Grant{}
	since := later(g.Sent, g.Elapsed-g.Elapsed/100)
	if !n.details.special.take(n, g.Number) || grants.isHint(g, since, m.now, &m.cfg) {
		return false
	}
	lease := m.leaseOf(n.queue.head)
	op := &Op{Verb: VerbAcquire, Side: n.queue.head.Side, Number: g.Number, Sent: since, Lease: g.Lease, byMessage: true}
	if g.Token > 0 {
		op.Tokens = 1
	}
	m.acquired(e, &Reply{Op: op, Ran: Yes, OK: true, Token: g.Token})
	if e.phase == held && lease > g.Lease {
		x := &e.upkeep().extend
		x.later, x.laterAt = max(x.later, lease), since+g.Lease/8
	}
	return true
}

// lateGrants is the number of late grants after which a request fails. A single late grant may be
// an accident. More late grants mean that the lease is too short for the server.
const lateGrants = 3

// tooLate handles a grant that came after its deadline. The grant counts only against requests
// whose lease is no longer than the granted lease.
func (m *Machine) tooLate(e *entry, lease time.Duration) {
	n := e.of
	m.stats.Fails++
	m.distrust(e)
	for r := range n.queue.all {
		if m.leaseOf(r) <= lease {
			if r.late++; r.Once || r.late >= lateGrants {
				m.failQueued(r, ErrTooLate)
			}
		}
	}
	if n.queue.head == nil {
		m.releaseOrRest(e)
		return
	}
	m.becomeWaiting(e, m.now+m.pause(1))
}

// tryFailed handles a try that did not run, or may not have.
func (m *Machine) tryFailed(e *entry, r *Reply) {
	n := e.of
	m.failed(e, r.Err)
	m.failWith(e, r)
	if r.Final {
		e.upkeep().retry.succeeded() // the error does not concern the requests that are left
	}
	if n.queue.head != nil {
		m.becomeWaiting(e, e.upkeep().retry.at)
		return
	}
	m.releaseOrRest(e)
}

// othersHold handles the answer that another manager has the name, as the same kind of lock or as
// another.
func (m *Machine) othersHold(e *entry, r *Reply) {
	n := e.of
	u := e.makeUpkeep()
	u.retry.succeeded()
	if len(m.sets) > 0 {
		m.othersFirst(e, r)
	}
	n.details.special.refused(m, e, r)
	m.gatherRefused(e, r)
	e.number = 0
	poll := m.now + m.poll(n, r.TTL)
	if r.OtherKind {
		for n.queue.head != nil {
			m.failQueued(n.queue.head, n.about(ErrKind))
		}
	}
	if r.Limit > 0 {
		m.failAbove(n, r)
	} else {
		m.failImpatient(n, n.about(ErrNotAcquired))
	}
	m.noticeOf(n, Notice{What: Refused, TTL: r.TTL})
	switch {
	case n.queue.head == nil, n.enoughAsk(e):
		m.releaseOrRest(e)
	case r.Limit > 0: // the first one that is left has not been refused
		m.ask(e)
	case m.takeGrant(e):
	case e.woken, n.queue.head.easier(r.Op.Side, r.Op.Permits, r.Op.TakeOver):
		// A message came while the try was in flight. The message came over another connection, so
		// the lock may have been released after the refusal. Or the refused request has left the
		// queue, and the next one may be granted.
		m.ask(e)
	case n.index() == nil && n.outsiders().takeRepeat(m.now, &m.cfg):
		m.ask(e)
	default:
		m.subscribe(n)
		m.becomeWaiting(e, poll)
		n.details.special.hear(m, n)
	}
}

// failAbove fails the waiting requests for more permits than there are, by an answer. A request
// that came after the acquire was sent does not fail: the limit may have been raised since.
func (m *Machine) failAbove(n *name, answer *Reply) {
	for r := range n.queue.all {
		if int64(r.own.Permits) > answer.Limit && r.Asked <= answer.Op.Sent {
			m.failQueued(r, fmt.Errorf("%w: %d of %d", ErrLimit, r.own.Permits, answer.Limit))
		}
	}
}
