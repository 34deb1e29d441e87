package core

import (
	"slices"
	"time"
)

// places are the special state of a name of kind Fair: what this manager knows of its places in the
// queue of the server. The name keeps the places while the name is of kind Fair.
//
// # Places
//
// The place of a request is the number of its future hold. Requests get numbers in the order of the
// manager's queue, so the places of a manager stand in the server's queue in the order of the
// numbers. A request has no place until a script is sent: an acquire or a transfer joins up to
// mostMoved requests without a place, and the next script joins the rest. Requests that do not wait
// get no place.
//
//	request ──▶ acquire or transfer: joins ──▶ first in the queue: granted
//	                                   │
//	                                   └─────▶ has left: the next script removes the place
//
// # The front
//
// An answer reports the front: the last place of the unbroken row of ours at the head of the queue,
// of which the scripts look at 64 members. A request up to the front may get the lock in memory,
// because nobody can come before the request. The next script removes the request's place.
//
// # Deadlines
//
// A place has a deadline on the server: Config.PlaceTime from now, plus the waits of Redisson's
// clients before the place: a client that leaves moves the deadlines behind it back by its wait. An
// acquire or a transfer moves the deadlines of all places of the manager, once in a quarter of
// PlaceTime. If the manager dies, its places go with their deadlines.
//
// # Grants by message
//
// A script that finds the lock free serves the queue: if the first place is another manager's, the
// script records the place as the holder, and publishes a grant on the channel of that manager. The
// grant has a fencing token if the first request of the manager wants one.
//
// A manager that has passed the lock on in memory grants nothing by message: it tells the first
// place that the lock is free. The round trip until the next grant lets the callers of the manager
// ask again, and get places in a row. Otherwise others would come between, the rows would fall
// apart, and each grant would cost a script.
//
// Some grants are hints: see grants. After a hint an acquire asks the server, and finds the record.
// If the message is lost, the next script that moves the deadlines finds the record. If the place
// is that of a later request, the requests move up, also after a hint: see take. A request that
// has left may have been granted: the script that removes its place removes its record, too.
//
// # Unknown outcomes
//
// Joining is repeated with the same numbers until a script that joins is confirmed. While anybody
// waits, the server remembers the ID of the newest script of each manager. So an older script that
// runs late joins nothing. If the queue was empty in the meantime, the late script may join a place
// that is over. The place goes with its deadline.
type places struct {
	// joined is the largest number whose place a confirmed script has joined. Larger numbers join
	// again.
	joined uint64
	// sent is the largest number that any script was to join, confirmed or not.
	sent uint64
	// front is the last of our places that are first in the queue without a gap, by the newest
	// answer, or zero.
	front uint64
	// frontUntil is the instant until which front counts. Later the places may have been removed
	// because of their deadlines.
	frontUntil time.Duration
	// leaving are the places of requests that have left.
	leaving []uint64
	// passedOn is the place of the last grant without a script, or zero. passedOn is zero again
	// once a script has removed the place.
	passedOn uint64
	// refreshAt is when the deadlines of the places are to be moved.
	refreshAt time.Duration

	grants
	// passed is set if the newest grant was passed on in this manager.
	passed bool

	// mixed is set if clients that know only the channels of single places wait or have the lock.
	// ear is the place to whose channel we are subscribed, or zero.
	mixed bool
	ear   uint64

	noSpecial
	unmade details // those of the name until makeDetails
}

// mostMoved caps how many places one script adds, and how many one script removes.
const mostMoved = 256

