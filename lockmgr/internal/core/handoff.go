package core

// passOn decides what becomes of an entry without a hold. The first waiter gets the entry, at once
// or after a transfer. Otherwise the entry is kept or released. If the entry is not ours any more,
// passOn asks for a new one. An Unlock that waits is answered when the waiter gets the entry, so a
// loss found by the transfer is told.
//
// answered is the operation just confirmed, or nil. If answered is not nil, the lease and the
// number of subscribers are up to date.
func (m *Machine) passOn(e *entry, answered *Op) {
	n := e.of
	r := n.queue.head
	if e.phase == held && (r != nil || n.hasDetails()) {
		e.makeUpkeep().freeSince = m.now
	}
	m.becomePassing(e)
	switch {
	case e.number == 0: // the record is gone
		m.startOver(e)
	case m.isReserved(e): // also past the deadline: a record with this number is ours
		m.release(e)
	case m.now >= e.until:
		m.recordExpired(e)
	case r == nil, !n.rules().passes(e, r):
		m.release(e)
	case r.acquiredBy(answered):
		m.handTo(e, r, answered, false)
	case !n.rules().transfers():
		m.release(e)
	default:
		m.handOver(e, r, answered)
	}
}

// acquiredBy reports whether an operation has acquired an entry for the request, the first of the
// queue. An acquire for a place of a fair lock was for the request of the place, which may have
// left the queue.
func (r *Request) acquiredBy(op *Op) bool {
	return op != nil && op.Verb == VerbAcquire && (r.own.Number == op.Number || r.entry.of.places() == nil)
}

// recordExpired handles an entry without a hold that is past its deadline.
func (m *Machine) recordExpired(e *entry) {
	m.answerUnlock(e, nil) // no answer has shown a loss
	m.distrust(e)
	if e.of.queue.head != nil && e.flight == 0 {
		m.noteHandoff(e)
		run := &e.of.details.run
		if m.decideRun(e) != goOn || e.of.plainOrReadWrite() && run.ended(m.cfg.PassCount, m.now-run.start, &m.cfg) {
			// The run is over, or would be if others waited. The answer to the release reports
			// others. Otherwise holders whose leases run out one after another, each with an
			// acquire, would keep others from the lock.
			e.upkeep().giveBack = true
			m.release(e)
			return
		}
	}
	m.startOver(e)
}

// handOver passes an entry on to the first waiter, unless the run is over. The entry was not
// acquired for this waiter.
func (m *Machine) handOver(e *entry, r *Request, answered *Op) {
	m.noteHandoff(e)
	n, u := e.of, e.upkeep()
	run := m.decideRun(e)
	if run == runIsOver {
		m.noticeOf(n, Notice{What: StoodBack, N: u.unasked})
		m.stats.StoodBack++
	}
	switch {
	case u.life.long, run == runIsOver:
		// The record of a long fixed lease must not outlive the holder. If the record were passed
		// on and this process died, nobody could have the lock for the rest of the lease.
		u.giveBack = true
		m.release(e)
		return
	case run == askFirst:
		m.transferFirst(e, r)
		return
	}
	if answered == nil && !u.doubt.open() && (!u.passed || m.unproven(e)) {
		u.passed = true
		u.doubt.raise(m.lastID)
	}
	m.handTo(e, r, answered, true)
}

// handTo gives an entry without a hold to the first waiter, or sends the script that must come
// first. passed is set unless the entry was acquired for the waiter.
func (m *Machine) handTo(e *entry, r *Request, answered *Op, passed bool) {
	switch {
	case !e.upkeep().doubt.open() && !m.lacks(e, r, answered):
		r.Passed = passed
		m.answerUnlock(e, nil)
		m.grant(e, r)
		m.sendDue(e)
	case !e.of.rules().transfers():
		m.release(e)
	default:
		m.transferFirst(e, r)
	}
}

// lacks reports whether an entry lacks something that the next holder needs, and that only a
// transfer brings: enough lease, a token, or the turn in the queue of the server. answered is the
// operation that has just been confirmed, or nil.
func (m *Machine) lacks(e *entry, r *Request, answered *Op) bool {
	switch {
	case r.Fenced && !m.mayTakeToken(e, r), m.behind(e, r):
		return true
	case answered != nil && (answered.byMessage || answered.Lease >= m.leaseOf(r)): // the lease has just begun
		return false
	}
	return m.short(e, r)
}

// short reports whether too little of the entry's lease is left for a request. The entry may have
// come with an earlier request's short lease.
func (m *Machine) short(e *entry, r *Request) bool {
	return e.until-m.now < m.cfg.usable(m.leaseOf(r))/3
}

// startOver handles an entry that is not ours any more. startOver asks for the entry again, or lets
// the entry rest.
func (m *Machine) startOver(e *entry) {
	n := e.of
	switch {
	case e.flight != 0: // the answer leads here again
	case n.queue.head != nil && !n.enoughAsk(e):
		m.ask(e)
	default:
		m.releaseOrRest(e)
	}
}

// gone handles an answer by which the entry is not ours any more.
func (m *Machine) gone(e *entry) {
	parts := e.of.rules().parts(e) && e.number != 0
	if parts {
		m.distrust(e) // one record is gone, the others may be there
	}
	m.disown(e)
	m.unreserve(e)
	m.loseAll(e, e.of.rules().goneErr())
	m.answerUnlock(e, e.of.rules().goneErr())
	if parts {
		// Release even if somebody here waits. A try that gathers would shorten the life of the
		// records that are left, and waiters elsewhere would get no message when the records end.
		m.release(e)
		return
	}
	m.passOn(e, nil)
}

// disown notes that an entry is not ours any more.
func (m *Machine) disown(e *entry) {
	if o := e.of.outsiders(); o != nil {
		o.hadFor += o.has(e, m.now)
	}
	e.number = 0
	m.renewals.Remove(e)
	if e.of.hasDetails() {
		e.upkeep().tokens.drop()
	}
}

// distrust is disown for an entry whose record may still exist. The entry's number becomes a
// suspect, so that the next script names the number.
func (m *Machine) distrust(e *entry) {
	if e.number != 0 {
		e.makeUpkeep().unknown.add(suspect{number: e.number, until: m.suspectUntil(), stray: true, ours: true})
	}
	m.disown(e)
}

// mayKeep reports whether the first waiter may have an entry that is to be released, if the release
// does not run.
func (m *Machine) mayKeep(e *entry) bool {
	r, rules := e.of.queue.head, e.of.rules()
	if r == nil || m.isReserved(e) || m.closing {
		return false
	}
	return rules.transfers() && rules.passes(e, r)
}
