package core

import "time"

// grant makes a request the holder of an entry, or a further holder. The entry must be ours, and
// not past its deadline.
func (m *Machine) grant(e *entry, r *Request) {
	n := e.of
	if r.state == reqQueued {
		m.dequeue(r)
		n.takePlace(r)
	}
	h := &r.own
	if r.entry != e {
		h.Number = 0 // the number was meant for another entry
	}
	if u := e.upkeep(); e.hold == nil && n.hasDetails() {
		u.number, u.shutUntil, u.extend.later = 0, 0, 0
	}
	r.state, r.entry = reqGranted, e
	h.Request, h.count, h.watched = r, 1, r.Lease == 0
	r.Ends = m.endOf(r)
	if h.Number = m.numberOf(e, r); h.Number != e.number || r.Side != e.side {
		n.makeDetails() // a transfer is due
	}
	if r.Fenced {
		m.giveToken(e, r)
	}
	m.becomeHeld(e, h)
	if n.isSet() {
		m.heldSets.add(n)
	}
	r.Hold, h.Until = h, h.end()
	m.watchHold(h)
	m.reserve(e, r)
	if r.Lease > m.cfg.Lease {
		m.extendSoon(e, r.Lease)
	} else if h.next() != nil {
		m.extendLater(e, h)
	}
	// A hold that joins a hold does not count as a grant, unless no run has begun.
	if n.hasDetails() && (h.next() == nil || n.details.run.grants == 0) {
		n.details.run.grant(m.now)
		e.upkeep().unasked++
	}
	m.tellGrant(r)
}

// numberOf returns the number of a new hold of an entry: see Numbers in doc.go. If the entry has
// another number, a transfer is due.
func (m *Machine) numberOf(e *entry, r *Request) uint64 {
	switch h := &r.own; {
	case e.hold != nil && r.Side == Shared && e.of.rules().side(e) == Alone:
		return m.newNumber() // the number of the entry once the hold with side Alone has ended
	case e.hold != nil:
		return e.target() // holds that share an entry share its number
	case r.Passed && h.Number != 0:
		return h.Number // transferFirst chose it, and the record has it
	case r.Passed:
		return m.newNumber() // passed on in memory
	case h.unsure:
		return m.newNumber() // no command for the hold may be about the record of a late acquire
	default:
		return e.number // that of the acquire
	}
}

// giveToken gives a new hold its token. A second hold of the same owner has the token of the first.
func (m *Machine) giveToken(e *entry, r *Request) {
	if first := e.aloneHold(); first != nil {
		r.own.Token = first.Token
		return
	}
	u := e.upkeep()
	r.own.Token = u.tokens.take(r.Side)
	if u.tokens.each != nil {
		m.emit(Tokens{r, u.tokens.each})
	}
}

// watchHold makes the watchdog renew the entry of a new hold, if the hold is watched.
func (m *Machine) watchHold(h *Hold) {
	e := h.Request.entry
	switch {
	case h.watched && !e.renewal.Scheduled():
		m.scheduleRenewal(e)
	case !h.watched && h.next() == nil:
		m.renewals.Remove(e)
	}
}

// tellGrant tells the caller of a grant. The waiting requests of an explicit owner for the name
// re-enter now, or fail. After that, the new hold may close a cycle.
func (m *Machine) tellGrant(r *Request) {
	n := r.entry.of
	m.stats.Held++
	m.stats.Grants++
	if r.Passed {
		m.stats.Passes++
	}
	m.emit(Granted{r})
	if !r.Explicit {
		return
	}
	for q := m.waits.first(r.Owner(), n); q != nil; q = m.waits.first(r.Owner(), n) {
		m.dequeue(q)
		n.leavePlace(q)
		m.answerOwner(n, q)
	}
	m.breakDeadlocks(r.Owner(), n)
}

// endOf returns the instant at which a hold that is granted now ends even if renewed.
func (m *Machine) endOf(r *Request) time.Duration {
	switch {
	case r.Lease > 0:
		return m.now + m.cfg.usable(r.Lease)
	case r.Terms != nil && r.Terms.MaxHold > 0:
		return later(m.now, r.Terms.MaxHold)
	}
	return Forever
}

// answerOwner answers a request whose owner has a hold of the name already, and reports whether the
// owner has a hold.
func (m *Machine) answerOwner(n *name, r *Request) bool {
	var beside *Hold // a hold of the owner, if the request re-enters none
	for e := range n.entries {
		for _, h := range e.owned(r.Owner()) {
			switch {
			case h == nil:
			case n.rules().again(h, r) == reenters:
				m.reenter(h, r)
				return true
			default:
				beside = h
			}
		}
	}
	if beside == nil {
		return false
	}
	e, what := beside.Request.entry, n.rules().again(beside, r)
	switch {
	case what == never:
		m.fail(r, &DeadlockError{Cycle: []Wait{{r.Owner(), r.Name, r.Owner()}}})
	case what == upgrades:
		m.upgrade(e, beside, r)
	case r.Fenced && beside.Token == 0:
		m.fail(r, ErrNotFenced)
	default:
		if m.short(e, r) {
			m.extendSoon(e, m.leaseOf(r))
		}
		m.grant(e, r)
	}
	return true
}