// A PlaceOp is what a script does to places, beside its verb. The script of a fair lock changes the
// places of the manager in the queue. The script of a plain lock uses Join, for one number, and the
// fields for grants by message.
type PlaceOp struct {
	// Join are places to be added at the end of the queue, except places that are in the queue.
	// Leave are places to be removed.
	Join, Leave []uint64
	// Before is the least number that may wait. Places of the manager with smaller numbers are
	// over. A place that is over is removed when first.
	Before uint64
	// Life is for how long a place lasts.
	Life time.Duration
	// Refresh moves the deadlines of all places of the manager, and sorts the places by number. The
	// manager should have Count places, beside the place of the operation's number.
	Refresh bool
	Count   int
	// Pass is set if nobody holds the entry. A transfer with Pass gives the lock back unless the
	// place of Number is the first.
	Pass bool
	// Once is set for an acquire whose request does not wait, and has no place.
	Once bool
	// GrantLease and Secret are for grants by message. If Secret is empty, there are none. A grant
	// takes a token if Fenced is set. If Tell is set, this script grants nothing by message.
	GrantLease time.Duration
	Secret     string
	Fenced     bool
	Tell       bool

	rejoins bool // an earlier script was sent that joins some of Join
}

// places returns the places of a name of kind Fair, or nil.
func (n *name) places() *places { return specialOf[*places](n) }

func (fair) newSpecial() special { return new(places) }

func (p *places) dropped(*name) *details {
	*p = places{}
	p.unmade = details{special: p, grants: &p.grants}
	return &p.unmade
}

// fill sets op.PlaceOp, and gives a number to each request that joins. fill reuses spare if spare
// is not nil.
func (p *places) fill(m *Machine, e *entry, op *Op, spare *PlaceOp) {
	if op.Verb == VerbRenew {
		return
	}
	n, x := e.of, spare
	if x == nil {
		x = new(PlaceOp)
	}
	op.PlaceOp = x
	*x = PlaceOp{Join: x.Join[:0], Leave: append(x.Leave[:0], p.leaving[:min(len(p.leaving), mostMoved)]...), Life: m.cfg.PlaceTime}
	x.Tell = op.Verb != VerbAcquire && p.passed
	x.Secret, x.GrantLease = m.cfg.GrantSecret, min(m.cfg.GrantLease, m.cfg.Lease)
	x.Fenced = n.queue.head != nil && n.queue.head.Fenced
	if op.Verb != VerbRelease {
		x.Join = m.join(n, x.Join)
		x.Pass = e.hold == nil
		x.Once = op.Verb == VerbAcquire && n.queue.head.Once
		// Places that join again must be sorted: see fair.lua.
		x.rejoins = len(x.Join) > 0 && x.Join[0] <= p.sent
		p.sent = max(p.sent, x.lastJoin())
		if x.Refresh = n.queue.head != nil && (m.now >= p.refreshAt || x.rejoins); x.Refresh {
			p.refreshAt = m.now + m.cfg.PlaceTime/4
			x.Count = n.placesUpTo(max(p.joined, x.lastJoin()), op.Number)
		}
	}
	x.Before = m.lastNumber + 1
	if r := n.firstPlaced(); r != nil {
		x.Before = r.own.Number
	}
}

// lastJoin returns the largest number that joins, or zero.
func (x *PlaceOp) lastJoin() uint64 {
	if len(x.Join) == 0 {
		return 0
	}
	return x.Join[len(x.Join)-1]
}

// placesUpTo returns how many requests have a place up to the number last, beside except.
func (n *name) placesUpTo(last, except uint64) (count int) {
	for r := n.queue.head; r != nil && r.own.Number <= last; r = r.next {
		if r.own.Number != 0 && r.own.Number != except && !r.Once {
			count++
		}
	}
	return count
}

// firstPlaced returns the first request with a number, or nil. All requests before it have Once
// set.
func (n *name) firstPlaced() *Request {
	for r := n.queue.head; r != nil; r = r.next {
		if r.own.Number != 0 {
			return r
		}
		if !r.Once {
			return nil
		}
	}
	return nil
}

