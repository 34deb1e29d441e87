package core

import "time"

// transferFirst sends a transfer for the next holder, which gets the entry only when the transfer
// has been answered. The reasons are: too little of the lease is left, no token is left, others may
// be waiting, or the record may be gone.
func (m *Machine) transferFirst(e *entry, r *Request) {
	if u := e.makeUpkeep(); e.flight != 0 || m.now < u.retry.at {
		return
	}
	if r.own.Number == 0 || r.entry != e {
		r.own.Number, r.entry = m.newNumber(), e
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
// record's life: see giveLife.
func (m *Machine) transfer(e *entry, side Side, number uint64, lease time.Duration, tokens int64) {
	u := e.makeUpkeep()
	// A number is written with one side only: see upkeep.number.
	otherSide := number == e.number && side != e.side || number == u.number && side != u.side
	if otherSide && e.hold != nil {
		m.renumber(e, side)
		number = u.number
	}
	lease = m.giveLife(e, number, lease)
	m.spaceTransfers(e)
	m.send(e, VerbTransfer, side, number, lease, tokens)
}

// giveLife returns the life that a transfer gives the record: what the holds of the entry need, or
// lease, which the next holder needs, whichever is longer. A life of more than Config.Lease may
// thus become shorter, so from now on the entry is trusted for no longer than the new life. A life
// of up to Config.Lease does not become shorter, because refused managers were told when the life
// ends.
func (m *Machine) giveLife(e *entry, number uint64, lease time.Duration) time.Duration {
	if e.hold != nil {
		lease = max(lease, m.needed(e))
	}
	if left := min(e.until-m.now, m.cfg.usable(m.cfg.Lease)); left > 0 {
		lease = max(lease, m.cfg.leaseFor(left))
	}
	u := e.makeUpkeep()
	u.life.long = u.life.long || lease > m.cfg.Lease
	u.life.until = max(u.life.until, e.until, later(m.now, lease))
	u.life.exact = number != e.number && !u.unknown.replaced()
	if until := m.now + m.cfg.usable(lease); until < e.until {
		e.until = until
		m.tellUntils(e)
	}
	return lease
}

// mostSpacing is the longest time between two transfers of an entry that is passed on fast, in
// units of Config.RecordEvery. While nobody else waits the time doubles with each transfer, up to
// mostSpacing or a quarter of PassTime, whichever is less. With this bound, a run that may go on
// need not stop to ask.
//
// A process that begins to wait is noticed late, by up to the time between two transfers. For as
// long, a record may name a holder that is gone, or for twice as long if the name has several
// entries: see spaceTransfers.
const mostSpacing = 16

// spaceTransfers notes when the next transfer may follow the one that is about to be sent.
func (m *Machine) spaceTransfers(e *entry) {
	u := e.makeUpkeep()
	every := max(m.cfg.RecordEvery, u.spacing)
	u.nextTransfer = m.now + every
	if e.of.index() != nil {
		// The transfers of all entries fall due together, because the transfers can share a script.
		u.nextTransfer = u.nextTransfer.Truncate(every) + every
	}
}

// transferred handles the answer to a transfer.
func (m *Machine) transferred(e *entry, r *Reply) {
	u := e.makeUpkeep()
	switch {
	case r.Ran != Yes:
		if r.Ran == Maybe && r.Op.Tokens > 0 { // the late script raises the counter, which readers elsewhere get as their token
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
		u.unknown.add(suspect{number: op.Number, until: m.suspectUntil(), stray: true, answered: true})
	}
	if r.WriterWaits {
		u.shutUntil = m.now + m.shutFor()
		m.othersFirst(e, r)
	} else if u.writerWaits {
		m.newRun(e)
	}
	u.writerWaits = r.WriterWaits
	m.upgraded(e, r)
	m.noteOthers(e, m.othersOf(n, r.Subscribers))
	if e.phase == passing {
		m.passOn(e, op)
	} else {
		m.proceed(e)
	}
	if p := n.places(); p != nil && p.front == 0 && n.queue.head != nil { // others come next
		p.hear(m, n)
	}
}

// noteOthers notes whether others wait, by a transfer. If there are none, a new run begins, and
// transfers become rarer: see mostSpacing.
func (m *Machine) noteOthers(e *entry, others bool) {
	run, u := &e.of.details.run, e.upkeep()
	every := m.cfg.RecordEvery
	run.others, run.transferSawNone = others, !others
	if run.transferSawNone && e.of.places() == nil {
		run.begin(m.now)
		u.unasked = 0
		u.spacing = min(2*max(u.spacing, every), mostSpacing*every, max(every, m.cfg.PassTime/4))
	} else {
		u.spacing, u.nextTransfer = 0, min(u.nextTransfer, m.now+every)
	}
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

// transferFailed arranges another try of the transfer, and fails the requests that the error
// concerns.
func (m *Machine) transferFailed(e *entry, r *Reply) {
	n, u := e.of, e.upkeep()
	if r.Ran == Maybe && r.Op.PlaceOp != nil && r.Op.PlaceOp.Pass { // it may have given the lock back, which is no loss
		m.distrust(e)
	}
	forTokens := r.tokensRefused()
	if u.upgrade != nil && (!forTokens || u.upgrade.Fenced) {
		m.failUpgrade(e, r.Err)
	}
	u.nextTransfer = m.failed(e, r.Err)
	if !forTokens {
		m.failImpatient(n, r.Err)
	}
	m.failWith(e, r)
	if r.Final && !forTokens && n.queue.head != nil {
		m.passRefused(e)
	}
	if e.flight == 0 {
		m.proceed(e)
	}
}

// passRefused releases an entry without a hold, because the server refuses for good the script that
// must come before the next holder. The waiting requests ask for the entry anew. If the server
// refuses the release, too, the requests fail: see releaseFailed.
func (m *Machine) passRefused(e *entry) {
	if e.phase == passing {
		e.makeUpkeep().cannotPass = true
		m.release(e)
	}
}
