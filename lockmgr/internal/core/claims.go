package core

import (
	"slices"
	"time"
)

// The life of a record follows from those who have its entry now. It may be Config.Lease in any case,
// and a watched hold needs that from each renewal on. All else is a claim: the grant that made it,
// and the instant up to which it needs the record. A claim ends with its grant, so a record that
// lived for longer because of it gets a shorter life: see shorten.
//
// A request with KeepFor reserves its name: the record stays for so long from the grant on, even if
// the lock is unlocked, its manager is closed or its process ends before. Nobody gets the lock
// meanwhile, neither here nor elsewhere. So its claim outlives the grant, unless nobody has taken
// that. The release of a reserved entry does not remove the record. It sets the record's life to
// what is left of the reservation, and gives it a name that nobody has. From then on the record is
// that of somebody else, and a waiter here waits for its end.
type claim struct {
	what  claimed
	by    *Request // nil for a reservation whose grant is over
	until time.Duration
}

type claimed uint8

const (
	// fixedLease is the lease of a grant that the watchdog does not renew. A hold that was never
	// re-entered or prolonged has none: its end is the claim. Nor has a re-entry into a hold that is
	// watched: it is watched, too.
	fixedLease  claimed = iota
	extension           // a Prolongation
	reservation         // a KeepFor
)

// claim notes a claim. A grant has one of each sort. A later one never shortens it.
func (m *Machine) claim(e *entry, what claimed, by *Request, until time.Duration) {
	all := &e.makeUpkeep().claims
	for i := range *all {
		if c := &(*all)[i]; c.what == what && c.by == by {
			c.until = max(c.until, until)
			return
		}
	}
	*all = append(*all, claim{what, by, until})
}

// unclaim ends some claims of an entry.
func (e *entry) unclaim(ends func(claim) bool) {
	if len(e.upkeep().claims) == 0 {
		return
	}
	u := e.makeUpkeep()
	if u.claims = slices.DeleteFunc(u.claims, ends); len(u.claims) == 0 {
		u.claims = nil
	}
	u.longer.check = true
}

// grantOver ends the claims of a grant. What it has reserved stays, unless nobody had taken it.
func (m *Machine) grantOver(e *entry, r *Request, untaken bool) {
	if len(e.upkeep().claims) == 0 {
		return
	}
	reserved := time.Duration(0)
	e.unclaim(func(c claim) bool {
		if c.by == r && c.what == reservation && !untaken {
			reserved = c.until
		}
		return c.by == r
	})
	if reserved > 0 {
		m.claim(e, reservation, nil, reserved)
	}
}

// holdOver ends the claims of all grants of a hold.
func (m *Machine) holdOver(e *entry, h *Hold) {
	for _, c := range slices.Clone(e.upkeep().claims) {
		if c.by != nil && c.by.Hold == h {
			m.grantOver(e, c.by, false)
		}
	}
	if e.hold != nil && (!h.watched || e.upkeep().longer.set) {
		e.makeUpkeep().longer.check = true
	}
}

// claimLease makes the fixed lease of a hold's only grant a claim, before something else changes
// the end of the hold.
func (m *Machine) claimLease(h *Hold) {
	if !h.watched && m.fixedLeases(h) == 0 {
		m.claim(h.Request.entry, fixedLease, h.Request, h.Request.Ends)
	}
}

// fixedLeases returns the number of a hold's claims for fixed leases.
func (m *Machine) fixedLeases(h *Hold) (n int32) {
	for _, c := range h.Request.entry.upkeep().claims {
		if c.what == fixedLease && c.by.Hold == h {
			n++
		}
	}
	return n
}

// follow makes a hold, of which a grant is over, what the grants that are left have asked for. If
// the watchdog renewed it for none of them, it ends with the last of their leases.
func (m *Machine) follow(h *Hold) {
	e := h.Request.entry
	if fixed := m.fixedLeases(h); fixed == 0 || fixed < h.count {
		return
	}
	h.watched, h.Request.Ends = false, 0
	for _, c := range e.upkeep().claims {
		if c.what != reservation && c.by.Hold == h {
			h.Request.Ends = max(h.Request.Ends, c.until)
		}
	}
	if u := e.makeUpkeep(); h.next() != nil || e.hold != h {
		u.limit = min(u.limit, h.Request.Ends)
	}
	if !e.watched() {
		m.renewals.Remove(e)
	}
	m.moved(h)
}

// needed returns the lease that the record of an entry needs now, for its holds and all claims.
func (m *Machine) needed(e *entry) time.Duration {
	lease, until := time.Millisecond, m.now
	for h := range e.holds {
		if h.watched {
			lease = m.cfg.Lease
		} else {
			until = max(until, h.Request.Ends)
		}
	}
	for _, c := range e.upkeep().claims {
		if c.what == reservation {
			lease = max(lease, wholeMs(c.until-m.now)) // of the record, not of a hold
		} else {
			until = max(until, min(c.until, c.by.Hold.Request.Ends))
		}
	}
	if until > m.now {
		lease = max(lease, m.cfg.leaseFor(until-m.now))
	}
	return lease
}

// shorten gives the entry a new number if its record may live for much longer than needed. The
// transfer that writes it sets the life of the record. Each number is written once, so a transfer
// that runs late finds another one, and does not shorten a lease that was set later.
func (m *Machine) shorten(e *entry) {
	u := e.upkeep()
	if !u.longer.check || !e.of.rules().transfers() {
		return
	}
	u.longer.check = false
	if life := max(e.until, u.longer.life); life-m.now > max(m.needed(e), m.cfg.Lease)+m.cfg.tick() {
		m.renumber(e, e.of.rules().side(e))
	}
}

// reserve notes the reservation of a request that is granted an entry.
func (m *Machine) reserve(e *entry, r *Request) {
	if r.Terms == nil || r.Terms.KeepFor == 0 {
		return
	}
	d := r.Terms.KeepFor
	until := later(m.now, d)
	m.claim(e, reservation, r, until)
	if until > e.until {
		m.extendSoon(e, max(d, m.cfg.Lease)) // for the case that this process ends
		u := e.upkeep()
		u.nextTransfer = min(u.nextTransfer, m.now) // a transfer that is due comes first
	}
}

// reserved returns for how long an entry is still reserved.
func (m *Machine) reserved(e *entry) (left time.Duration) {
	for _, c := range e.upkeep().claims {
		if c.what == reservation {
			left = max(left, c.until-m.now)
		}
	}
	return left
}

// unreserve forgets the reservations of an entry whose record is gone, or is no longer looked for.
func (m *Machine) unreserve(e *entry) {
	e.unclaim(func(c claim) bool { return c.what == reservation })
}
