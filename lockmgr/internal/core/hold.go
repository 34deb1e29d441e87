package core

import "time"

// hold makes a queued request the holder. The record must be ours, and its
// deadline not over.
func (m *Machine) hold(l *lock, r *Request) {
	m.dequeue(l, r)
	r.state = reqGranted
	r.Anchor = r
	r.count = 1
	r.watched = r.Lease == 0
	r.limit = m.limitOf(r)
	if !r.Passed {
		r.Field = l.owner // that of the acquire, or of a transfer for this request
	} else if r.Field == 0 {
		r.Field = m.number()
	}
	if r.Field != l.owner {
		l.more() // a transfer is due
	}
	if r.Fenced {
		r.Token = l.c.nextToken
		l.c.nextToken++
	}
	l.phase = held
	l.holder = r
	r.Until = l.holdUntil()
	if !r.watched {
		m.renewals.Remove(l)
	} else if !l.entry.Scheduled() {
		m.watch(l)
	}
	if r.Lease > m.cfg.Lease {
		c := l.more()
		c.extend, c.retryAt = r.Lease, m.now
	}
	if c := l.c; c != nil {
		c.turns.grant(m.now)
	}
	m.stats.Held++
	m.stats.Grants++
	if r.Passed {
		m.stats.Passes++
	}
	m.emit(Granted{r})
	if r.Explicit {
		for q := m.waits.first(r.Owner, l); q != nil; q = m.waits.first(r.Owner, l) {
			m.dequeue(l, q)
			m.reenter(l, q)
		}
		m.breakDeadlocks(r.Owner, l)
	}
}

// limitOf is when a hold that is granted now ends even if it is renewed.
func (m *Machine) limitOf(r *Request) time.Duration {
	switch {
	case r.Lease > 0:
		return m.now + m.cfg.usable(r.Lease)
	case r.MaxHold > 0:
		return later(m.now, r.MaxHold)
	}
	return Forever
}

// reenter grants the lock again to the owner that holds it. The record does not
// change, as only the manager counts re-entries.
func (m *Machine) reenter(l *lock, r *Request) {
	a := l.holder
	if r.Fenced && a.Token == 0 {
		m.fail(r, ErrNotFenced)
		return
	}
	switch {
	case a.watched:
		// A re-entry neither shortens it nor changes its MaxHold.
	case r.Lease == 0:
		a.watched, a.limit = true, max(a.limit, m.limitOf(r))
		m.renewals.Schedule(l, m.now, m.now)
		m.extendSoon(l, m.cfg.Lease)
	default:
		m.prolongFixed(l, r.Lease)
	}
	m.extended(l)
	a.count++
	r.state = reqGranted
	r.Anchor, r.Until, r.Token, r.Field = a, a.Until, a.Token, a.Field
	m.stats.Grants++
	m.stats.Reentries++
	m.emit(Granted{r})
	m.tend(l)
}

// prolongFixed lets a fixed lease end no earlier than a lease that begins now.
func (m *Machine) prolongFixed(l *lock, lease time.Duration) {
	a := l.holder
	if limit := m.now + m.cfg.usable(lease); limit > a.limit {
		a.limit = limit
		if limit > l.until {
			m.extendSoon(l, lease)
		}
	}
}

// extendSoon asks for a renewal of the record with a lease of its own.
func (m *Machine) extendSoon(l *lock, lease time.Duration) {
	c := l.more()
	c.extend, c.retryAt = max(c.extend, lease), m.now
}

// extended tells the holder when its deadline has moved.
func (m *Machine) extended(l *lock) {
	if a := l.holder; a != nil {
		if until := l.holdUntil(); until > a.Until {
			a.Until = until
			m.emit(Extended{a})
		}
	}
}

