package core

import "time"

// request handles a new request.
func (m *Machine) request(r *Request) {
	if m.closing {
		m.fail(r, ErrClosed)
		return
	}
	l := m.lookup(r.Name)
	if l == nil {
		m.fail(r, ErrOverloaded)
		return
	}
	r.lock = l
	defer m.settle(l)
	if l.phase == held && m.now >= l.holdUntil() {
		m.expire(l) // before its alarm came
	}
	if l.phase == held && r.Explicit && l.hold.Request.Owner == r.Owner {
		m.reenter(l, r)
		return
	}
	if r.Once && m.occupied(l) {
		m.fail(r, m.whyOccupied(l))
		return
	}
	l.queue.push(r)
	r.state = reqQueued
	r.asked = m.now
	if m.health.failing {
		m.health.tellAt = min(m.health.tellAt, m.tellDue(m.now))
	}
	m.stats.Waiting++
	if r.GiveUp != Forever {
		m.giveUps.set(r, r.GiveUp)
	}
	if r.Explicit {
		m.waits.add(r)
		m.breakDeadlock(r, l)
	}
	switch {
	case l.flight != 0:
	case l.phase == waiting && m.health.failing:
		m.trySoon(l)
	case l.queue.head != r:
	case l.phase == idle:
		m.ask(l)
	case l.phase == passing: // the record was kept
		m.next(l, nil)
	case l.phase == releasing && r.Once: // it does not wait for a failed release
		m.proceed(l)
	}
}

// occupied reports whether a request would have to wait.
func (m *Machine) occupied(l *lock) bool {
	switch l.phase {
	case idle:
		return l.contended() && !l.c.turns.ready(m.now, &m.cfg)
	case releasing:
		return l.queue.head != nil
	case passing:
		return l.queue.head != nil || l.flight != 0
	}
	return true
}

// whyOccupied is what a request is told that will not wait. That another has the
// lock is known only of a holder here, or of a server that answers.
func (m *Machine) whyOccupied(l *lock) error {
	if l.phase != held && m.health.failing {
		return m.health.err
	}
	return ErrNotAcquired
}

