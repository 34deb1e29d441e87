package core

import "time"

// renewDueLocks sends the renewals that have fallen due, each as an Op of its
// own. Those that are sent together may share a script: that is the shell's
// business.
func (m *Machine) renewDueLocks() {
	m.due = m.renewals.Due(m.now, m.due[:0])
	for _, l := range m.due {
		switch {
		case l.phase != held || !l.hold.watched:
			// The next watched holder puts it back.
		case l.flight != 0:
			m.renewals.Schedule(l, m.now, m.now)
		case l.owner != l.hold.Number && (!l.c.retry.failing() || l.c.unknown.replaced()):
			// A transfer is due, and it renews too. But if the server refuses
			// transfers, for want of memory, the record is renewed as it is.
			m.renewals.Schedule(l, m.now, m.now)
			if m.now >= l.c.retry.at || !l.c.retry.failing() {
				m.transferTo(l, l.hold)
			}
		case m.renewDue(l) > m.now:
			m.watch(l) // a transfer has renewed it since
		default:
			m.renew(l, m.cfg.Lease)
		}
	}
	clear(m.due)
}

// renew sends a renewal of a lock's record.
func (m *Machine) renew(l *lock, lease time.Duration) {
	if lease > m.cfg.Lease {
		l.more().longer.set = true
	}
	m.send(l, KindRenew, l.owner, lease, 0)
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
func (m *Machine) renewed(l *lock, r *Reply) {
	switch {
	case r.Ran != Yes:
		m.tally.failed, m.tally.err = m.tally.failed+1, r.Err
		m.renewalFailed(l, r.Err)
	case !r.OK:
		m.gone(l)
	default:
		m.tally.renewed++
		if l.contended() {
			l.c.longer.sent = 0
		}
		if l.owner != 0 {
			m.trust(l, r.Op.ID, r.Op.Sent, r.Op.Lease)
		}
		if l.phase == held && l.hold.watched {
			m.watch(l)
		}
		m.proceed(l)
	}
}

// renewalFailed tries again at the next slot of the renewal map, well before the
// next tick. The deadline stays: only a confirmed script moves it.
func (m *Machine) renewalFailed(l *lock, err error) {
	if l.phase != held {
		m.failOnce(l, err)
	}
	if c := l.c; l.contended() {
		c.longer.want, c.longer.sent = max(c.longer.want, c.longer.sent), 0
	}
	if c := l.c; c.longer.want > 0 {
		c.retry.at = m.now + m.cfg.tick()/8
	}
	if l.phase == held && l.hold.watched {
		m.renewals.Schedule(l, m.now, m.now)
	}
	m.proceed(l)
}
