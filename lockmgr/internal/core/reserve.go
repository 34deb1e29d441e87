package core

import "time"

// A request with KeepFor reserves its name: the record stays for so long from the grant on, even if
// the lock is unlocked, its manager is closed or its process ends before. Nobody gets the lock
// meanwhile, neither here nor elsewhere. The release of a reserved entry does not remove the record.
// It sets the record's life to what is left of the reservation, and gives it a name that nobody has.
// From then on the record is that of somebody else, and a waiter here waits for its end.

// reserve notes the reservation of a request that is granted an entry.
func (m *Machine) reserve(e *entry, r *Request) {
	if r.Terms == nil || r.Terms.KeepFor == 0 {
		return
	}
	d := r.Terms.KeepFor
	u := e.makeUpkeep()
	if u.reservedBy = r; m.reserved(e) > 0 || r.Hold != &r.own {
		u.reservedBy = nil
	}
	u.reserved = max(u.reserved, later(m.now, d))
	if u.reserved > e.until {
		m.extendSoon(e, max(d, m.cfg.Lease)) // for the case that this process ends
	}
}

// reserved returns for how long an entry is still reserved.
func (m *Machine) reserved(e *entry) time.Duration { return max(0, e.upkeep().reserved-m.now) }

// unreserve forgets the reservation of an entry whose record is gone, or is no longer trusted.
func (m *Machine) unreserve(e *entry) {
	if e.upkeep().reserved > 0 {
		e.upkeep().reserved, e.upkeep().reservedBy = 0, nil
	}
}

// untaken handles the unlock of a request that nobody had. Nothing is reserved for it.
func (m *Machine) untaken(e *entry, r *Request) {
	if e.upkeep().reservedBy == r {
		m.unreserve(e)
	}
}
