package core

import "time"

// hold makes a queued request the holder. The record must be ours and good
// for a while.
func (m *Machine) hold(l *lock, r *Request) {
	m.dequeue(l, r)
	r.state = reqGranted
	r.Anchor = r
	r.count = 1
	r.limit = Forever
	if r.Lease > 0 {
		r.limit = m.now + m.cfg.usable(r.Lease)
	}
	if m.field(l, r) != l.owner {
		l.more() // a transfer is due
	}
	if r.Fenced {
		r.Token = l.c.nextToken
		l.c.nextToken++
	}
	l.phase = held
	l.holder = r
	r.Until = l.holdUntil()
	if r.Lease > 0 {
		m.renewals.Remove(l)
	} else if !l.entry.Scheduled() {
		m.watch(l)
	}
	if c := l.c; c != nil {
		c.runCount++
		if c.runCount == 1 {
			c.runStart = m.now
		}
	}
	m.stats.Held++
	m.stats.Grants++
	if r.Passed {
		m.stats.Passes++
	}
	m.emit(Granted{r})
	if r.Explicit {
		for _, q := range m.waitsFor(r.Owner, l) {
			m.dequeue(l, q)
			m.reenter(l, q)
		}
		m.breakDeadlock(r.Owner)
	}
}

// reenter grants another hold to the owner that has one. Nothing is sent:
// the record says who holds, the count is ours.
func (m *Machine) reenter(l *lock, r *Request) {
	a := l.holder
	if r.Fenced && a.Token == 0 {
		m.fail(r, ErrNotFenced)
		return
	}
	switch {
	case a.limit == Forever:
		// A watched hold stays one: no lease can shorten it.
	case r.Lease == 0:
		a.limit = Forever
		m.renewals.Schedule(l, m.now, m.now)
		c := l.more()
		c.extend, c.retryAt = m.cfg.Lease, m.now
	case m.now+m.cfg.usable(r.Lease) > a.limit:
		a.limit = m.now + m.cfg.usable(r.Lease)
		if a.limit > l.until {
			c := l.more()
			c.extend, c.retryAt = r.Lease, m.now
		}
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

// extended tells the holder when its deadline has moved.
func (m *Machine) extended(l *lock) {
	if a := l.holder; a != nil {
		if until := l.holdUntil(); until > a.Until {
			a.Until = until
			m.emit(Extended{a})
		}
	}
}

// tend sends what a held lock is due: a transfer when the record lags behind
// the holder, a longer lease when a re-entry asked for one.
func (m *Machine) tend(l *lock) {
	c := l.c
	if c == nil || l.flight != 0 || l.phase != held {
		return
	}
	switch {
	case l.owner != l.holder.Field:
		// Early in a fast run, so that the answer is there when the run is
		// over and nobody has to wait for it.
		early := c.failures == 0 && !(c.fresh && c.others > 0) && 2*c.runCount >= m.runLimit(c)
		if early || m.now >= c.nextTransfer {
			m.transfer(l, l.holder)
		}
	case c.extend > 0 && m.now >= c.retryAt:
		m.sendRenewal(c.extend, []*lock{l})
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
	m.letGo(l)
	l.unlocking = r
	m.next(l, nil)
	m.settle(l)
}

// letGo ends the hold of a lock, in whatever way.
func (m *Machine) letGo(l *lock) {
	l.holder = nil
	m.stats.Held--
	if l.c != nil {
		l.c.extend = 0
	}
}

// unlocked answers the Unlock that waits, if one does.
func (m *Machine) unlocked(l *lock, err error) {
	if r := l.unlocking; r != nil {
		l.unlocking = nil
		m.emit(Unlocked{r, err})
	}
}

// expire ends a hold at its deadline. If only the holder's own lease is over
// the record is still good and goes to the next.
func (m *Machine) expire(l *lock) error {
	err := errExpired
	if l.holder.limit != Forever && l.owner == l.holder.Field && (l.c == nil || l.c.extend == 0) {
		err = errOver
	}
	m.loseHold(l, err)
	m.next(l, nil)
	return err
}

// loseHold ends a hold without an unlock.
func (m *Machine) loseHold(l *lock, err error) {
	a := l.holder
	m.letGo(l)
	m.stats.Losses++
	m.emit(Lost{a, err})
}

// gone handles the news that the record is not ours any more.
func (m *Machine) gone(l *lock) {
	l.owner = 0
	m.dropTokens(l)
	m.renewals.Remove(l)
	if l.phase == held {
		m.loseHold(l, errGone)
	}
	if c := l.c; c != nil {
		for i := range c.suspects { // it may be under the name of one of these
			c.suspects[i].creates = max(c.suspects[i].creates, 1)
		}
	}
	m.unlocked(l, errGone)
	m.next(l, nil)
}

// abandon stops trusting the record: its deadline has passed. It may be
// there a little longer, so the next script names its owner.
func (m *Machine) abandon(l *lock) {
	if l.owner != 0 {
		l.suspect(l.owner, m.now+m.cfg.SuspectTime, 1)
		l.owner = 0
	}
	m.dropTokens(l)
	m.renewals.Remove(l)
}

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
