package core

import "time"

// request takes a new request in.
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
	if l.phase == held && r.Explicit && l.holder.Owner == r.Owner {
		m.reenter(l, r)
		return
	}
	if r.Once && m.occupied(l) {
		m.fail(r, ErrNotAcquired)
		return
	}
	l.queue.push(r)
	r.state = reqQueued
	m.stats.Waiting++
	if r.GiveUp != Forever {
		m.giveUps.set(r, r.GiveUp)
	}
	if r.Explicit {
		m.ownerWaits(r)
		m.breakDeadlock(r.Owner)
	}
	if l.phase == idle && l.flight == 0 && l.queue.head != nil {
		m.ask(l)
	}
}

// occupied tells a request that will not wait whether it would have to.
func (m *Machine) occupied(l *lock) bool {
	switch l.phase {
	case idle:
		return l.c != nil && m.now < l.c.backUntil
	case releasing:
		return l.queue.head != nil
	}
	return true
}

// ask sends a try for the first waiter. No script may be in flight.
func (m *Machine) ask(l *lock) {
	if c := l.c; c != nil && m.now < c.backUntil {
		l.phase = waiting
		c.retryAt = c.backUntil
		return
	}
	r := l.queue.head
	m.unlocked(l, nil)
	l.phase = asking
	l.woken = false
	m.send(l, KindAcquire, m.field(l, r), m.leaseOf(r), m.tokensFor(l, r))
}

// leaseOf is the lease that a request's record gets.
func (m *Machine) leaseOf(r *Request) time.Duration {
	if r.Lease == 0 || r.state == reqGranted && r.limit == Forever {
		return m.cfg.Lease
	}
	return r.Lease
}

// field is the number that Redis is to know a request by: its owner's,
// unless a command that removes this number may still be under way, which
// could then undo what this request does. A request that has queued for long
// may have been recorded, and given up again, under its first number.
func (m *Machine) field(l *lock, r *Request) uint64 {
	if r.Field == 0 {
		r.Field = r.Owner
		if r.Explicit && l.isDoomed(r.Owner) {
			r.Field = r.ID
		}
	}
	if r.state == reqQueued && l.isDoomed(r.Field) {
		m.lastID++
		r.Field = spare | m.lastID
	}
	return r.Field
}

// spare marks numbers that the core made up, so that they are nobody's ID.
const spare = 1 << 62

// tokensFor is how many tokens to take along for a request: one for it and
// one for each of those that may be granted after it in the same run.
func (m *Machine) tokensFor(l *lock, r *Request) int64 {
	if !r.Fenced {
		return 0
	}
	return int64(max(1, min(int(l.queue.n), m.cfg.PassCount)))
}

// acquired handles the answer to a try.
func (m *Machine) acquired(l *lock, r *Reply) {
	op := r.Op
	switch {
	case r.Ran != Yes:
		m.tryFailed(l, r.Err, r.Final)
	case !r.OK:
		m.refused(l, r.TTL)
	default:
		l.owner = op.Owner
		l.sent, l.until = op.Sent, op.Sent+m.cfg.usable(op.Lease)
		if m.now >= l.until {
			// Nobody may rely on it, and the next try might fare no better.
			m.stats.Fails++
			m.abandon(l)
			m.tryFailed(l, ErrTooLate, false)
			return
		}
		if c := l.c; c != nil {
			c.succeeded()
			c.alone, c.fresh = false, false // we don't know yet
			c.tookTurn()
			c.nextTransfer, c.retryAt = m.now, m.now
		}
		m.takeTokens(l, r)
		m.next(l, op)
	}
}

func (m *Machine) takeTokens(l *lock, r *Reply) {
	if r.Op.Tokens > 0 {
		c := l.more()
		c.nextToken, c.lastToken = r.Token-r.Op.Tokens+1, r.Token
	}
}

// tryFailed handles a try that brought no answer about the lock.
func (m *Machine) tryFailed(l *lock, err error, final bool) {
	m.failed(l, err)
	if m.now-l.c.failingSince >= m.cfg.RetryTime {
		final = true
	}
	for r := l.queue.head; r != nil; {
		next := r.next
		if final || r.Once {
			m.giveUp(r, err)
		}
		r = next
	}
	if l.queue.head != nil {
		l.phase = waiting
		return
	}
	l.c.succeeded()
	m.leave(l)
}

// leave is for a lock that nobody here wants any more, when no script is in
// flight and the record is not known to be ours. What may have been left
// behind is removed.
func (m *Machine) leave(l *lock) {
	if l.haunted() {
		m.release(l)
		return
	}
	m.rest(l)
}

// refused handles the answer that another manager holds the lock.
func (m *Machine) refused(l *lock, ttl time.Duration) {
	c := l.more()
	c.succeeded()
	c.runCount, c.fresh = 0, false
	c.missedTurn()
	l.owner = 0
	for r := l.queue.head; r != nil; {
		next := r.next
		if r.Once {
			m.giveUp(r, ErrNotAcquired)
		}
		r = next
	}
	m.notice(Notice{What: Refused, Name: l.name, TTL: ttl})
	switch {
	case l.queue.head == nil:
		m.leave(l)
	case l.woken:
		// The message and this refusal came by different ways: the lock may
		// have been released after the server refused us.
		m.ask(l)
	default:
		l.phase = waiting
		m.subscribe(l)
		c.retryAt = m.now + m.poll(l, ttl)
	}
}

// giveUp ends a queued request without a lock.
func (m *Machine) giveUp(r *Request, err error) {
	l := r.lock
	m.dequeue(l, r)
	m.fail(r, err)
	if l.queue.head == nil {
		switch {
		case l.phase == waiting:
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
		m.ownerWaitsNoMore(r)
	}
}

func (m *Machine) fail(r *Request, err error) {
	r.state = reqDone
	m.emit(Failed{r, err})
}

// cancel handles a caller who left. A script that is in flight for it can't
// be called back: what it brings goes to the next in line or is released.
func (m *Machine) cancel(r *Request) {
	if r.state == reqQueued {
		m.giveUp(r, errCancel)
	}
}
