package core

import (
	"slices"
	"time"
)

// Permits is the kind of a lock that as many owners have at a time as there are permits.
// A request wants one or more of them at once.
//
// A manager has an entry for each request that has permits, with as many permits as the
// request wants. The entry passes to the next request if that wants as many. Else it is
// released, and the next request asks for what it wants. The server counts the permits
// that are free. A request for several may gather: see gathering.
//
// Nobody knows whose permit comes free next. So a request for permits waits for nobody in
// particular, and the search for deadlocks does not follow it. An owner that has a permit
// may want another one, so there is no re-entry. Requests are anonymous.
const Permits Kind = 3

var _ = register(Permits, permits{})

// permits are the rules of Permits.
type permits struct{}

// mostEntries is how many entries of a name a manager may have.
const mostEntries = 1024

func (permits) entries() int                  { return mostEntries }
func (permits) joins(*entry, *Request) bool   { return false }
func (permits) transfers() bool               { return true }
func (permits) again(*Hold, *Request) outcome { return never }
func (permits) side(*entry) Side              { return Alone }
func (permits) waitsFor(*Request, *Hold) bool { return false }

func (permits) passes(e *entry, r *Request) bool { return e.permits == r.own.Permits }

func (permits) parts(e *entry) bool { return e.permits > 1 }

// doubts: a message tells that permits came free, and not whose.
func (permits) doubts() bool { return false }

// A pool is the state that only a name of kind Permits has. The name keeps it for as long
// as it is of this kind.
type pool struct {
	limit int64 // how many permits the name gets if it has none yet, by the newest request
	asks  int   // how many entries may be asked for at a time, as far as is known
	// firstPass is upkeep.firstPass of all entries.
	firstPass time.Duration

	// The entries by their phases: neither idle nor held, idle, and how many are held. Of
	// those that a manager once had and no longer needs none is there.
	moving, idle []*entry
	held         int

	gathering
	uncontended contention // of the name while it has no contention of its own
}

// A manager asks for some entries at a time, as many may be free. It asks for more after a
// grant, and for one after a refusal, because each try costs the server work.
const (
	firstAsks = 8
	mostAsks  = 64
)

// usePool returns the pool of a name of kind Permits. The first call makes it.
func (n *name) usePool() *pool {
	if n.c.pool == nil {
		p := &pool{asks: firstAsks}
		p.uncontended = contention{pool: p}
		p.reset(n)
		n.c = &p.uncontended
	}
	return n.c.pool
}

// reset notes that a name has one entry, which is idle.
func (p *pool) reset(n *name) { p.moving, p.idle, p.held = nil, []*entry{&n.entry}, 0 }

// moved notes that an entry has changed its phase.
func (p *pool) moved(e *entry, from, to phase) {
	if from == to {
		return
	}
	remove := func(list []*entry) []*entry {
		i := slices.Index(list, e)
		if i < 0 {
			return list // a new one
		}
		last := len(list) - 1
		list[i] = list[last]
		list[last] = nil
		return list[:last]
	}
	switch from {
	case idle:
		p.idle = remove(p.idle)
	case held:
		p.held--
	default:
		if to != idle && to != held {
			return
		}
		p.moving = remove(p.moving)
	}
	switch to {
	case idle:
		p.idle = append(p.idle, e)
	case held:
		p.held++
	default:
		p.moving = append(p.moving, e)
	}
}

// allIdle reports whether all entries other than but are idle.
func (p *pool) allIdle(but *entry) bool {
	others := len(p.moving) + p.held
	if but.phase != idle {
		others--
	}
	return others == 0
}

// mostAsked returns how many entries may be asked for at a time: one for each of those who
// wait and want as much as the first. While an entry gathers that is one, as its tries have
// been refused.
func (p *pool) mostAsked(first *Request) (n int) {
	for r := first; r != nil && n < p.asks && r.own.Permits == first.own.Permits; r = r.next {
		n++
	}
	return n
}

// acquired notes that an entry was acquired.
func (p *pool) acquired(n *name) {
	p.asks = min(2*p.asks, mostAsks)
	t := &n.more().turns
	t.peak = 0
	for e := range n.entries {
		if e.number != 0 {
			t.peak++
		}
	}
}

// turnSince returns since when a turn of ours has lasted that ends now with the release of
// an entry we had since then. If the manager had several entries at the same time, each
// counts for its part of the turn only.
func (n *name) turnSince(now, since time.Duration) time.Duration {
	return now - (now-since)/time.Duration(max(1, n.c.turns.peak))
}

// count sets how many permits an entry is to get for a request. Its earlier numbers may have
// more.
func (e *entry) count(r *Request) {
	e.permits = r.own.Permits
	if len(e.up().unknown.suspects) == 0 {
		e.most = 0
	}
	e.most = max(e.most, e.permits)
}