// join appends the numbers of the requests that have no place yet, or may have none, and gives
// numbers to requests without a number. The appended requests are the last of the queue.
func (m *Machine) join(n *name, out []uint64) []uint64 {
	p := n.places()
	r := n.queue.tail
	if !p.lacksPlace(r) {
		return out
	}
	for p.lacksPlace(r.prev) {
		r = r.prev
	}
	for ; r != nil && len(out) < mostMoved; r = r.next {
		if r.own.Number == 0 {
			r.own.Number = m.newNumber()
		}
		out = append(out, r.own.Number)
	}
	return out
}

// lacksPlace reports whether there is a request, and the request waits, but no confirmed script has
// joined a place for the request.
func (p *places) lacksPlace(r *Request) bool {
	return r != nil && !r.Once && (r.own.Number == 0 || r.own.Number > p.joined)
}

// placesDue reports whether a script must change the places of the name now.
func (n *name) placesDue(now time.Duration) bool {
	p := n.places()
	return p != nil && (len(p.leaving) > 0 || p.lacksPlace(n.queue.tail) || now >= n.refreshAt())
}

// refreshAt returns when the deadlines of the name's places are to be moved, or Forever.
func (n *name) refreshAt() time.Duration {
	if p := n.places(); p != nil && n.queue.tail != nil && !n.queue.tail.Once {
		return p.refreshAt
	}
	return Forever
}

// placesAt returns when a script of a held entry must change the places, or Forever.
func (n *name) placesAt(u *upkeep, now time.Duration) time.Duration {
	if n.placesDue(now) {
		return u.nextTransfer // the last script has failed: otherwise sendDue would have sent one
	}
	return n.refreshAt()
}

// answered notes what a script has done to the places of a name.
func (p *places) answered(m *Machine, r *Reply) {
	x, n := r.Op.PlaceOp, r.Op.entry.of
	if x != nil && r.Ran == Yes {
		p.ranAt(r.Op.Sent)
	}
	switch {
	case x == nil:
		return
	case r.Ran != Yes:
		p.unanswered(m, r)
		return
	case r.OtherKind: // the script has done nothing
		if !x.rejoins {
			p.notJoined(n, x.Join)
		}
		return
	case r.Op.Verb == VerbTransfer && !r.OK && !r.GaveWay: // a transfer that finds no record of ours does nothing
		return
	}
	if p.passedOn < x.Before {
		p.passedOn = 0
	}
	p.joined = max(p.joined, x.lastJoin())
	if r.Missing && !x.Once {
		p.joined = 0 // all places join again; those that are in the queue stay where they are
	}
	p.leaving = slices.DeleteFunc(p.leaving, func(number uint64) bool { return slices.Contains(x.Leave, number) })
	p.front = 0
	if r.OK {
		p.front, p.frontUntil = r.Front, r.Op.Sent+m.cfg.PlaceTime/2
	}
	if r.Op.Verb != VerbRelease {
		p.mixed = r.Mixed
	}
}

// unanswered notes that a script has not run, or may run late.
func (p *places) unanswered(m *Machine, r *Reply) {
	if r.Ran == Maybe && r.Op.Verb == VerbAcquire {
		if first := r.Op.entry.of.queue.head; first != nil && first.own.Number == r.Op.Number {
			first.own.unsure = true
		}
	}
	if r.Op.PlaceOp.Refresh {
		p.refreshAt = m.now // the next script moves the deadlines
	}
}

// notJoined notes that no script has joined the numbers, so no script needs to remove the numbers.
func (p *places) notJoined(n *name, numbers []uint64) {
	isOne := func(number uint64) bool { return slices.Contains(numbers, number) }
	for r := n.queue.head; r != nil; r = r.next {
		if isOne(r.own.Number) {
			r.own.Number = 0
		}
	}
	p.leaving = slices.DeleteFunc(p.leaving, isOne)
}

// leavePlace notes that a request has left the queue of the manager without a grant of its place.
func (n *name) leavePlace(r *Request) {
	if p := n.places(); p != nil && !r.Once {
		p.leave(r.own.Number)
	}
}

