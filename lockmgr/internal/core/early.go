package core

import "time"

// early is what a lock knows of a request that has not come yet.
//
// Most callers ask for a lock again soon after its release. While others wait, such a request would
// have to join the line. So the release joins the line early, behind those who wait, and the grant
// comes by message: a turn takes one command instead of two.
//
//	release: joins ──▶ in the line, nobody waits here ──▶ request: waits, no command
//	                           │                 │
//	                           │ Linger          │ granted, or told: given back at once
//	                           ▼                 ▼
//	                   release: leaves    the next release joins only for a request that waits
//
// D is the time from the answer to a release to the acquire that joins the line next. W is the time
// from that acquire to its grant. A release joins early if D is at most half of W: then the request
// is likely to come before the grant that the release's position would get. After a release that
// has joined, the estimate stays until a grant comes that nobody wants.
//
// A position without a request delays others if its process hangs. So the server forgets such a
// position soon: after six times the time from a release to the next grant, or after 75 ms if that
// is longer: see rememberedEarly. A request that still waits when two thirds of this time are over
// sends an acquire: see position.answered.
type early struct {
	likely        bool          // a request is likely to come before its grant would
	releasedAt    time.Duration // when the last release was answered, if nobody waited here when it was sent. Or zero
	releaseJoined bool          // that release has joined the line
	joinedAt      time.Duration // when the first acquire after that release joined the line. Zero: none has
	cycle         time.Duration // from a release to the next grant, lately
	// standsUntil is until when a request may wait without an acquire: the position stands. Zero:
	// no release has joined, an acquire was sent since, a channel delivers no messages, or the lock
	// may be free.
	standsUntil time.Duration
}

// estimate estimates whether a request is likely, when a lock is to be released. granted is when
// the lock was granted. waits is set if somebody waits here.
func (y *early) estimate(now, granted time.Duration, waits bool) {
	if y.releasedAt > 0 {
		y.cycle = granted - y.releasedAt
		if y.joinedAt > 0 && !y.releaseJoined {
			y.likely = 2*(y.joinedAt-y.releasedAt) <= granted-y.joinedAt
		}
	}
	y.releasedAt, y.releaseJoined, y.joinedAt = 0, false, 0
	if !waits {
		y.releasedAt = now
	}
}

// releaseAnswered notes that a release was answered, and whether the release has joined the line.
func (y *early) releaseAnswered(now time.Duration, joined bool) {
	if y.releasedAt > 0 {
		y.releasedAt, y.releaseJoined = now, joined
	}
}

// acquireJoins notes that an acquire that joins the line is about to be sent. The position that a
// release has joined counts no more.
func (y *early) acquireJoins(now time.Duration) {
	y.standsUntil = 0
	if y.joinedAt == 0 {
		y.joinedAt = now
	}
}

// expects reports whether the position of a name may stand without a request. The position of a
// read-write lock may not, because the position would keep out the readers of others.
func (p *position) expects(n *name) bool { return p.likely && n.kind == Exclusive }

// releaseJoins reports whether the release of an entry joins the line behind those who wait. An
// entry that is ours stands in no line: its acquire has left.
func (p *position) releaseJoins(m *Machine, e *entry) bool {
	n := e.of
	noGrants := n.sub != subOn || p.outside || m.cfg.GrantSecret == "" || !m.cfg.TrustSubscribers
	outsidersFirst := p.outsiders.known(m.now, &m.cfg) || m.now < p.outsiders.until
	switch r := n.queue.head; {
	case n.isSet(), e.number == 0, m.closing, noGrants, outsidersFirst:
		return false
	case r != nil:
		return r.Side == Alone && n.somebodyWaits()
	}
	return p.expects(n)
}

// rememberedEarly is remembered for a position that a release joins.
func (m *Machine) rememberedEarly(n *name, p *position) time.Duration {
	if n.queue.head != nil {
		return m.remembered()
	}
	return min(m.remembered(), max(6*p.cycle, leastEarly))
}

// leastEarly is the least time for which a position stands without a request. It is longer than
// most delays of a busy machine.
const leastEarly = 75 * time.Millisecond

// mayWait reports whether the first waiter may wait without an acquire. The position must stand for
// the waiter's side, and no request may try once. A request that takes over asks: while the name is
// kept, no grant comes.
func (p *position) mayWait(n *name, now time.Duration) bool {
	first := n.queue.head
	return now < p.standsUntil && first.Side == p.side && !first.takesOver() && !n.impatient()
}
