package core

import (
	"slices"
	"time"
)

// A claim says that a record must live until an instant, because of one grant. The present holds of
// an entry and the entry's claims determine how long the record must live. A life of up to
// Config.Lease is never shortened: see giveLife. When a claim ends, a record that lives for longer
// because of the claim gets a shorter life: see shorten. A claim ends with its grant. Only a
// reservation outlives its grant, unless the grant was never taken.
type claim struct {
	what  claimKind
	by    *Request // nil for a reservation whose grant is over
	first *Request // of a reservation whose grant is over: the first request of its hold
	until time.Duration
}

// life is how long a record may live.
type life struct {
	long  bool          // the record may have a longer lease than Config.Lease
	until time.Duration // the record may live until then, if that is later than entry.until
	check bool          // the record may live for longer than needed: see shorten
	// exact is set if the newest transfer, in flight or answered, determines the life of the
	// record: the number is new, and no earlier transfer without an answer can still set another
	// life.
	exact bool
}

type claimKind uint8

const (
	// fixedLease is the lease of a grant that the watchdog does not renew. There is no claim
	// fixedLease for a hold that was never re-entered or prolonged, because Request.Ends has the
	// end of the lease. Nor is there a claim fixedLease for a re-entry into a watched hold, because
	// the watchdog renews the hold.
	fixedLease   claimKind = iota
	prolongation           // a Prolongation; a re-entry with more than Config.Lease into a watched hold
	reservation            // a KeepFor
)

// claim notes a claim, and returns the claim. A grant has at most one claim of each kind. A later
// call never shortens the claim.
func (m *Machine) claim(e *entry, what claimKind, by *Request, until time.Duration) *claim {
	u := e.makeUpkeep()
	i := slices.IndexFunc(u.claims, func(c claim) bool { return c.what == what && c.by == by })
	if i < 0 {
		i, u.claims = len(u.claims), append(u.claims, claim{what: what, by: by})
	}
	c := &u.claims[i]
	c.until = max(c.until, until)
	return c
}

// unclaim ends the claims of an entry for which ends returns true.
func (e *entry) unclaim(ends func(claim) bool) {
	if len(e.upkeep().claims) == 0 {
		return
	}
	u := e.upkeep()
	u.claims, u.life.check = slices.DeleteFunc(u.claims, ends), true
}

// grantOver ends the claims of a grant. The reservation stays unless untaken is set: nobody took
// the grant.
func (m *Machine) grantOver(e *entry, r *Request, untaken bool) {
	reserved := time.Duration(0)
	e.unclaim(func(c claim) bool {
		if c.by == r && c.what == reservation && !untaken {
			reserved = c.until
		}
		return c.by == r
	})
	if reserved > 0 {
		m.claim(e, reservation, nil, reserved).first = r.Hold.Request
	}
}

// holdOver ends the claims of all grants of a hold.
func (m *Machine) holdOver(e *entry, h *Hold) {
	for _, c := range slices.Clone(e.upkeep().claims) {
		if c.by != nil && c.by.Hold == h {
			m.grantOver(e, c.by, false)
		}
	}
	if e.hold != nil && (!h.watched || e.upkeep().life.long) {
		e.makeUpkeep().life.check = true
	}
}

// claimLease makes a claim of the fixed lease of a hold with one grant, before a re-entry or a
// Prolongation changes the end of the hold.
func (m *Machine) claimLease(h *Hold) {
	if !h.watched && m.fixedLeases(h) == 0 {
		m.claim(h.Request.entry, fixedLease, h.Request, h.Request.Ends)
	}
}

// fixedLeases returns how many grants of a hold have a claim of the kind fixedLease.
func (m *Machine) fixedLeases(h *Hold) (n int32) {
	for _, c := range h.Request.entry.upkeep().claims {
		if c.what == fixedLease && c.by.Hold == h {
			n++
		}
	}
	return n
}

// adjust adjusts a hold to the grants that are left, after one grant is over. If all grants that
// are left have fixed leases, the watchdog no longer renews the hold, and the hold ends with the
// last claim of these grants.
func (m *Machine) adjust(h *Hold) {
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
		u.firstEnd = min(u.firstEnd, h.Request.Ends)
	}
	if !e.watched() {
		m.renewals.Remove(e)
	}
	m.tellUntil(h)
}

// needed returns the lease that the record of an entry needs now for the entry's holds and claims.
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
			lease = max(lease, wholeMs(c.until-m.now)) // the life of the record, without leaseFor's margin
		} else {
			until = max(until, min(c.until, c.by.Hold.Request.Ends))
		}
	}
	if until > m.now {
		lease = max(lease, m.cfg.leaseFor(until-m.now))
	}
	return lease
}

// leaseOf returns the lease that an entry gets when acquired for a request or passed on to a
// request. An acquire that runs late must not leave a record for longer than Config.Lease. So a
// renewal sets a longer fixed lease once the entry is known to be ours. If KeepFor is longer than
// the fixed lease, the record gets the life of KeepFor, up to Config.Lease, at once: the record
// might end before the renewal.
func (m *Machine) leaseOf(r *Request) time.Duration {
	lease := r.Lease
	switch {
	case lease == 0:
		return m.cfg.Lease
	case r.Terms != nil:
		lease = max(lease, r.Terms.KeepFor)
	}
	return min(lease, m.cfg.Lease)
}

// shorten gives the entry a new number if the record may live for much longer than needed. The
// transfer that writes the new number sets the life of the record. Each number is written once, so
// a late copy of the transfer finds another number, and does not shorten a lease that was set
// later.
func (m *Machine) shorten(e *entry) {
	u := e.upkeep()
	if !u.life.check || !e.of.rules().transfers() {
		return
	}
	u.life.check = false
	if until := max(e.until, u.life.until); until-m.now > max(m.needed(e), m.cfg.Lease)+m.cfg.tick() {
		m.renumber(e, e.of.rules().side(e))
	}
}

// reserve notes the reservation of a request that has been granted an entry, if KeepFor is set.
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

// reserved returns for how long an entry is still reserved, and the first request of the hold that
// reserves the entry, if the grant is over.
func (m *Machine) reserved(e *entry) (left time.Duration, first *Request) {
	for _, c := range e.upkeep().claims {
		if c.what == reservation && c.until-m.now > left {
			left, first = c.until-m.now, c.first
		}
	}
	return left, first
}

func (m *Machine) isReserved(e *entry) bool {
	left, _ := m.reserved(e)
	return left > 0
}

// unreserve forgets the reservations of an entry whose record is gone, or is left to expire.
func (m *Machine) unreserve(e *entry) {
	e.unclaim(func(c claim) bool { return c.what == reservation })
}
