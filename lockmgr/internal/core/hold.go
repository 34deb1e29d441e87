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
func (m *Machine) hold(n *name, r *Request) {
	m.dequeue(n, r)
	r.state = reqGranted
	h := &r.own
	h.Request, h.count, h.watched, h.limit = r, 1, r.Lease == 0, m.limitOf(r)
	if !r.Passed {
		h.Number = n.entry.number // that of the acquire, or of a transfer for this request
	} else if h.Number == 0 {
		h.Number = m.number()
	}
	if h.Number != n.entry.number {
		n.more() // a transfer is due
	}
	if r.Fenced {
		h.Token = n.c.tokens.take()
	}
	m.becomeHeld(n, h)
	r.Hold, h.Until = h, n.holdUntil()
	if !h.watched {
		m.renewals.Remove(&n.entry)
	} else if !n.entry.renewal.Scheduled() {
		m.watch(n)
	}
	if r.Lease > m.cfg.Lease {
		c := n.more()
		c.longer.want, c.retry.at = r.Lease, m.now
	}
	if n.contended() {
		n.c.turns.grant(m.now)
	}
	m.stats.Held++
	m.stats.Grants++
	if r.Passed {
		m.stats.Passes++
	}
	m.emit(Granted{r})
	if r.Explicit {
		for q := m.waits.first(r.Owner, n); q != nil; q = m.waits.first(r.Owner, n) {
			m.dequeue(n, q)
			m.reenter(n, q)
		}
		m.breakDeadlocks(r.Owner, n)
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
func (m *Machine) reenter(n *name, r *Request) {
	h := n.hold
	if r.Fenced && h.Token == 0 {
		m.fail(r, ErrNotFenced)
		return
	}
	switch {
	case h.watched:
		// A re-entry neither shortens it nor changes its MaxHold.
	case r.Lease == 0:
		h.watched, h.limit = true, max(h.limit, m.limitOf(r))
		m.renewals.Schedule(&n.entry, m.now, m.now)
		m.extendSoon(n, m.cfg.Lease)
	default:
		m.prolongFixed(n, r.Lease)
	}
	m.extended(n)
	h.count++
	r.state, r.Hold = reqGranted, h
	m.stats.Grants++
	m.stats.Reentries++
	m.emit(Granted{r})
	m.tend(n)
}

// extended tells the holder when its deadline has moved.
func (m *Machine) extended(n *name) {
	if h := n.hold; h != nil {
		if until := n.holdUntil(); until > h.Until {
			h.Until = until
			m.emit(Extended{h})
		}
	}
}

// tend sends the script that a held lock needs: a transfer if the record does not
// name the holder, or a renewal with a longer lease if somebody asked for one.
func (m *Machine) tend(n *name) (again time.Duration) {
	c := n.c
	if !n.contended() || n.flight != 0 || n.phase != held {
		return Forever
	}
	switch {
	case n.transferDue():
		// Early in a fast run, so that the answer is there when the run is
		// over and nobody has to wait for it.
		t := &c.turns
		early := !c.retry.failing() && !(t.fresh && t.others > 0) && 2*t.count >= m.runLimit(t)
		if !early && m.now < c.nextTransfer {
			return c.nextTransfer
		}
		m.transferTo(n, n.hold)
	case c.longer.want > 0:
		if m.now < c.retry.at {
			return c.retry.at
		}
		c.longer.sent, c.longer.want = c.longer.want, 0
		m.renew(n, c.longer.sent)
	}
	return Forever
}

// expire ends a hold at its deadline. If only a fixed lease or MaxHold is over,
// the record is still good and goes to the next holder.
func (m *Machine) expire(n *name) error {
	err := errExpired
	switch h := n.hold; {
	case h.watched && m.now >= h.limit:
		err = errMaxHold
	case !h.watched && n.entry.number == h.Number && n.c.longer.want == 0 && n.c.longer.sent == 0:
		err = errOver
	}
	m.loseHold(n, err)
	m.next(n, nil)
	return err
}

// loseHold ends a hold without an unlock.
func (m *Machine) loseHold(n *name, err error) {
	m.stats.Losses++
	m.emit(Lost{n.hold, err}) // before anybody hears of it in another way
	m.letGo(n, err)
}

// proceed goes on where a lock had to wait for the script in flight.
func (m *Machine) proceed(n *name) {
	switch n.phase {
	case held:
		m.tend(n)
	case passing:
		m.next(n, nil)
	case releasing:
		if n.queue.head != nil && !m.leaving(n) {
			m.next(n, nil) // someone came in the meantime
			return
		}
		m.sendRelease(n)
	}
}
