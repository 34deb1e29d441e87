package core

import "time"

// send puts a script in flight.
func (m *Machine) send(n *name, verb Verb, owner uint64, lease time.Duration, tokens int64) {
	if n.flight != 0 {
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
		ID: m.lastID, Verb: verb, Name: n.name, Sent: m.now, Lease: lease,
		Owner: owner, Tokens: tokens, of: n, Others: op.Others[:0],
	}
	switch verb {
	case VerbRenew:
		m.stats.Renewals++
	case VerbLook:
	default:
		op.Others = n.mayCarry(owner, verb, op.Others)
	}
	n.flight, n.flightVerb = op.ID, verb
	m.stats.Scripts++
	m.emit(Run{op})
}

// reply hands an answer to the phase that waited for it.
func (m *Machine) reply(r *Reply) {
	op := r.Op
	n := op.of
	if r.ID != op.ID || n == nil || n.flight != op.ID {
		return // stale
	}
	n.flight = 0
	m.health.report(op.Sent, r.Ran, r.Final, r.Err, m.cfg.RetryTime)
	switch {
	case op.Verb == VerbLook:
	case r.Ran == Yes && op.Verb == VerbRenew:
		if r.OK { // a renewal names no number but the holder's
			m.confirm(n, op.ID)
		}
	case r.Ran == Yes:
		if n.contended() {
			n.c.unknown.named(op.Sent)
		}
		m.confirm(n, op.ID)
	case r.Ran == Maybe:
		n.more().unknown.addOp(op, m.suspectUntil())
	}
	if r.Err != nil {
		m.stats.Fails++
	}
	switch op.Verb {
	case VerbLook:
		m.looked(n, r)
	case VerbAcquire:
		m.acquired(n, r)
	case VerbTransfer:
		m.transferred(n, r)
	case VerbRelease:
		m.released(n, r)
	case VerbRenew:
		m.renewed(n, r)
	}
	m.settle(n)
	op.of = nil
	if len(m.freeOps) < 1024 {
		m.freeOps = append(m.freeOps, op)
	}
}

// failed notes a failure of a script and returns when to try again.
func (m *Machine) failed(n *name, err error) (retryAt time.Duration) {
	r := &n.more().retry
	r.failed(m.now, m.pause(r.n+1))
	m.notice(Notice{What: CommandError, Name: n.name, N: r.n, Err: err})
	return r.at
}
