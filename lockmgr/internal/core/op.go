package core

import "time"

// send sends a script for an entry. side is the side that the script gives the
// entry.
func (m *Machine) send(e *entry, verb Verb, side Side, owner uint64, lease time.Duration, tokens int64) {
	if e.flight != 0 {
		panic("lockmgr: two scripts in flight for one name")
	}
	var op *Op
	if free := len(m.freeOps); free > 0 {
		op, m.freeOps = m.freeOps[free-1], m.freeOps[:free-1]
	} else {
		op = new(Op)
	}
	m.lastID++
	*op = Op{
		ID: m.lastID, Kind: e.of.kind, Verb: verb, Side: side, Name: e.of.name, Sent: m.now, Lease: lease,
		Owner: owner, Tokens: tokens, entry: e, Others: op.Others[:0], Items: e.of.items(),
	}
	switch verb {
	case VerbRenew:
		m.stats.Renewals++
	case VerbLook:
	default:
		op.Others = e.mayCarry(owner, verb, op.Others)
	}
	if s := e.of.c.set; s != nil && verb == VerbAcquire {
		op.Gather = m.gather(s, e.of.queue.head.asked)
	}
	e.flight, e.flightVerb = op.ID, verb
	e.open = e.open || side == Shared
	m.stats.Scripts++
	m.emit(Run{op})
}

// reply handles an answer. An answer that is not to the script in flight is
// ignored.
func (m *Machine) reply(r *Reply) {
	op := r.Op
	e := op.entry
	if r.ID != op.ID || e == nil || e.flight != op.ID {
		return // stale
	}
	e.flight = 0
	recovered := m.health.report(op.Sent, r.Ran, r.Final, r.Err, m.cfg.RetryTime)
	switch {
	case op.Verb == VerbLook:
	case r.Ran == Yes && op.Verb == VerbRenew:
		if r.OK { // a renewal looks for one number only
			m.confirm(e, op.ID)
		}
	case r.Ran == Yes:
		// A refused try of a set that has kept nothing has not looked at every record.
		if e.of.contended() && !r.Kept && (r.Item == 0 || r.keptSome()) {
			e.up().unknown.named(op.Sent)
		}
		m.confirm(e, op.ID)
	case r.Ran == Maybe:
		e.more().unknown.addOp(op, m.suspectUntil())
	}
	if r.Err != nil {
		m.stats.Fails++
	}
	switch op.Verb {
	case VerbLook:
		m.looked(e, r)
	case VerbAcquire:
		m.acquired(e, r)
	case VerbTransfer:
		m.transferred(e, r)
	case VerbRelease:
		m.released(e, r)
	case VerbRenew:
		m.renewed(e, r)
	}
	m.settle(e.of)
	if recovered {
		m.hurry()
	}
	op.entry = nil
	if len(m.freeOps) < 1024 {
		m.freeOps = append(m.freeOps, op)
	}
}

// failed counts a failure of an entry's script and returns when to try again.
func (m *Machine) failed(e *entry, err error) (retryAt time.Duration) {
	n := e.of
	r := &e.more().retry
	r.failed(m.now, m.pause(r.n+1))
	m.notice(Notice{What: CommandError, Name: n.name, N: r.n, Err: err})
	return r.at
}
