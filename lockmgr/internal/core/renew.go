package core

import "time"

// renewDueLocks sends the renewals that have fallen due, each as an Op of its
// own. Those that are sent together may share a script: that is the shell's
// business.
func (m *Machine) renewDueLocks() {
	m.due = m.renewals.Due(m.now, m.due[:0])
	for _, e := range m.due {
		n := e.of
		switch {
		case n.phase != held || !n.hold.watched:
			// The next watched holder puts it back.
		case n.flight != 0:
			m.renewals.Schedule(&n.entry, m.now, m.now)
		case n.entry.number != n.hold.Number && (!n.c.retry.failing() || n.c.unknown.replaced()):
			// A transfer is due, and it renews too. But if the server refuses
			// transfers, for want of memory, the record is renewed as it is.
			m.renewals.Schedule(&n.entry, m.now, m.now)
			if m.now >= n.c.retry.at || !n.c.retry.failing() {
				m.transferTo(n, n.hold)
			}
		case m.renewDue(n) > m.now:
			m.watch(n) // a transfer has renewed it since
		default:
			m.renew(n, m.cfg.Lease)
		}
	}
	clear(m.due)
	if cap(m.due) > 1<<14 {
		m.due = nil // after a burst
	}
}

// renew sends a renewal of a lock's record.
func (m *Machine) renew(n *name, lease time.Duration) {
	if lease > m.cfg.Lease {
		n.more().longer.set = true
	}
	m.send(n, VerbRenew, n.entry.number, lease, 0)
}

// tally counts the renewals among the replies of one event, which are reported
// together.
type tally struct {
	renewed, failed int
	err             error // the newest failure
}

// reportRenewals reports what was counted, and begins anew.
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
func (m *Machine) renewed(n *name, r *Reply) {
	switch {
	case r.Ran != Yes:
		m.tally.failed, m.tally.err = m.tally.failed+1, r.Err
		m.renewalFailed(n, r.Err)
	case !r.OK:
		m.gone(n)
	default:
		m.tally.renewed++
		if n.contended() {
			n.c.longer.sent = 0
		}
		if n.entry.number != 0 {
			m.trust(n, r.Op.ID, r.Op.Sent, r.Op.Lease)
		}
		if n.phase == held && n.hold.watched {
			m.watch(n)
		}
		m.proceed(n)
	}
}

// renewalFailed tries again at the next slot of the renewal map, well before the
// next tick. The deadline stays: only a confirmed script moves it.
func (m *Machine) renewalFailed(n *name, err error) {
	if n.phase != held {
		m.failOnce(n, err)
	}
	if c := n.c; n.contended() {
		c.longer.want, c.longer.sent = max(c.longer.want, c.longer.sent), 0
	}
	if c := n.c; c.longer.want > 0 {
		c.retry.at = m.now + m.cfg.tick()/8
	}
	if n.phase == held && n.hold.watched {
		m.renewals.Schedule(&n.entry, m.now, m.now)
	}
	m.proceed(n)
}