// takePlace notes that a request is granted. The request's place was first. The scripts remove the
// place as a place that is over.
func (n *name) takePlace(r *Request) {
	p := n.places()
	if p == nil {
		return
	}
	p.passed = r.Passed
	if !r.Once && r.own.Number != n.entry.number { // else a script has removed the place
		p.passedOn = r.own.Number
	}
}

// leftovers reports whether places that are over may be in the queue.
func (p *places) leftovers(n *name) bool {
	return n.queue.head == nil && (len(p.leaving) > 0 || p.passedOn > 0)
}

// givenUp forgets the places that are over: the places have expired, or are left to expire.
func (p *places) givenUp() { p.leaving, p.passedOn = nil, 0 }

// behind reports whether a transfer must ask the server before an entry passes to a request: others
// may come before the request.
func (m *Machine) behind(e *entry, r *Request) bool {
	p := e.of.places()
	if p == nil || r.own.Number == e.number {
		return false
	}
	return r.own.Number == 0 || r.own.Number > min(p.front, p.joined) || m.now >= p.frontUntil
}

// take gives the first request a place that was granted, and reports whether a request waits at the
// place. If the place is that of a later request, the places before it are gone: the server has
// given one of them the lock, and its manager has not heard of that in time. Then each request
// moves up, and the last ones join anew.
func (p *places) take(n *name, place uint64) bool {
	from := n.placed(place)
	if from == nil {
		return false
	}
	p.passedOn, p.front = 0, 0
	if from == n.queue.head {
		return true
	}
	for r := n.queue.head; r != nil; r = r.next {
		p.leave(r.own.Number)
		r.own.Number, r.own.unsure = 0, false
		if from != nil { // r moves up to the place of from
			r.own.Number, r.own.unsure = from.own.Number, from.own.unsure
			from.own.Number, from.own.unsure = 0, false
			from = from.next
		}
	}
	return true
}

// placed returns the request that waits at a place, or nil.
func (n *name) placed(place uint64) *Request {
	for r := n.queue.head; r != nil; r = r.next {
		if r.own.Number == place {
			return r
		}
	}
	return nil
}

// leave arranges that the next script removes a place, or the record that was granted to the
// place.
func (p *places) leave(place uint64) {
	if place != 0 && !slices.Contains(p.leaving, place) {
		p.leaving = append(p.leaving, place)
	}
}

// told arranges that a script removes the record of a grant for which nobody waits: a script that
// ran late has joined the place.
func (p *places) told(m *Machine, n *name, ev Wake) {
	if e, g := &n.entry, ev.Grant; g.Number != 0 && e.phase != held && e.phase != passing && n.placed(g.Number) == nil {
		p.leave(g.Number)
		if e.phase == idle {
			m.release(e)
		}
	}
}

// means keeps the grant of an event, and drops an event of the channel of an earlier place.
func (p *places) means(n *name, ev Wake) (Wake, bool) {
	if ev.Grant.Number != 0 {
		p.newest = ev.Grant
	}
	if ev.Place == 0 {
		return ev, true
	}
	ev.Subscribed = n.sub == subOn // to the channel of the manager
	return ev, ev.Place == p.ear
}

func (p *places) unsubscribed(m *Machine, n *name) { m.hearPlace(n, 0) }

// hear subscribes to the channels with the release for the first request: the channel of the
// manager and, if clients take part that know only the channels of single places, the channel of
// the first place.
func (p *places) hear(m *Machine, n *name) {
	place := uint64(0)
	if r := n.queue.head; r != nil && !m.closing {
		m.subscribe(n)
		if p.mixed && !r.Once {
			place = r.own.Number
		}
	}
	m.hearPlace(n, place)
}

// hearPlace subscribes to the channel of place instead of the present place's, or to no place's
// channel if place is zero.
func (m *Machine) hearPlace(n *name, place uint64) {
	p := n.places()
	if place == p.ear {
		return
	}
	if p.ear != 0 {
		m.listen(n, p.ear, false)
	}
	p.ear = place
	if place != 0 {
		m.listen(n, place, true)
	}
}
