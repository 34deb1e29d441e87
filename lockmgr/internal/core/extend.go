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
	failed int             // how many such renewals have failed in a row
	asked  []*Prolongation // not yet answered

	// later is the lease of a renewal that is due at laterAt, or zero: see extendLater, takeGrant.
	later, laterAt time.Duration
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

// extendIfDue makes a renewal due if the time has come, and if a hold still needs the renewal.
// extendIfDue returns when to call extendIfDue again.
func (m *Machine) extendIfDue(e *entry) (again time.Duration) {
	x := &e.upkeep().extend
	switch {
	case x.later == 0:
		return Forever
	case m.now < x.laterAt:
		return x.laterAt
	}
	lease := x.later
	x.later = 0
	provisional := later(m.now, m.cfg.usable(m.cfg.GrantLease)) > e.until // the lease may still be that of a grant by message
	for h := range e.holds {
		if provisional || !h.watched && h.Request.Ends > e.until {
			m.extendSoon(e, lease)
			break
		}
	}
	return Forever
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
