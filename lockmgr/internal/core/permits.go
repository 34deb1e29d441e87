package core

import "time"

// Permits is the kind of a lock that several owners have at a time, up to a limit. A request wants
// one or more permits.
//
// A manager has an entry for each request that has permits, with as many permits as the request
// wants. The entry passes to the next request if the next request wants as many. Otherwise the
// entry is released, and the next request asks for what it wants. The server counts the free
// permits, and keeps the managers that wait in a line: see position. A request for several permits
// may gather: see gathering.
//
// Requests are anonymous. The server does not tell whose permit comes free next. So a request for
// permits waits for no owner in particular, and the search for deadlocks ignores the request. An
// owner that has a permit may want another, so there is no re-entry.
const Permits Kind = 3

// permits are the rules of Permits.
type permits struct{ usual }

func (permits) goneErr() error { return errReturned }

func (permits) passes(e *entry, r *Request) bool { return e.permits == r.own.Permits }

func (permits) parts(e *entry) bool { return e.permits > 1 }

// doubts returns false: a message says that permits came free, but not whose.
func (permits) doubts() bool { return false }

// A pool is the special state of a name of kind Permits. The name keeps the pool while the name is
// of kind Permits.
type pool struct {
	limit int64 // how many permits the name gets if it has none yet, by the newest request

	position
	index
	gathering
	unmade details // those of the name until makeDetails

	// wasRefused is set while the manager is in the line because of a refused acquire. emptySince
	// is since when nobody here waits meanwhile, perhaps because permits came free here, or zero.
	wasRefused bool
	emptySince time.Duration
}

// A manager asks for several entries at a time, because several permits may be free. A grant
// doubles the number of entries asked for, unless others wait. A refusal sets the number to one,
// because each try costs the server work.
const (
	firstAsks = 8
	mostAsks  = 64
)

// pool returns the pool of a name of kind Permits, or nil.
func (n *name) pool() *pool { return specialOf[*pool](n) }

func (permits) newSpecial() special {
	p := &pool{index: index{asks: firstAsks}}
	p.unmade = details{
		special: p, position: &p.position, outsiders: &p.outsiders, grants: &p.grants, gathering: &p.gathering, index: &p.index,
	}
	return p
}

func (p *pool) dropped(n *name) *details {
	p.reset(n)
	return &p.unmade
}

func (p *pool) fill(m *Machine, e *entry, op *Op, _ *PlaceOp) {
	op.Permits, op.Most, op.Limit, op.Lined = int(e.permits), int(e.most), p.limit, op.Verb == VerbAcquire
	if op.Verb == VerbRelease && !m.cfg.ForgetPermits {
		op.Limit = 0
	}
	p.fillLine(m, e.of, op)
}

// refused notes that the next try is to ask for one entry.
func (p *pool) refused(m *Machine, e *entry, r *Reply) {
	p.asks, p.wasRefused = 1, p.joined != 0
	p.position.refused(m, e, r)
}

// leaveAfter is how long a position stands without a request. Callers in a loop ask again before
// that.
const leaveAfter = 20 * time.Millisecond

// leaveLine leaves the line if nobody has waited here for leaveAfter, because the position keeps
// free permits from others. leaveLine returns when to call it again.
func (m *Machine) leaveLine(n *name) (again time.Duration) {
	p := n.pool()
	p.wasRefused = p.wasRefused && p.joined != 0
	if !p.wasRefused || !p.mustLeave(n) || n.releases() {
		p.emptySince = 0
		return Forever
	}
	if p.emptySince == 0 {
		p.emptySince = m.now
	}
	if due := p.emptySince + leaveAfter; m.now < due {
		return due
	}
	if e := n.spare(); e != nil {
		m.release(e)
	}
	return Forever
}

// releases reports whether an entry is being released. Its next script leaves the line, if need be.
func (n *name) releases() bool {
	return n.find(func(e *entry) bool { return e.phase == releasing }) != nil
}

// acquired notes that an entry was acquired. Managers that contend ask for one entry at a time, so
// that permits which come free together do not all go to the first that asks.
func (p *pool) acquired(n *name) {
	if !n.details.run.others {
		p.asks = min(2*p.asks, mostAsks)
	}
}

// setPermits sets how many permits an entry is to get for a request. most stays larger while an
// unanswered script may have recorded more under an earlier number of the entry.
func (e *entry) setPermits(r *Request) {
	e.permits = r.own.Permits
	if len(e.upkeep().unknown.suspects) == 0 {
		e.most = 0
	}
	e.most = max(e.most, e.permits)
}
