package core

import "time"

// A Hold is what one owner has of a name in this process. The core writes it. The
// shell may read it while it carries out an effect that names the hold or one of
// its requests.
type Hold struct {
	// Request is the one that was granted first.
	Request *Request
	// Until is the instant until which the hold may be trusted.
	Until time.Duration
	// Token is the fencing token, or zero.
	Token int64
	// Number is the number under which Redis knows the hold. No other hold of
	// this manager has ever had it.
	Number uint64

	limit   time.Duration // end of a fixed lease or of MaxHold, or Forever
	count   int32         // grants not yet given back
	watched bool          // renewed by the watchdog
}

// hold makes a queued request the holder. The record must be ours, and its
// deadline not over.
func (m *Machine) hold(l *lock, r *Request) {
	m.dequeue(l, r)
	r.state = reqGranted
	h := &r.own
	h.Request, h.count, h.watched, h.limit = r, 1, r.Lease == 0, m.limitOf(r)
	if !r.Passed {
		h.Number = l.owner // that of the acquire, or of a transfer for this request
	} else if h.Number == 0 {
		h.Number = m.number()
	}
	if h.Number != l.owner {
		l.more() // a transfer is due
	}
	if r.Fenced {
		h.Token = l.c.tokens.take()
	}
	m.becomeHeld(l, h)
	r.Hold, h.Until = h, l.holdUntil()
	if !h.watched {
		m.renewals.Remove(l)
	} else if !l.entry.Scheduled() {
		m.watch(l)
	}
	if r.Lease > m.cfg.Lease {
		c := l.more()
		c.longer.want, c.retry.at = r.Lease, m.now
	}
	if l.contended() {
		l.c.turns.grant(m.now)
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
	h := l.hold
	if r.Fenced && h.Token == 0 {
		m.fail(r, ErrNotFenced)
		return
	}
	switch {
	case h.watched:
		// A re-entry neither shortens it nor changes its MaxHold.
	case r.Lease == 0:
		h.watched, h.limit = true, max(h.limit, m.limitOf(r))
		m.renewals.Schedule(l, m.now, m.now)
		m.extendSoon(l, m.cfg.Lease)
	default:
		m.prolongFixed(l, r.Lease)
	}
	m.extended(l)
	h.count++
	r.state, r.Hold = reqGranted, h
	m.stats.Grants++
	m.stats.Reentries++
	m.emit(Granted{r})
	m.tend(l)
}

// prolongFixed lets a fixed lease end no earlier than a lease that begins now.
func (m *Machine) prolongFixed(l *lock, lease time.Duration) {
	h := l.hold
	if limit := m.now + m.cfg.usable(lease); limit > h.limit {
		h.limit = limit
		if limit > l.until {
			m.extendSoon(l, lease)
		}
	}
}

// extendSoon asks for a renewal of the record with a lease of its own.
func (m *Machine) extendSoon(l *lock, lease time.Duration) {
	c := l.more()
	c.longer.want, c.retry.at = max(c.longer.want, lease), m.now
}

// extended tells the holder when its deadline has moved.
func (m *Machine) extended(l *lock) {
	if h := l.hold; h != nil {
		if until := l.holdUntil(); until > h.Until {
			h.Until = until
			m.emit(Extended{h})
		}
	}
}

// tend sends the script that a held lock needs: a transfer if the record does not
// name the holder, or a renewal with a longer lease if somebody asked for one.
func (m *Machine) tend(l *lock) (again time.Duration) {
	c := l.c
	if !l.contended() || l.flight != 0 || l.phase != held {
		return Forever
	}
	switch {
	case l.transferDue():
		// Early in a fast run, so that the answer is there when the run is
		// over and nobody has to wait for it.
		t := &c.turns
		early := !c.retry.failing() && !(t.fresh && t.others > 0) && 2*t.count >= m.runLimit(t)
		if !early && m.now < c.nextTransfer {
			return c.nextTransfer
		}
		m.transferTo(l, l.hold)
	case c.longer.want > 0:
		if m.now < c.retry.at {
			return c.retry.at
		}
		c.longer.sent, c.longer.want = c.longer.want, 0
		m.renew(l, c.longer.sent)
	}
	return Forever
}

// unlock handles a holder that gives back one of its holds.
func (m *Machine) unlock(r *Request) {
	l := r.lock
	if r.state != reqGranted {
		return
	}
	r.state = reqDone
	h := r.Hold
	if l.phase != held || l.hold != h {
		m.emit(Unlocked{r, ErrLeaseLost})
		return
	}
	if m.now >= l.holdUntil() {
		m.emit(Unlocked{r, m.expire(l)}) // before its alarm came
		m.settle(l)
		return
	}
	h.count--
	if h.count > 0 {
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
	l.hold = nil
	m.stats.Held--
	if l.contended() {
		l.c.longer.want, l.c.longer.sent = 0, 0
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
	switch h := l.hold; {
	case h.watched && m.now >= h.limit:
		err = errMaxHold
	case !h.watched && l.owner == h.Number && l.c.longer.want == 0 && l.c.longer.sent == 0:
		err = errOver
	}
	m.loseHold(l, err)
	m.next(l, nil)
	return err
}

// loseHold ends a hold without an unlock.
func (m *Machine) loseHold(l *lock, err error) {
	m.stats.Losses++
	m.emit(Lost{l.hold, err}) // before anybody hears of it in another way
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
		m.suspectOwner(l)
		l.c.turns.had(m.now, l.since, &m.cfg)
	}
	m.dropTokens(l)
	m.renewals.Remove(l)
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
