package core

import (
	"time"

	"github.com/holdfast-go/holdfast/renewal"
)

// renew sends the renewals that have fallen due, many leases in one script.
func (m *Machine) renew() {
	m.due = m.renewals.Due(m.now, m.due[:0])
	ready := m.due[:0]
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
			ready = append(ready, l)
		}
	}
	for _, batch := range renewal.Batches(ready, func(*lock) uint8 { return 0 }, m.cfg.RenewBatch) {
		m.sendRenewal(m.cfg.Lease, batch)
	}
	clear(m.due)
}

// sendRenewal sends one script for a batch of locks.
func (m *Machine) sendRenewal(lease time.Duration, batch []*lock) {
	m.lastID++
	r := &Renewal{ID: m.lastID, Sent: m.now, Lease: lease, Entries: make([]RenewalEntry, len(batch))}
	for i, l := range batch {
		if l.flight != 0 {
			panic("lockmgr: two scripts in flight for one name")
		}
		l.flight, l.flightKind = r.ID, KindRenew
		if lease > m.cfg.Lease {
			l.more().longer.set = true
		}
		r.Entries[i] = RenewalEntry{Name: l.name, Owner: l.owner, lock: l}
	}
	m.stats.Scripts++
	m.stats.Renewals++
	m.emit(Renew{r})
}

// renewed handles the answer to a batch.
func (m *Machine) renewed(ev *Renewed) {
	batch := ev.Renewal
	renewed, failed := 0, 0
	var err error
	for i := range batch.Entries {
		e := &batch.Entries[i]
		l := e.lock
		if l == nil || l.flight != batch.ID {
			continue // stale
		}
		e.lock = nil
		l.flight = 0
		m.health.report(batch.Sent, e.Ran, e.Final, e.Err, m.cfg.RetryTime)
		switch {
		case e.Ran != Yes:
			failed++
			err = e.Err
			if e.Ran == Maybe {
				c := l.more()
				c.unknown.mayLive = max(c.unknown.mayLive, later(m.now+batch.Lease, m.cfg.SuspectTime))
			}
			m.renewalFailed(l, e.Err)
		case e.Lost:
			m.gone(l)
		default:
			renewed++
			m.confirm(l, batch.ID)
			m.renewedOne(l, batch)
		}
		m.settle(l)
	}
	if failed > 0 {
		m.stats.Fails++
		m.notice(Notice{What: RenewError, N: failed, Err: err})
	}
	if renewed > 0 {
		m.stats.Renewed += uint64(renewed)
		m.notice(Notice{What: BatchRenewed, N: renewed})
	}
}

func (m *Machine) renewedOne(l *lock, batch *Renewal) {
	if l.contended() {
		l.c.longer.sent = 0
	}
	if l.owner != 0 {
		m.trust(l, batch.ID, batch.Sent, batch.Lease)
	}
	if l.phase == held && l.hold.watched {
		m.watch(l)
	}
	m.proceed(l)
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