// reenter grants a hold to its owner once more. The record does not change, because only the
// manager counts re-entries.
func (m *Machine) reenter(h *Hold, r *Request) {
	e := h.Request.entry
	if r.Fenced && h.Token == 0 {
		m.fail(r, ErrNotFenced)
		return
	}
	r.Hold = h
	m.claimLease(h)
	until := m.now + m.cfg.usable(r.Lease)
	switch {
	case h.watched:
		// A re-entry neither shortens a watched hold nor changes its MaxHold.
		if r.Lease > m.cfg.Lease {
			m.claim(e, prolongation, r, until)
			m.extendSoon(e, r.Lease)
		}
	case r.Lease == 0:
		h.watched, h.Request.Ends = true, max(h.Request.Ends, m.endOf(r))
		m.renewals.Schedule(e, m.now, m.now)
		m.extendSoon(e, m.cfg.Lease)
	default:
		m.claim(e, fixedLease, r, until)
		if until > h.Request.Ends {
			h.Request.Ends = until
			if until > e.until {
				m.extendSoon(e, r.Lease)
			}
		}
	}
	m.reserve(e, r)
	m.tellUntil(h)
	h.count++
	r.state, r.entry = reqGranted, e
	m.stats.Grants++
	m.stats.Reentries++
	m.emit(Granted{r})
	m.sendDue(e)
}

// sendDue sends the script that a held entry needs, if a script is due and none is in flight: a
// transfer for the places of a fair lock, or for an upgrade, a transfer if the record does not name
// the present holder, or a renewal if a longer lease is wanted. sendDue returns when to call it
// again.
func (m *Machine) sendDue(e *entry) (again time.Duration) {
	n, u := e.of, e.upkeep()
	if !n.hasDetails() || e.flight != 0 || e.phase != held {
		return Forever
	}
	m.shorten(e)
	switch {
	case n.placesDue(m.now) && (!u.retry.failing() || m.now >= u.nextTransfer):
		m.transferTo(e)
	case u.upgrade != nil:
		m.renumber(e, Alone)
		m.transfer(e, Alone, u.number, m.leaseOf(u.upgrade), tokensFor(u.upgrade))
	case !e.recorded():
		if m.now < u.nextTransfer && !m.asksEarly(e) {
			return min(u.nextTransfer, n.placesAt(u, m.now))
		}
		m.transferTo(e)
	case u.extend.want > 0:
		if m.now < u.retry.at {
			return min(u.retry.at, n.placesAt(u, m.now))
		}
		lease := u.extend.want
		if e.watched() {
			lease = max(lease, m.cfg.Lease) // a shorter renewal would only put off the next one
		}
		u.extend.sent, u.extend.want = min(lease, m.needed(e)), 0 // the claim that wanted lease may have ended
		m.renew(e, u.extend.sent)
	default:
		return n.placesAt(u, m.now)
	}
	return Forever
}

// expire ends the holds of an entry that are past their deadlines. If only a fixed lease or a
// MaxHold is over, the entry is still trusted and goes to the next holder.
func (m *Machine) expire(e *entry) {
	first := Forever
	for h := range e.holds {
		if m.now >= h.end() {
			m.loseHold(h, m.whyOver(h))
		} else {
			first = min(first, h.Request.Ends)
		}
	}
	if e.hold == nil {
		m.passOn(e, nil)
	} else if e.hold.next() != nil {
		e.upkeep().firstEnd = first
	}
}

// whyOver returns the error of a hold past its deadline.
func (m *Machine) whyOver(h *Hold) error {
	e := h.Request.entry
	u := e.upkeep()
	// If a script was due or in flight, the hold ended early because that script was not confirmed.
	nothingDue := e.number == e.target() && u.extend.want == 0 && u.extend.sent == 0
	switch over := m.now >= h.Request.Ends; {
	case h.watched && over:
		return errMaxHold
	case !h.watched && (over || nothingDue): // the fixed lease has ended as asked, or a little early
		return errOver
	}
	return errExpired
}

// loseHold ends a hold without an unlock.
func (m *Machine) loseHold(h *Hold, err error) {
	m.tellLoss(h, err)
	m.letGo(h, err)
}

// tellLoss reports the loss of a hold, before any effect that shows the loss. A hold ends once: by
// a loss, or by an Unlock whose error matches neither ErrLeaseLost nor ErrClosed.
func (m *Machine) tellLoss(h *Hold, err error) {
	m.stats.Losses++
	m.emit(Lost{h, err})
}

// loseAll ends all holds of an entry.
func (m *Machine) loseAll(e *entry, err error) {
	for h := range e.holds {
		m.loseHold(h, err)
	}
}

// proceed continues with an entry that had to wait for the script in flight.
func (m *Machine) proceed(e *entry) {
	switch e.phase {
	case held:
		m.sendDue(e)
	case passing:
		m.passOn(e, nil)
	case releasing:
		if m.mayKeep(e) && !e.upkeep().giveBack {
			m.passOn(e, nil) // the request has come meanwhile
		} else {
			m.sendRelease(e)
		}
	}
}