// tend sends the script that a held lock needs: a transfer if the record does not
// name the holder, or a renewal with a longer lease if somebody asked for one.
func (m *Machine) tend(l *lock) {
	c := l.c
	if c == nil || l.flight != 0 || l.phase != held {
		return
	}
	switch {
	case l.transferDue():
		// Early in a fast run, so that the answer is there when the run is
		// over and nobody has to wait for it.
		t := &c.turns
		early := c.failures == 0 && !(t.fresh && t.others > 0) && 2*t.count >= m.runLimit(t)
		if early || m.now >= c.nextTransfer {
			m.transfer(l, l.holder)
		}
	case c.extend > 0 && m.now >= c.retryAt:
		c.extending, c.extend = c.extend, 0
		m.sendRenewal(c.extending, []*lock{l})
	}
}

// unlock handles a holder that gives back one of its holds.
func (m *Machine) unlock(r *Request) {
	l := r.lock
	if r.state != reqGranted {
		return
	}
	r.state = reqDone
	a := r.Anchor
	if l.phase != held || l.holder != a {
		m.emit(Unlocked{r, ErrLeaseLost})
		return
	}
	if m.now >= l.holdUntil() {
		m.emit(Unlocked{r, m.expire(l)}) // before its alarm came
		m.settle(l)
		return
	}
	a.count--
	if a.count > 0 {
		m.emit(Unlocked{r, nil})
		return
	}
	m.letGo(l, ErrNotHeld)
	l.unlocking = r
	m.next(l, nil)
	m.settle(l)
}

// letGo ends the hold of a lock. Its prolongations fail with err.
func (m *Machine) letGo(l *lock, err error) {
	l.holder = nil
	m.stats.Held--
	if l.c != nil {
		l.c.extend, l.c.extending = 0, 0
		m.answerProlongations(l, err)
	}
}

// unlocked answers the Unlock that waits, if one does.
func (m *Machine) unlocked(l *lock, err error) {
	if r := l.unlocking; r != nil {
		l.unlocking = nil
		m.emit(Unlocked{r, err})
	}
}

// expire ends a hold at its deadline. If only a fixed lease or MaxHold is over,
// the record is still good and goes to the next holder.
func (m *Machine) expire(l *lock) error {
	err := errExpired
	switch a := l.holder; {
	case a.watched && m.now >= a.limit:
		err = errMaxHold
	case !a.watched && l.owner == a.Field && (l.c == nil || l.c.extend == 0 && l.c.extending == 0):
		err = errOver
	}
	m.loseHold(l, err)
	m.next(l, nil)
	return err
}

// loseHold ends a hold without an unlock.
func (m *Machine) loseHold(l *lock, err error) {
	m.stats.Losses++
	m.emit(Lost{l.holder, err}) // before anybody hears of it in another way
	m.letGo(l, err)
}

// gone handles the news that the record is not ours any more.
func (m *Machine) gone(l *lock) {
	l.owner = 0
	m.dropTokens(l)
	m.renewals.Remove(l)
	if l.phase == held {
		m.loseHold(l, errGone)
	}
	m.unlocked(l, errGone)
	m.next(l, nil)
}

// abandon stops trusting the record after its deadline. It may still be there, so
// the next script names its number.
func (m *Machine) abandon(l *lock) {
	if l.owner != 0 {
		l.suspectOwner(later(m.now, m.cfg.SuspectTime))
		l.c.turns.had(m.now, l.since, &m.cfg)
	}
	m.dropTokens(l)
	m.renewals.Remove(l)
}

// dropTokens forgets the tokens that came with a record. Others may have taken
// larger ones as soon as it is not ours.
func (m *Machine) dropTokens(l *lock) {
	if l.c != nil {
		l.c.nextToken, l.c.lastToken = 0, -1
	}
}

// proceed goes on where a lock had to wait for the script in flight.
func (m *Machine) proceed(l *lock) {
	switch l.phase {
	case held:
		m.tend(l)
	case passing:
		m.next(l, nil)
	case releasing:
		if l.queue.head != nil && !m.leaving(l) {
			m.next(l, nil) // someone came in the meantime
			return
		}
		m.sendRelease(l)
	}
}

// watch schedules the renewal of a lock one tick after the send that its
// lease counts from.
func (m *Machine) watch(l *lock) {
	m.renewals.Schedule(l, m.now, m.renewDue(l))
}

func (m *Machine) renewDue(l *lock) time.Duration {
	return l.sent + m.cfg.tick()
}
