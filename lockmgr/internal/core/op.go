package core

import "time"

// send sends a script for an entry. side is the side that the script gives the entry.
func (m *Machine) send(e *entry, verb Verb, side Side, number uint64, lease time.Duration, tokens int64) {
	if e.flight != 0 {
		panic("lockmgr: two scripts in flight for one entry")
	}
	var op *Op
	if free := len(m.freeOps); free > 0 {
		op, m.freeOps = m.freeOps[free-1], m.freeOps[:free-1]
	} else {
		op = new(Op)
	}
	m.lastID++
	spare := op.PlaceOp
	*op = Op{
		ID: m.lastID, Kind: e.of.kind, Verb: verb, Side: side, Name: e.of.name, Sent: m.now, Lease: lease,
		Number: number, Tokens: tokens, entry: e, OtherNumbers: op.OtherNumbers[:0],
	}
	if verb == VerbRelease {
		if op.Reserve, op.Reserver = m.reserved(e); op.Reserve > 0 {
			op.KeptAs = op.Reserver.Hold.Number
		}
	}
	if verb == VerbRenew {
		m.stats.Renewals++
	} else {
		op.OtherNumbers = e.mayCarry(number, verb, op.Reserve > 0, op.OtherNumbers)
		m.pace.sentOther(m.now)
	}
	e.of.details.special.fill(m, e, op, spare)
	if verb == VerbAcquire {
		op.Gather, op.TakeOver = m.gatherFor(e), e.of.queue.head.takeOver()
	}
	e.flight, e.flightVerb = op.ID, verb
	e.mayBeShared = e.mayBeShared || side == Shared
	m.stats.Scripts++
	m.emit(Run{op})
}

// mayCarry appends to out the numbers that the record may carry, other than except. For a transfer
// mayCarry leaves out all strays: a transfer needs a record that was ours all the time, and no
// stray can have been created while the record existed. For a release that reserves, mayCarry
// leaves out the strays that an unanswered acquire may still create: a late copy of the release
// must not make a stray live longer.
func (e *entry) mayCarry(except uint64, verb Verb, reserves bool, out []uint64) []uint64 {
	if e.number != 0 && e.number != except {
		out = append(out, e.number)
	}
	place := uint64(0)
	if r := e.of.queue.head; r != nil && e.of.places() != nil {
		place = r.own.Number
	}
	for _, s := range e.upkeep().unknown.suspects {
		if s.number == place {
			continue // a copy of this script could run while the request of that place holds the lock
		}
		leftOut := s.stray && (verb == VerbTransfer || reserves && !s.ours)
		if s.number != except && s.number != e.number && !leftOut {
			out = append(out, s.number)
		}
	}
	return out
}

// replies handles answers.
func (m *Machine) replies(all []Reply) {
	for i := range all {
		if r := &all[i]; r.expected() {
			e := r.Op.entry
			recovered := m.reply(r)
			m.settleEntry(e)
			if recovered {
				m.hurry(r.Shard)
			}
		}
	}
}

// expected reports whether an answer is to the script in flight. Any other answer is stale.
func (r *Reply) expected() bool {
	e := r.Op.entry
	return r.ID == r.Op.ID && e != nil && e.flight == r.Op.ID
}

// reply handles an answer, and reports whether the server has recovered.
func (m *Machine) reply(r *Reply) (recovered bool) {
	op := r.Op
	e := op.entry
	e.flight = 0
	recovered = m.healthAt(r.Shard).report(r, m.cfg.RetryTime)
	m.moveTo(e.of, r.Shard)
	e.of.details.special.answered(m, r)
	m.learn(e, r)
	if r.Err != nil {
		m.stats.Fails++
	}
	switch op.Verb {
	case VerbAcquire:
		m.acquired(e, r)
	case VerbTransfer:
		m.transferred(e, r)
	case VerbRelease:
		m.released(e, r)
	case VerbRenew:
		m.renewed(e, r)
	}
	op.entry, op.Reserver = nil, nil
	if len(m.freeOps) < 1024 {
		m.freeOps = append(m.freeOps, op)
	}
	return recovered
}

// learn notes what an answer says of the records of an entry.
func (m *Machine) learn(e *entry, r *Reply) {
	switch op, u := r.Op, e.upkeep(); {
	case r.Ran == Maybe:
		e.makeUpkeep().unknown.addOp(op, r.Split, m.suspectUntil())
	case r.Ran == No, op.Verb == VerbRenew && !r.OK, !e.of.hasDetails(): // a renewal looks for one number only
	default:
		if op.Verb != VerbRenew && r.sawAll() {
			u.unknown.named(op.Sent)
		}
		u.doubt.found(op.ID) // or the record is gone, and the caller drops the entry
		u.cannotPass = false
	}
}

// sawAll reports whether a script has looked at every record of an entry. An upgrade that changed
// nothing has not, nor has a refused try of a set that gathered nothing.
func (r *Reply) sawAll() bool { return !r.Kept && (r.Item == 0 || r.Gathered) }

// failed counts a failure of an entry's script and returns when to try again. failed answers an
// Unlock that has waited for RetryTime while the scripts failed. The work for the Unlock goes on.
func (m *Machine) failed(e *entry, err error) (retryAt time.Duration) {
	n := e.of
	r := &e.makeUpkeep().retry
	r.failed(m.now, m.pause(r.n+1))
	m.noticeOf(n, Notice{What: CommandError, N: r.n, Err: err})
	if q := e.unlocking; q != nil && m.now-max(r.failingSince, q.Ends) >= m.cfg.RetryTime {
		m.answerUnlock(e, err)
	}
	return r.at
}
