package core

import "time"

// longer is what is to be done because a holder wants a longer lease than the
// record has.
type longer struct {
	want  time.Duration   // the lease of a renewal that is to be sent; zero if none is
	sent  time.Duration   // that of the renewal in flight
	set   bool            // the record may live longer than Config.Lease from now on
	asked []*Prolongation // they wait for a renewal
}

// prolong handles a holder that wants to keep its lock for longer.
func (m *Machine) prolong(p *Prolongation) {
	r := p.Request
	n := r.of
	if r.state != reqGranted || n.phase != held || n.hold != r.Hold {
		m.emit(Prolonged{p, ErrLeaseLost})
		return
	}
	if m.now >= n.holdUntil() {
		m.emit(Prolonged{p, m.expire(n)})
		m.settle(n)
		return
	}
	if h := r.Hold; !h.watched {
		h.limit = max(h.limit, m.now+m.cfg.usable(p.Lease)) // n.entry.until still bounds the hold
	}
	p.until, p.after = m.now+m.cfg.usable(p.Lease), m.lastID
	c := n.more()
	c.longer.asked = append(c.longer.asked, p)
	m.extendSoon(n, p.Lease)
	m.tend(n)
	m.settle(n)
}

// prolongFixed lets a fixed lease end no earlier than a lease that begins now.
func (m *Machine) prolongFixed(n *name, lease time.Duration) {
	h := n.hold
	if limit := m.now + m.cfg.usable(lease); limit > h.limit {
		h.limit = limit
		if limit > n.entry.until {
			m.extendSoon(n, lease)
		}
	}
}

// extendSoon asks for a renewal of the record with a lease of its own.
func (m *Machine) extendSoon(n *name, lease time.Duration) {
	c := n.more()
	c.longer.want, c.retry.at = max(c.longer.want, lease), m.now
}

// prolonged answers the prolongations that a confirmed script, sent after they
// were asked for, has fulfilled.
func (m *Machine) prolonged(n *name, id uint64) {
	c := n.c
	if len(c.longer.asked) == 0 {
		return
	}
	rest := c.longer.asked[:0]
	for _, p := range c.longer.asked {
		if p.until <= n.entry.until && p.after < id {
			m.emit(Prolonged{p, nil})
		} else {
			rest = append(rest, p)
		}
	}
	clear(c.longer.asked[len(rest):])
	c.longer.asked = rest
}

// answerProlongations fails all prolongations.
func (m *Machine) answerProlongations(n *name, err error) {
	for _, p := range n.c.longer.asked {
		m.emit(Prolonged{p, err})
	}
	n.c.longer.asked = nil
}