// ask sends a try for the first waiter, unless it is the turn of others. No
// script may be in flight.
func (m *Machine) ask(l *lock) {
	if c := l.c; l.contended() {
		c.turns.pass(m.now, &m.cfg, l.phase != idle)
		if !c.turns.ready(m.now, &m.cfg) {
			m.subscribe(l)
			m.becomeWaiting(l, c.turns.wakeAt(m.now))
			m.failOnce(l, ErrNotAcquired) // the last of them lets the name rest
			return
		}
	}
	r := l.queue.head
	r.own.Number = 0 // one that it had before belongs to an earlier record
	m.unlocked(l, nil)
	m.becomeAsking(l)
	// Each try has a new number, so that only one command can create a record
	// of it: an earlier try leaves a record of another number.
	m.send(l, KindAcquire, m.number(), m.leaseOf(r), m.tokensFor(l, r))
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
func (m *Machine) acquired(l *lock, r *Reply) {
	op := r.Op
	switch {
	case r.Ran != Yes:
		m.tryFailed(l, r)
	case !r.OK:
		m.othersHold(l, r)
	default:
		l.owner = op.Owner
		l.since = m.now
		l.sent, l.until = op.Sent, op.Sent+m.cfg.usable(op.Lease)
		m.dropTokens(l) // those of an earlier record are too old
		if op.Tokens > 0 {
			l.more().tokens.got(r.Token, op.Tokens)
		}
		if m.now >= l.until {
			m.tooLate(l, op.Lease)
			return
		}
		if c := l.c; l.contended() {
			c.retry.succeeded()
			c.longer.set = c.longer.set && len(op.Others) > 0 // it may be the record that we had
			c.turns.acquired(m.now, &m.cfg)
			c.nextTransfer, c.retry.at = m.now, m.now
			c.firstPass = 0
		}
		m.next(l, op)
	}
}

// lateGrants is how many grants in a row may come too late for a request. One
// may be an accident; more mean that its lease is too short for this server.
const lateGrants = 3

// tooLate handles a grant that came after its deadline. It does not count against
// requests with a longer lease.
func (m *Machine) tooLate(l *lock, lease time.Duration) {
	m.stats.Fails++
	m.abandon(l)
	for r := l.queue.head; r != nil; {
		next := r.next
		if m.leaseOf(r) <= lease {
			if r.late++; r.Once || r.late >= lateGrants {
				m.giveUp(r, ErrTooLate)
			}
		}
		r = next
	}
	if l.queue.head == nil {
		m.leave(l)
		return
	}
	m.becomeWaiting(l, m.now+m.pause(1))
}

// tryFailed handles a try that did not run, or may not have. A final error of a
// try with tokens may be due to the token counter, which plain requests don't
// need.
func (m *Machine) tryFailed(l *lock, r *Reply) {
	m.failed(l, r.Err)
	tokens := r.Op.Tokens > 0
	for q := l.queue.head; q != nil; {
		next := q.next
		concerned := q.Fenced || !tokens || !r.Final
		if concerned && (r.Final || q.Once || m.overdue(l, q)) {
			m.giveUp(q, r.Err)
		}
		q = next
	}
	if r.Final {
		l.c.retry.succeeded() // those that are left have not met a failure yet
	}
	if l.queue.head != nil {
		m.becomeWaiting(l, l.c.retry.at)
		return
	}
	m.leave(l)
}

// overdue reports whether a request has met failures of its lock for RetryTime.
func (m *Machine) overdue(l *lock, r *Request) bool {
	return m.now-max(l.c.retry.since, r.asked) >= m.cfg.RetryTime
}

// leave is called when nobody here wants the lock any more, no script is in
// flight and the record is not known to be ours. It removes a record that may
// have been left behind.
func (m *Machine) leave(l *lock) {
	if l.c.unknown.strays() > 0 {
		m.release(l)
		return
	}
	m.rest(l)
}

// othersHold handles the answer that another manager holds the lock.
func (m *Machine) othersHold(l *lock, r *Reply) {
	c := l.more()
	c.retry.succeeded()
	t := &c.turns
	t.refused(m.now, &m.cfg, l.woken)
	l.owner = 0
	ttl := r.TTL
	if r.Elsewhere && (ttl <= 0 || ttl > m.cfg.PollBlind) {
		ttl = m.cfg.PollBlind
	}
	poll := m.now + m.poll(l, ttl)
	t.tryAt = min(t.tryAt, poll) // whatever is heard, its record expires
	m.failOnce(l, ErrNotAcquired)
	m.notice(Notice{What: Refused, Name: l.name, TTL: r.TTL})
	switch {
	case l.queue.head == nil:
		m.leave(l)
	case l.woken && t.ready(m.now, &m.cfg), t.press(&m.cfg):
		// The message and this refusal came over different connections: the lock
		// may have been released after the refusal.
		m.ask(l)
	default:
		m.subscribe(l)
		if t.back {
			poll = t.wakeAt(m.now)
		}
		m.becomeWaiting(l, poll)
	}
}

// failOnce fails the requests that ask for one try.
func (m *Machine) failOnce(l *lock, err error) {
	for r := l.queue.head; r != nil; {
		next := r.next
		if r.Once {
			m.giveUp(r, err)
		}
		r = next
	}
}

// giveUp fails a queued request.
func (m *Machine) giveUp(r *Request, err error) {
	l := r.lock
	m.dequeue(l, r)
	m.fail(r, err)
	if l.queue.head == nil {
		switch {
		case l.phase == waiting && l.flight == 0:
			m.leave(l)
			m.settle(l)
		case l.phase == passing && l.flight == 0:
			m.next(l, nil) // the record was being kept for it
			m.settle(l)
		}
	}
}

func (m *Machine) dequeue(l *lock, r *Request) {
	l.queue.remove(r)
	m.giveUps.remove(r)
	m.stats.Waiting--
	if r.Explicit {
		m.waits.remove(r)
	}
}

func (m *Machine) fail(r *Request, err error) {
	r.state = reqDone
	m.emit(Failed{r, err})
}

// cancel handles a caller that left. A script in flight for it can't be
// recalled: if it gets the lock, that goes to the next in line or is released.
func (m *Machine) cancel(r *Request) {
	if r.state == reqQueued {
		m.giveUp(r, errCancel)
	}
}
