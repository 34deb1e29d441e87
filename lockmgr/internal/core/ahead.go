package core

import "time"

// ahead is what a lock knows of requests that have not come yet.
//
// Most callers ask for a lock again soon after its release. While others wait, such a request would have
// to join the line. So the release joins the line in advance, behind those who wait, and the grant comes
// by message: a turn takes one command instead of two.
//
//	release: joins ──▶ in the line, nobody waits here ──▶ request: waits, no command
//	                           │                 │
//	                           │ Linger          │ granted, or told: given back at once
//	                           ▼                 ▼
//	                   release: leaves    the next release does not join
//
// A release joins if the last request came before the lock would have been granted: its join took no
// longer to come than its grant took after the join.
type ahead struct {
	again bool          // a release joins, because a request is likely to come in time
	ended time.Duration // when the last release was sent, or zero
	asked time.Duration // when a try first joined the line since, or zero
	kept  time.Duration // after a release that has joined: until when the manager need not look. Or zero
}

// turnOver notes that a lock is to be released that was granted at an instant.
func (a *ahead) turnOver(now, granted time.Duration) {
	if a.ended > 0 && a.asked > 0 {
		a.again = a.asked-a.ended <= granted-a.asked
	}
	a.ended, a.asked = now, 0
}

// asks notes that a try is made that joins the line.
func (a *ahead) asks(now time.Duration) {
	if a.kept = 0; a.asked == 0 {
		a.asked = now
	}
}

// rejoins reports whether the release of an entry joins the line again, behind those who wait. A read-write
// lock does not join in advance: a position without a request would keep out the readers of others.
func (p *position) rejoins(m *Machine, e *entry) bool {
	n := e.of
	if !n.isLock() || e.number == 0 || p.joined != 0 || m.closing {
		return false
	}
	if n.sub != subOn || p.outside || m.cfg.GrantSecret == "" || p.others.known(m.now, &m.cfg) || m.now < p.others.until {
		return false // nobody would grant the lock by message, or others go first
	}
	if r := n.queue.head; r != nil {
		return r.Side == Alone && n.somebodyWaits()
	}
	return p.again && n.kind == Exclusive
}

// inLine reports whether the first waiter need not ask, because the manager has joined the line.
func (p *position) inLine(n *name, now time.Duration) bool {
	return now < p.kept && n.sub == subOn && n.queue.head.Side == p.side && !n.details.impatient
}

// wait makes an entry wait for the first waiter if the manager has joined the line. Otherwise, or if a
// grant came that is only a hint, wait asks for the entry. No script about the entry may be in flight.
func (m *Machine) wait(e *entry) {
	n := e.of
	switch p := n.position(); {
	case p == nil || !p.inLine(n, m.now):
		m.ask(e)
	case p.newest.Number == 0:
		m.becomeWaiting(e, p.kept)
	case !m.takeGrant(e):
		m.ask(e)
	}
}
