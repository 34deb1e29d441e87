package core

// prolong handles a holder that wants to keep its hold for longer.
func (m *Machine) prolong(p *Prolongation) {
	r := p.Request
	h, e := r.Hold, r.entry
	if r.state != reqGranted || h.count == 0 { // unlocked or lost at the same time: the shell knows why
		m.emit(Prolonged{p, ErrNotHeld})
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
