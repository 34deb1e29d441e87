package core

import (
	"slices"
	"time"
)

// longer has the renewals other than the watchdog's: a holder wants a longer lease than the entry
// has, or the record is in doubt.
type longer struct {
	want   time.Duration   // the lease of the renewal to be sent, or zero
	sent   time.Duration   // the lease of such a renewal in flight, or zero
	failed int             // how many of them have failed in a row
	set    bool            // the record may have a longer lease than Config.Lease
	life   time.Duration   // the record may live until then, if that is later than entry.until
	check  bool            // the record may live for longer than needed: see shorten
	asked  []*Prolongation // not yet answered
	// exact is set if the newest transfer, in flight or answered, determines the life of the
	// record: the number is new, and no earlier transfer without an answer can still set another
	// life.
	exact bool

	// later is the lease of a renewal that is due at laterAt, or zero: see extendLater.
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
	m.claim(e, extension, r, p.until)
	if !h.watched {
		h.Request.Ends = max(h.Request.Ends, p.until) // e.until still bounds the hold
		m.moved(h)
	}
	u := e.makeUpkeep()
	u.longer.asked = append(u.longer.asked, p)
	m.extendSoon(e, p.Lease)
	m.sendDue(e)
}

// prolongFixed makes sure that a fixed lease ends no earlier than a lease that begins now.
func (m *Machine) prolongFixed(h *Hold, lease time.Duration) {
	e := h.Request.entry
	if limit := m.now + m.cfg.usable(lease); limit > h.Request.Ends {
		h.Request.Ends = limit
		if limit > e.until {
			m.extendSoon(e, lease)
		}
	}
}

// extendSoon makes a renewal due now, with at least the given lease.
func (m *Machine) extendSoon(e *entry, lease time.Duration) {
	u := e.makeUpkeep()
	u.longer.want, u.retry.at = max(u.longer.want, lease), m.now
}

// extendLater makes sure that a hold with a fixed lease that joined others lasts until the hold's
// end, which is later than the entry's. Many holds may join, and a single renewal in the second
// half of the lease is enough for all.
func (m *Machine) extendLater(e *entry, h *Hold) {
	if h.watched || h.Request.Ends <= e.until {
		return
	}
	l, lease := &e.makeUpkeep().longer, m.leaseOf(h.Request)
	at := max(m.now, e.until-lease/2)
	if l.later == 0 || at < l.laterAt {
		l.laterAt = at
	}
	l.later = max(l.later, lease)
}

// extendDue makes the renewal of extendLater due if the time has come, and if a hold still needs
// the renewal. extendDue returns when to call it again.
func (m *Machine) extendDue(e *entry) (again time.Duration) {
	l := &e.upkeep().longer
	switch {
	case l.later == 0:
		return Forever
	case m.now < l.laterAt:
		return l.laterAt
	}
	lease := l.later
	l.later = 0
	for h := range e.holds {
		if !h.watched && h.Request.Ends > e.until {
			m.extendSoon(e, lease)
			break
		}
	}
	return Forever
}

// prolonged answers the prolongations that the confirmed script id has fulfilled. The script must
// have been sent after the prolongations were asked for.
func (m *Machine) prolonged(e *entry, id uint64) {
	u := e.upkeep()
	if len(u.longer.asked) == 0 {
		return
	}
	rest := u.longer.asked[:0]
	for _, p := range u.longer.asked {
		if p.until <= e.until && p.after < id {
			m.emit(Prolonged{p, nil})
		} else {
			rest = append(rest, p)
		}
	}
	clear(u.longer.asked[len(rest):])
	u.longer.asked = rest
}

// answerProlongations fails the prolongations of an entry for which over returns true.
func (m *Machine) answerProlongations(e *entry, over func(*Prolongation) bool, err error) {
	l := &e.upkeep().longer
	if len(l.asked) == 0 {
		return
	}
	l.asked = slices.DeleteFunc(l.asked, func(p *Prolongation) bool {
		if !over(p) {
			return false
		}
		m.emit(Prolonged{p, err})
		return true
	})
}
