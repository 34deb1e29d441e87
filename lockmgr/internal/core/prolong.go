package core

import (
	"slices"
	"time"
)

// extend has the renewals that the watchdog does not send: a holder wants a longer lease than the
// entry has, or the record is in doubt.
type extend struct {
	want   time.Duration   // the lease of the renewal to be sent, or zero
	sent   time.Duration   // the lease of such a renewal in flight, or zero
	failed int             // how many of them have failed in a row
	asked  []*Prolongation // not yet answered

	// later is the lease of a renewal that is due at laterAt, or zero: see extendLater, takeGrant.
	later, laterAt time.Duration
}

// prolong handles a holder that wants to keep its hold for longer.
func (m *Machine) prolong(p *Prolongation) {
	r := p.Request
	h, e := r.Hold, r.entry
	switch {
	case r.state != reqGranted: // unlocked at the same time, and perhaps lost before: the shell knows
		m.emit(Prolonged{p, ErrNotHeld})
		return
	case h.count == 0:
		m.emit(Prolonged{p, ErrLeaseLost})
		return
	}
	defer m.settleEntry(e)
	if m.now >= h.end() {
		err := m.whyOver(h)
		m.expire(e)
		m.emit(Prolonged{p, err})
		return
	}
	p.until, p.after = m.now+m.cfg.usable(p.Lease), m.lastID
	if h.watched {
		p.until = min(p.until, h.Request.Ends) // its MaxHold, if it has one
	}
	m.claimLease(h)
	m.claim(e, prolongation, r, p.until)
	if !h.watched {
		h.Request.Ends = max(h.Request.Ends, p.until) // e.until still bounds the hold
		m.tellUntil(h)
	}
	x := &e.makeUpkeep().extend
	x.asked = append(x.asked, p)
	m.extendSoon(e, p.Lease)
	m.sendDue(e)
}

// prolongFixed makes sure that a fixed lease ends no earlier than a lease that begins now.
func (m *Machine) prolongFixed(h *Hold, lease time.Duration) {
	e := h.Request.entry
	if until := m.now + m.cfg.usable(lease); until > h.Request.Ends {
		h.Request.Ends = until
		if until > e.until {
			m.extendSoon(e, lease)
		}
	}
}

// extendSoon makes a renewal due now, with at least the given lease.
func (m *Machine) extendSoon(e *entry, lease time.Duration) {
	u := e.makeUpkeep()
	u.extend.want, u.retry.at = max(u.extend.want, lease), m.now
}

// extendLater makes sure that a hold with a fixed lease that joined others lasts until the hold's
// end, which is later than the entry's. Many holds may join, and a single renewal in the second
// half of the lease is enough for all.
func (m *Machine) extendLater(e *entry, h *Hold) {
	if h.watched || h.Request.Ends <= e.until {
		return
	}
	x, lease := &e.makeUpkeep().extend, m.leaseOf(h.Request)
	at := max(m.now, e.until-lease/2)
	if x.later == 0 || at < x.laterAt {
		x.laterAt = at
	}
	x.later = max(x.later, lease)
}

// extendDue makes a renewal due if the time has come, and if a hold still needs the renewal.
// extendDue returns when to call it again.
func (m *Machine) extendDue(e *entry) (again time.Duration) {
	x := &e.upkeep().extend
	switch {
	case x.later == 0:
		return Forever
	case m.now < x.laterAt:
		return x.laterAt
	}
	lease := x.later
	x.later = 0
	short := later(m.now, m.cfg.usable(m.cfg.GrantLease)) > e.until // not renewed since a grant by message
	for h := range e.holds {
		if short || !h.watched && h.Request.Ends > e.until {
			m.extendSoon(e, lease)
			break
		}
	}
	return Forever
}

// answerFulfilled answers the prolongations that the confirmed script id has fulfilled. The script
// must have been sent after the prolongations were asked for.
func (m *Machine) answerFulfilled(e *entry, id uint64) {
	m.answerProlongations(e, func(p *Prolongation) bool { return p.until <= e.until && p.after < id }, nil)
}

// answerProlongations answers the prolongations of an entry for which over returns true. err is the
// answer, or nil.
func (m *Machine) answerProlongations(e *entry, over func(*Prolongation) bool, err error) {
	x := &e.upkeep().extend
	if len(x.asked) == 0 {
		return
	}
	x.asked = slices.DeleteFunc(x.asked, func(p *Prolongation) bool {
		if !over(p) {
			return false
		}
		m.emit(Prolonged{p, err})
		return true
	})
}
