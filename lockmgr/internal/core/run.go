package core

import "time"

// A run is a row of grants of this manager, and what scripts have said of others meanwhile. If
// others want the name, a run ends after PassCount grants or PassTime: see runOver and outsiders.
type run struct {
	grants int           // of this run, of all entries: tenure.unasked counts those of one
	start  time.Duration // when the first of them was made

	others bool // others may want the name, by the last reply that said so; at first false
	// transferSawNone is set if the last transfer since the entry came to us reported no others.
	// others may also be false because of a release, or at first.
	transferSawNone bool
}

// grant counts a grant.
func (r *run) grant(now time.Duration) {
	if r.grants++; r.grants == 1 {
		r.start = now
	}
}

// begin begins a new run.
func (r *run) begin(now time.Duration) { r.grants, r.start = 0, now }

// ended reports whether a run has had as many grants as most, or has lasted for PassTime.
func (r *run) ended(most int, lasted time.Duration, cfg *Config) bool {
	return r.grants >= most || r.grants > 0 && lasted >= cfg.PassTime
}

// noteHandoff notes that an entry is to be passed on, or shared with one more hold.
func (m *Machine) noteHandoff(e *entry) {
	m.advanceOutsiders(e.of)
	if u := e.makeUpkeep(); u.passingSince == 0 {
		u.passingSince = m.now
	}
}

type runDecision uint8

const (
	goOn      runDecision = iota
	askFirst              // the run may go on if a transfer reports that nobody else waits
	runIsOver             // the run is over
)

// decideRun returns whether a run of grants may go on: see runOver. If nobody is known to wait, a
// transfer asks after PassCount grants, or after 8×PassCount if the last transfer reported nobody:
// the transfers of a fast run report a new waiter in time. Before a hold joins others, which counts
// as no grant, a transfer also asks after PassTime. A run of readers also ends if a writer waits
// elsewhere.
func (m *Machine) decideRun(e *entry) runDecision {
	run, u := &e.of.details.run, e.upkeep()
	most := m.mostGrants(run)
	switch {
	case m.runOver(e), u.writerWaits:
		return runIsOver
	case e.of.plainOrReadWrite() && (u.unasked >= most || e.hold != nil && run.ended(most, m.now-run.start, &m.cfg)):
		return askFirst
	}
	return goOn
}

// runOver reports whether an entry of a name with a line is to be released instead of passed on.
// The entry is released in a pause for outsiders. The entry is also released after a run if others
// wait, or if the server does not count who waits. And a lock is given back from time to time for
// processes that nobody knows of, because these processes poll: see keptLong.
func (m *Machine) runOver(e *entry) bool {
	p := e.of.position()
	switch {
	case p == nil:
		return false
	case m.now < p.outsiders.until:
		return true
	}
	over := e.upkeep().unasked >= m.cfg.PassCount || m.now-e.runSince >= m.cfg.PassTime
	othersWait := e.of.details.run.others || !m.cfg.TrustSubscribers
	return over && othersWait || e.of.plainOrReadWrite() && m.keptLong(e)
}

// keptLong reports whether the entry has been passed on here for so long that a process without a
// subscription must get a chance. The time counts from the first handoff, or from newRun. Until
// then the first holder kept everybody out, here and elsewhere.
func (m *Machine) keptLong(e *entry) bool {
	since := e.upkeep().passingSince
	return m.cfg.ShareEvery > 0 && since > 0 && m.now-since >= m.cfg.shareDue()
}

// mostGrants returns after how many grants a run ends, or a transfer asks whether others wait.
func (m *Machine) mostGrants(r *run) int {
	if r.transferSawNone {
		return 8 * m.cfg.PassCount
	}
	return m.cfg.PassCount
}

// asksEarly reports whether a transfer does not wait for nextTransfer, because it is to report the
// number of subscribers: a run that is over must not wait for the number. asksEarly is true from
// half of a run on, unless a transfer of the run has reported others.
func (m *Machine) asksEarly(e *entry) bool {
	r, u := &e.of.details.run, e.upkeep()
	return e.of.plainOrReadWrite() && !u.retry.failing() && !r.others && 2*u.unasked >= m.mostGrants(r)
}

// newRun begins a new run while an entry is ours. Requests may share the entry again.
func (m *Machine) newRun(e *entry) {
	u := e.makeUpkeep()
	u.passingSince, u.unasked, u.writerWaits, u.shutUntil = m.now, 0, false, 0
	if o := e.of.outsiders(); o != nil {
		o.hadFor += o.has(e, m.now)
	}
	e.runSince = m.now
	e.of.details.run.begin(m.now)
}

// runReleased notes what the answer to a release says of others. If the release has ended a run of
// grants, a new run begins. If it has handed on to nobody in the line, although others subscribe or
// may poll, a client that was never heard may wait: a pause begins, too.
func (m *Machine) runReleased(o *outsiders, e *entry, r *Reply) {
	run, back, most := &e.of.details.run, e.upkeep().giveBack, m.cfg.PassCount
	if !r.OK || r.Op.Reserve > 0 {
		return // nothing came free
	}
	others := m.othersOf(e.of, r.Subscribers)
	if x := e.of.index(); x != nil {
		most *= max(1, x.held)
	} else { // with an index, other entries may go on, and r leaves out who stands in the line
		run.others = others
	}
	ended := r.HandedOn || back || run.ended(most, m.now-run.start, &m.cfg)
	if !ended || o.known(m.now, &m.cfg) {
		return // if an outsider is known, outsiders.advance ends the run
	}
	if !r.HandedOn && (others || back && m.keptLong(e)) {
		o.pauseInCase(m.now, others, &m.cfg, &m.jitter)
	}
	run.begin(m.now)
}

// othersOf reports whether others may want a name, by the number of subscribers that a script has
// reported. Others may also want the name if the number is unknown.
func (m *Machine) othersOf(n *name, subscribers int64) bool {
	return n.places() == nil && (subscribers != 0 || !m.cfg.TrustSubscribers)
}
