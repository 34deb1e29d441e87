package core

import "time"

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
	case m.isReserved(e): // even if it may have expired: a record of its number was ours all the time
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
	return op != nil && op.Verb == VerbAcquire && (r.own.Number == op.Number || !r.entry.of.places())
}

// recordExpired handles an entry without a hold that is past its deadline.
func (m *Machine) recordExpired(e *entry) {
	m.answerUnlock(e, nil) // an answer does not show a loss
	m.distrust(e)
	if e.of.queue.head != nil && e.flight == 0 {
		m.countHandoff(e)
		if m.decideRun(e) != goOn || e.of.isLock() && e.of.details.run.ended(m.cfg.PassCount, m.now, &m.cfg) {
			// The answer to the release reports whether others wait. Otherwise holders whose leases
			// run out one after another would keep others from the lock.
			e.upkeep().giveBack = true
			m.release(e)
			return
		}
	}
	m.startOver(e)
}

// handOver gives an entry that had a holder here, or was kept, to the first waiter, unless the run
// is over.
func (m *Machine) handOver(e *entry, r *Request, answered *Op) {
	m.countHandoff(e)
	n, u := e.of, e.upkeep()
	run := m.decideRun(e)
	if run == runIsOver {
		m.noticeOf(n, Notice{What: StoodBack, N: u.grants})
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
// first. passed is set if the entry had a holder here before, or was kept.
func (m *Machine) handTo(e *entry, r *Request, answered *Op, passed bool) {
	u := e.upkeep()
	lacks := m.lacks(e, r, answered)
	switch {
	case !lacks && !u.doubt.open():
		r.Passed = passed
		m.answerUnlock(e, nil)
		m.grant(e, r)
		m.sendDue(e)
	case !e.of.rules().transfers():
		m.release(e)
	case !lacks && u.retry.failing() && !u.unknown.replaced():
		m.renewFirst(e, r)
	default:
		m.transferFirst(e, r)
	}
}

// lacks reports whether an entry lacks something that the next holder needs, and that only a
// transfer brings: enough lease, a token, or the turn in the queue of the server. answered is as
// for passOn.
func (m *Machine) lacks(e *entry, r *Request, answered *Op) bool {
	switch {
	case r.Fenced && !m.mayTakeToken(e, r), m.behind(e, r):
		return true
	case answered != nil && (answered.told || answered.Lease >= m.leaseOf(r)): // the lease has just begun
		return false
	}
	return m.short(e, r)
}

// renewFirst sends a renewal that looks for the record before the next holder gets the entry. The
// renewal stands in for a refused transfer: a server that is out of memory refuses transfers, but
// no renewals.
func (m *Machine) renewFirst(e *entry, r *Request) {
	if e.flight == 0 && m.now >= e.upkeep().retry.at {
		m.renew(e, m.leaseOf(r))
	}
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
	case n.queue.head != nil && !n.served(e):
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
	m.loseAll(e, e.of.rules().gone())
	m.answerUnlock(e, e.of.rules().gone())
	if parts {
		// Release even if somebody here waits. A try that gathers would shorten the life of the
		// records that are left, and waiters elsewhere would get no message when the records end.
		m.release(e)
		return
	}
	m.passOn(e, nil)
}

type runDecision uint8

const (
	goOn      runDecision = iota
	askFirst              // the run may go on if a transfer reports that nobody else waits
	runIsOver             // the run is over
)

// countHandoff notes that an entry is to be passed on, or shared with one more hold. If a transfer
// would have to ask whether others wait, but a transfer of the present run has reported that nobody
// does, countHandoff begins a new run.
func (m *Machine) countHandoff(e *entry) {
	u, run := e.makeUpkeep(), &e.of.details.run
	m.advanceOutsiders(e.of)
	if u.firstPass == 0 {
		u.firstPass = m.now
	}
	if run.fresh && m.decideRun(e) == askFirst {
		run.begin(m.now)
	}
}

// decideRun returns whether a run of grants may go on. A run ends after PassCount grants or
// PassTime if others wait: see runOver. If nobody is known to wait, a transfer asks after PassCount
// grants, or after 8×PassCount if the last transfer reported nobody: the transfers of a fast run
// report a new waiter in time. Before a hold joins others, which counts as no grant, a transfer
// also asks after PassTime. A run of readers also ends if a writer waits elsewhere.
func (m *Machine) decideRun(e *entry) runDecision {
	run, u := &e.of.details.run, e.upkeep()
	most := m.mostGrants(run)
	switch {
	case m.runOver(e), u.writerWaits:
		return runIsOver
	case e.of.isLock() && (u.grants >= most || e.hold != nil && run.ended(most, m.now, &m.cfg)):
		return askFirst
	}
	return goOn
}

// newRun begins a new run while an entry is ours.
func (m *Machine) newRun(e *entry) {
	u := e.makeUpkeep()
	u.firstPass, u.grants, u.writerWaits = m.now, 0, false
	if o := e.of.outsiders(); o != nil {
		o.had += m.now - e.since
	}
	e.since = m.now
	e.of.details.run.begin(m.now)
}

// mostGrants returns after how many grants a run ends, or a transfer asks whether others wait.
func (m *Machine) mostGrants(r *run) int {
	if r.noOthers && m.cfg.TrustSubscribers {
		return 8 * m.cfg.PassCount
	}
	return m.cfg.PassCount
}

// wanted reports whether the first waiter may have an entry that is to be released, if the release
// does not run.
func (m *Machine) wanted(e *entry) bool {
	r := e.of.queue.head
	return r != nil && e.of.passesOn(e, r) && !m.isReserved(e) && !m.closing
}

// admit lets requests at the head of the queue share a held entry, as far as the rules allow. admit
// returns when to try again.
func (m *Machine) admit(e *entry) (again time.Duration) {
	n := e.of
	for r := n.queue.head; r != nil && n.rules().joins(e, r); r = n.queue.head {
		u := e.makeUpkeep()
		if u.upgrade != nil {
			return Forever // the answer to its transfer leads here again
		}
		if m.now < u.shutUntil {
			return min(u.shutUntil, m.admitImpatient(e))
		}
		m.countHandoff(e)
		run := m.decideRun(e)
		if run == runIsOver && !u.writerWaits {
			// The run is over, so nobody is admitted for a while. If all holds end until then, the
			// entry is released and other processes get a turn. If a hold lasts longer, a new run
			// begins with a transfer. A transfer that reports a writer sets shutUntil itself.
			if u.shutUntil == 0 {
				u.shutUntil = m.now + m.shutFor()
				return min(u.shutUntil, m.admitImpatient(e))
			}
			m.reopen(e)
		}
		if ready, again := m.prepareJoin(e, r, run != goOn); !ready {
			return again // the answer leads here again, too
		}
		r.Passed = true
		m.grant(e, r)
	}
	if n.queue.head != nil && n.index() == nil {
		m.failImpatient(n, ErrNotAcquired) // the requests that are left would have to wait for an unlock
	}
	return Forever
}

// shutFor returns for how long nobody is admitted to a shared entry after a run, or while a writer
// waits elsewhere. A long PassTime must not keep readers from an entry for as long: no message
// tells that a writer has left.
func (m *Machine) shutFor() time.Duration { return min(m.cfg.PassTime, mostShut) }

const mostShut = 100 * time.Millisecond

// reopen begins a new run of a shared entry.
func (m *Machine) reopen(e *entry) {
	u := e.makeUpkeep()
	u.shutUntil = 0
	m.newRun(e)
}

// prepareJoin reports whether a request may join the holds of an entry now. If a script must be
// answered first, prepareJoin sends the script unless one is in flight. In this case prepareJoin
// returns when to call it again if no answer comes. ask is set if a transfer must first report
// whether others wait.
func (m *Machine) prepareJoin(e *entry, r *Request, ask bool) (ready bool, again time.Duration) {
	u := e.makeUpkeep()
	needsTransfer := ask || m.short(e, r) || r.Fenced && !u.tokens.left(r.Side)
	mayBeGone := m.unproven(e) || r.Fenced && !m.mayTakeToken(e, r)
	if !needsTransfer && mayBeGone && !u.doubt.open() {
		m.doubt(e) // a renewal looks for the record
	}
	switch {
	case !needsTransfer && !u.doubt.open():
		return true, Forever
	case e.flight != 0:
		return false, Forever
	case !needsTransfer && u.extend.want > 0:
		return false, m.sendDue(e) // the renewal: a server that is out of memory refuses transfers
	case m.now < u.retry.at:
		return false, u.retry.at
	}
	m.transfer(e, e.of.rules().side(e), e.target(), m.leaseOf(r), tokensFor(r))
	return false, Forever
}

// admitImpatient grants or fails the requests with Once set, while nobody else is admitted to an
// entry. Requests with Once set may join if no other process may wait, because only this process
// has the name. Requests without Once go on waiting, because a process without a subscription may
// wait. admitImpatient returns when to call it again.
func (m *Machine) admitImpatient(e *entry) (again time.Duration) {
	n := e.of
	if !n.takeImpatient() {
		return Forever
	}
	othersMayWait := e.upkeep().writerWaits || n.details.run.others > 0 || !m.cfg.TrustSubscribers
	for r := n.queue.head; r != nil; {
		next := r.next
		switch {
		case !r.Once:
		case othersMayWait || n.waitsAlone():
			m.failQueued(r, ErrNotAcquired)
		default:
			ready, again := m.prepareJoin(e, r, false)
			if !ready {
				n.details.impatient = true
				return again
			}
			r.Passed = true
			m.grant(e, r)
		}
		if r = next; r != nil && r.state != reqQueued {
			r = n.queue.head // the grant has re-entered next, too, so next has left the queue
		}
	}
	return Forever
}

// mostSpacing is the longest time between two transfers of an entry that is passed on fast, in
// units of Config.RecordEvery. While nobody else waits the time doubles with each transfer, up to
// mostSpacing or a quarter of PassTime, whichever is less. With this bound, a run that may go on
// need not stop to ask.
//
// A process that begins to wait is noticed late, by up to the time between two transfers. For as
// long, a record may name a holder that is gone, or for twice as long if the name has several
// entries: see transfer.
const mostSpacing = 16

// transferFirst sends a transfer for the next holder, which gets the entry only when the transfer
// has been answered. The reasons are: too little of the lease is left, no token is left, others may
// be waiting, or the record may be gone.
func (m *Machine) transferFirst(e *entry, r *Request) {
	if u := e.makeUpkeep(); e.flight != 0 || m.now < u.retry.at {
		return
	}
	if r.own.Number == 0 || r.entry != e {
		r.own.Number, r.entry = m.number(), e
	}
	e.woken = false
	m.transfer(e, r.Side, r.own.Number, m.leaseOf(r), tokensFor(r))
}

// transferTo sends a transfer that records the present holds of the entry.
func (m *Machine) transferTo(e *entry) {
	m.transfer(e, e.of.rules().side(e), e.target(), 0, 0)
}

// transfer sends a transfer. The script writes a number of ours into the record as the holder's,
// and gives the record a side. If the number is new to the record, the script also sets the
// record's life: to what the holds of the entry need, or to lease, which the next holder needs,
// whichever is longer. A life of more than Config.Lease may thus become shorter, so from now on the
// entry is trusted for no longer than the new life. A life of up to Config.Lease does not become
// shorter, because refused managers were told when the life ends.
func (m *Machine) transfer(e *entry, side Side, number uint64, lease time.Duration, tokens int64) {
	u := e.makeUpkeep()
	if e.hold != nil {
		lease = max(lease, m.needed(e))
	}
	if left := min(e.until-m.now, m.cfg.usable(m.cfg.Lease)); left > 0 {
		lease = max(lease, m.cfg.leaseFor(left))
	}
	u.life.long = u.life.long || lease > m.cfg.Lease
	u.life.until = max(u.life.until, e.until, later(m.now, lease))
	if until := m.now + m.cfg.usable(lease); until < e.until {
		e.until = until
		m.tellUntils(e)
	}
	every := max(m.cfg.RecordEvery, u.spacing)
	u.nextTransfer = m.now + every
	if e.of.index() != nil {
		// The transfers of all entries fall due together, because the transfers can share a script.
		u.nextTransfer = u.nextTransfer.Truncate(every) + every
	}
	// A number is written with one side only: see upkeep.number. Another side needs another number.
	otherThanNow := number == e.number && side != e.side
	otherThanNext := number == u.number && side != u.side
	if (otherThanNow || otherThanNext) && e.hold != nil {
		m.renumber(e, side)
		number = u.number
	}
	u.life.exact = number != e.number && !u.unknown.replaced()
	m.send(e, VerbTransfer, side, number, lease, tokens)
}

// transferred handles the answer to a transfer.
func (m *Machine) transferred(e *entry, r *Reply) {
	u := e.makeUpkeep()
	switch {
	case r.Ran != Yes:
		if r.Ran == Maybe && r.Op.Tokens > 0 { // it may take a larger token late, and others may get that
			u.tokens.drop()
		}
		if wasUpgrade := r.Op.Side == Alone && e.of.rules().side(e) == Shared; wasUpgrade && e.hold != nil {
			m.undoUpgrade(e)
		}
		m.upgraded(e, r)
		m.transferFailed(e, r)
	case r.Kept: // others share the record: the upgrade has failed
		u.retry.succeeded()
		m.undoUpgrade(e)
		m.upgraded(e, r)
		m.proceed(e)
	case r.GaveWay:
		m.gaveWay(e, r)
	case !r.OK:
		m.upgraded(e, r)
		m.gone(e)
	default:
		m.transferDone(e, r)
	}
}

// transferDone handles the answer that a transfer has written its number.
func (m *Machine) transferDone(e *entry, r *Reply) {
	n, u, op := e.of, e.upkeep(), r.Op
	u.retry.succeeded()
	if e.number != 0 {
		e.number, e.side = op.Number, op.Side
		m.trust(e, op.ID, op.Sent, op.Lease)
		if l := &u.life; l.exact { // no earlier transfer can have set another life
			l.until, l.long = later(m.now, op.Lease), op.Lease > m.cfg.Lease
		} else {
			l.check = true
		}
		if op.Tokens > 0 {
			u.tokens.got(r.Token, op.Tokens)
		}
	} else { // the entry was given up while the transfer was in flight
		u.unknown.add(suspect{number: op.Number, until: m.suspectUntil(), stray: true})
	}
	if r.WriterWaits {
		u.shutUntil = m.now + m.shutFor()
	} else if u.writerWaits {
		m.reopen(e)
	}
	u.writerWaits = r.WriterWaits
	m.upgraded(e, r)
	m.countOthers(e, m.othersOf(n, r.Subscribers))
	if e.phase == passing {
		m.passOn(e, op)
	} else {
		m.proceed(e)
	}
	n.details.special.transferred(m, n)
}

// countOthers notes how many others wait, by a transfer. If there are none, a new run begins, and
// transfers become rarer: see mostSpacing.
func (m *Machine) countOthers(e *entry, others int64) {
	run, u := &e.of.details.run, e.upkeep()
	every := m.cfg.RecordEvery
	run.others, run.noOthers = others, others == 0
	if run.noOthers && !e.of.places() {
		run.begin(m.now)
		u.grants = 0
		u.spacing = min(2*max(u.spacing, every), mostSpacing*every, max(every, m.cfg.PassTime/4))
	} else {
		u.spacing, u.nextTransfer = 0, min(u.nextTransfer, m.now+every)
	}
	run.fresh = true
}

// gaveWay handles the answer that a transfer has given the lock back, because others come before
// the next request.
func (m *Machine) gaveWay(e *entry, r *Reply) {
	n := e.of
	e.makeUpkeep().retry.succeeded()
	m.disown(e)
	m.noticeOf(n, Notice{What: Released})
	m.answerUnlock(e, nil)
	m.failImpatient(n, ErrNotAcquired)
	switch {
	case n.queue.head == nil || m.closing:
		m.releaseOrRest(e)
	case m.takeGrant(e): // others have released the lock already
	case e.woken: // others may have released the lock already
		m.ask(e)
	default:
		m.becomeWaiting(e, m.now+m.poll(n, r.TTL))
		n.details.special.hear(m, n)
	}
}

// undoUpgrade gives an entry the number and the side that the entry had before an upgrade that
// changed nothing or got no answer. If an unanswered upgrade may still run, the entry gets a new
// number, so that the late upgrade finds an unknown number.
func (m *Machine) undoUpgrade(e *entry) {
	u := e.makeUpkeep()
	u.number, u.side = e.number, e.side
	if u.unknown.replaced() {
		m.renumber(e, e.of.rules().side(e))
	}
}

// transferFailed arranges another try of the transfer, and fails the requests that the error
// concerns.
func (m *Machine) transferFailed(e *entry, r *Reply) {
	n, u := e.of, e.upkeep()
	forTokens := r.Final && r.Op.Tokens > 0 // perhaps the error concerns no others
	if u.upgrade != nil && (!forTokens || u.upgrade.Fenced) {
		m.failUpgrade(e, r.Err)
	}
	u.nextTransfer = m.failed(e, r.Err)
	if !forTokens {
		m.failImpatient(n, r.Err)
	}
	if e.phase == passing && r.Final { // do not wait for a subscriber count
		n.details.run.others = max(n.details.run.others, 1)
	}
	for q := range n.queue.all {
		if m.failsWith(e, q, r) {
			m.failQueued(q, r.Err)
		}
	}
	if head := n.queue.head; r.Final && !forTokens && head != nil {
		if m.short(e, head) || u.unknown.replaced() { // no renewal stands in for the transfer: see handTo
			m.passRefused(e)
		}
	}
	if e.flight == 0 {
		m.proceed(e)
	}
}

// failsWith reports whether a request in the queue fails because a transfer has failed.
func (m *Machine) failsWith(e *entry, q *Request, r *Reply) bool {
	forTokens := r.Final && r.Op.Tokens > 0
	noToken := r.Final && q.Fenced && !e.upkeep().tokens.left(q.Side)
	overdue := m.overdue(e, q)
	switch {
	case e.of.places(): // without a transfer no request gets a place in the queue, or the lock
		return (overdue || r.Final) && (q.Fenced || !forTokens)
	case e.phase == passing: // an error with OnlyThis set does not make the server failing, so health does not fail q
		return noToken || overdue && r.OnlyThis
	case forTokens:
		return noToken
	case e.phase == held: // a request that may join waits for this transfer and for nobody's unlock
		return overdue && e.of.rules().joins(e, q)
	}
	return false
}

// passRefused releases an entry without a hold, because the server refuses for good the script that
// must come before the next holder. The waiting requests ask for the entry anew. If the server
// refuses the release, too, the requests fail: see releaseFailed.
func (m *Machine) passRefused(e *entry) {
	if e.phase == passing && e.flight == 0 {
		e.makeUpkeep().cannotPass = true
		m.release(e)
	}
}
