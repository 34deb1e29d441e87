package core

import "time"

// renewDueLocks sends the due renewals, each as an Op of its own. The shell may send many renewals
// in one script.
func (m *Machine) renewDueLocks() {
	if m.now < m.pace.next() {
		return
	}
	// A renewal is due when 8/24 of its lease have passed, and comes out of the map before 9/24
	// have. So the renewal is sent before 11/24 have passed, and can be tried again several times.
	burst := m.pace.burst(m.now, m.renewals.Len(), m.cfg.Lease/12)
	m.due = m.renewals.DueAtMost(m.now, burst, m.due[:0])
	if next, ok := m.renewals.Next(); !ok || next > m.now {
		m.pace.over()
	}
	for _, e := range m.due {
		switch u := e.upkeep(); {
		case !e.watched():
			// The next watched holder puts e back.
		case e.flight != 0:
			m.renewals.Schedule(e, m.now, m.now)
		case !e.recorded(): // a transfer is due, and renews as well
			m.renewals.Schedule(e, m.now, m.now)
			if m.now >= u.retry.at || !u.retry.failing() {
				m.transferTo(e)
			}
		case m.renewDue(e) > m.now:
			m.scheduleRenewal(e) // a transfer has renewed it since
		default:
			m.renew(e, m.cfg.Lease)
		}
	}
	clear(m.due)
	if cap(m.due) > 1<<14 {
		m.due = nil // after a burst
	}
}

// renew sends a renewal of an entry.
func (m *Machine) renew(e *entry, lease time.Duration) {
	if lease > m.cfg.Lease {
		l := &e.makeUpkeep().life
		l.long, l.until = true, max(l.until, later(m.now, lease))
	}
	m.send(e, VerbRenew, e.side, e.number, lease, 0)
}

// tally counts the renewals among the replies of one event, to report all together.
type tally struct {
	renewed, failed int
	err             error // the newest failure
}

// reportRenewals reports the tally and resets the tally.
func (m *Machine) reportRenewals() {
	t := m.tally
	if t.failed > 0 {
		m.notice(Notice{What: RenewError, N: t.failed, Err: t.err})
	}
	if t.renewed > 0 {
		m.stats.Renewed += uint64(t.renewed)
		m.notice(Notice{What: LeasesRenewed, N: t.renewed})
	}
	m.tally = tally{}
}

// renewed handles the answer to a renewal.
func (m *Machine) renewed(e *entry, r *Reply) {
	n := e.of
	switch {
	case r.Ran != Yes:
		m.tally.failed, m.tally.err = m.tally.failed+1, r.Err
		m.failWith(e, r)
		if e.phase == passing {
			m.failed(e, r.Err)
		}
		m.renewalFailed(e, r.Err)
	case !r.OK:
		m.gone(e)
	default:
		m.tally.renewed++
		if n.hasDetails() {
			x := &e.upkeep().extend
			x.sent, x.failed = 0, 0
		}
		if e.number != 0 {
			m.trust(e, r.Op.ID, r.Op.Sent, r.Op.Lease)
		}
		if e.watched() {
			m.scheduleRenewal(e)
		}
		m.proceed(e)
	}
}

// renewalFailed arranges that the renewal is tried again. A renewal of the watchdog is due at the
// next slot of the renewal map, well before the next tick. The deadline stays, because only a
// confirmed script moves a deadline forward.
func (m *Machine) renewalFailed(e *entry, err error) {
	m.failUpgrade(e, err)
	m.failImpatient(e.of, err)
	u := e.upkeep()
	if x := &u.extend; x.want > 0 || x.sent > 0 { // somebody waits for this one
		x.want, x.sent = max(x.want, x.sent), 0
		x.failed++
		u.retry.at = m.now + m.pause(x.failed)
	}
	if e.watched() {
		m.renewals.Schedule(e, m.now, m.now)
	}
	if e.flight == 0 { // failImpatient may have sent a script
		m.proceed(e)
	}
}
