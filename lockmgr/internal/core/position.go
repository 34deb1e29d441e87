package core

import (
	"slices"
	"time"
)

// A position is what a name knows of the manager's position in the line of the server. A position
// is the special state of a name of kind Exclusive or ReadWrite that has details of its own, and
// part of the state of sets and of permits.
//
// The server keeps the managers that wait for a name in a line: see internal/script/line.lua. A
// refused acquire joins the line. A script that leaves something free grants it to the first
// manager, or tells each manager that may take it, on that manager's own channel. A told manager
// asks. A manager that is granted leaves the line. A manager for which nobody waits leaves, too,
// unless a request is likely: see early.go.
//
//	request ──▶ acquire: granted
//	              │ refused: joins          told, poll
//	              └──────────▶ in the line ───────────▶ acquire: granted, leaves
//	                                │ │
//	                                │ └─ a grant by message
//	                                └─ nobody waits ──▶ release: leaves
//
// The messages are hints, except grants. If a message is lost, the manager asks after lookAgain.
//
// A release grants a lock, but neither sets nor permits, by message: see grants. A set needs records
// of several names, and one acquire takes permits for many requests: both ask. While a manager is
// in the line, the number of its next hold is known: its place. Each script of the manager names
// the place. So the script finds the record if a message that was lost has granted the lock. If
// such a script has no answer, the manager gets another place: the script could run later, and
// write another number into the record. The release that ends a run of a lock joins the line: see
// Runs in doc.go.
type position struct {
	// joined is the ID of the newest script that may have joined the line. joined is zero if no
	// script has joined since the manager left the line. Then place and standsUntil are zero, too.
	joined uint64
	leaves uint64 // the ID of the script in flight that leaves the line, or zero
	// delivered says whether messages are delivered, while the name is subscribed: for the name, or
	// each item of a set, first those of the channel of the name, then those of the channel of the
	// manager, at OwnPlace.
	delivered [][2]bool

	place uint64 // the number of the next hold if a message grants the hold, or zero
	side  Side   // of the next hold, while place is not zero
	// unwanted are numbers other than place that a message has granted or may grant, and that
	// nobody wants. The next script names these numbers.
	unwanted []uint64
	outside  bool // the newest script that should join the line could not: see noteOutside
	// fenced is set if the newest request that has joined wanted a token. A release without a
	// request joins as that request did.
	fenced bool
	early
	grants

	outsiders outsiders
	noSpecial
}

// OwnPlace is the Place of the channel on which the line tells a manager. LinePlace is that of a
// channel without messages: by its subscribers a script knows who may stand in the line.
const (
	OwnPlace  = 1
	LinePlace = 2
)

// withPosition returns details with the special state p.
func withPosition(p *position) *details {
	return &details{special: p, position: p, outsiders: &p.outsiders, grants: &p.grants}
}

// position returns the position of a name of a kind with a line, or nil.
func (n *name) position() *position { return n.details.position }

// outsiders returns what is known of the clients that stand in no line, or nil for a kind without
// any.
func (n *name) outsiders() *outsiders { return n.details.outsiders }

// plainOrReadWrite reports whether the name is of kind Exclusive or ReadWrite, and has details of
// its own.
func (n *name) plainOrReadWrite() bool { return specialOf[*position](n) != nil }

// fill sets what an operation does to the line. A try may join or leave the line if the name is
// subscribed. The first try does neither, so that it may share a command: most often there is no
// line. A release that keeps the record for a reservation does neither.
func (p *position) fill(m *Machine, e *entry, op *Op, spare *PlaceOp) {
	n := e.of
	switch {
	case op.Verb == VerbAcquire && n.sub != subNone:
		op.Lined = true
	case op.Verb == VerbRelease && op.Reserve == 0:
		if e.number != 0 {
			p.estimate(m.now, e.runSince, n.queue.head != nil)
		}
		op.Lined = p.releaseJoins(m, e)
	default:
		return
	}
	p.fillLine(m, n, op)
	if p.place != 0 {
		op.OtherNumbers = append(op.OtherNumbers, p.place)
	}
	op.OtherNumbers = append(op.OtherNumbers, p.unwanted...)
	if op.Lined && !n.isSet() { // a set is granted nothing by message
		p.fillGrant(m, n, op, spare)
	}
}

// fillGrant sets in op how the script grants by message. If the script joins the line, the manager
// gets a place.
func (p *position) fillGrant(m *Machine, n *name, op *Op, spare *PlaceOp) {
	if spare == nil {
		spare = new(PlaceOp)
	}
	op.PlaceOp = spare
	*spare = PlaceOp{Join: spare.Join[:0]}
	if op.Waits == 0 || m.cfg.GrantSecret == "" {
		return
	}
	side := Alone // only an exclusive lock joins without a request
	if r := n.queue.head; r != nil {
		side, p.fenced = r.Side, r.Fenced
	}
	if p.place != 0 && p.side != side { // the first request has left
		p.unwanted, p.place = append(p.unwanted, p.place), 0
	}
	if p.place == 0 {
		p.place, p.side = m.newNumber(), side
	}
	spare.Join = append(spare.Join, p.place)
	spare.Secret, spare.GrantLease = m.cfg.GrantSecret, min(m.cfg.GrantLease, m.cfg.Lease)
	spare.Fenced = p.fenced
}

// fillLine sets in op whether the script joins or leaves the line, and notes that here.
func (p *position) fillLine(m *Machine, n *name, op *Op) {
	switch {
	case op.Verb == VerbAcquire && n.somebodyWaits():
		p.acquireJoins(m.now)
		op.Waits, op.Deaf = m.remembered(), n.sub != subOn || !m.cfg.TrustSubscribers
		op.onlyAcquire, p.joined = !p.acquires(n), op.ID
	case op.Verb == VerbRelease && op.Lined:
		op.Waits, p.joined = m.rememberedEarly(n, p), op.ID
	case op.Verb == VerbRelease && p.mustLeave(n):
		op.Leaves, p.leaves, p.standsUntil = true, op.ID, 0
	}
}

func (p *position) take(n *name, number uint64) bool {
	return number == p.place && n.queue.head != nil && n.queue.head.Side == p.side
}

// acquired notes that the server has removed the manager from the line, and that nothing is known
// of the others who wait.
func (p *position) acquired(n *name) {
	p.left()
	p.outsiders.repeated = 0
	n.details.run.transferSawNone = false
}

// answered notes what an answer says of the line. A newer script may have joined the line since.
func (p *position) answered(m *Machine, r *Reply) {
	e, op := r.Op.entry, r.Op
	n := e.of
	if r.Ran == Maybe && p.place != 0 {
		e.makeUpkeep().unknown.add(suspect{number: p.place, until: m.suspectUntil(), stray: true, byMessage: true})
		p.place = 0
	}
	p.noteLeft(r)
	if r.Ran != Yes {
		return
	}
	p.ranAt(op.Sent)
	if r.Joined && !e.woken { // no message has come before
		p.standsUntil = op.Sent + op.Waits*2/3
	}
	if op.Waits > 0 && !r.OK && !r.OtherKind && r.Limit == 0 {
		p.noteOutside(m, n, r.Outside)
	}
	p.unwanted = slices.DeleteFunc(p.unwanted, func(number uint64) bool { return slices.Contains(op.OtherNumbers, number) })
	if op.Verb != VerbRelease {
		return
	}
	p.releaseAnswered(m.now, r.Joined)
	if n.hasDetails() {
		m.runReleased(&p.outsiders, e, r)
	}
}

// noteLeft notes whether a script has left the line, or has not joined it. A newer script may have
// joined since. A release joins only if no other script may have joined: if the release has not,
// the manager stands in no line.
func (p *position) noteLeft(r *Reply) {
	op := r.Op
	positionOver := op.onlyAcquire && (r.OK || r.OtherKind) // with OtherKind, the position on the server expires
	left := r.Ran == Yes && (op.Leaves || positionOver)
	notJoined := r.Ran != Maybe && op.Verb == VerbRelease && op.Lined && !r.Joined
	if (left || notJoined) && p.joined <= op.ID {
		p.left()
	}
	if p.leaves == op.ID {
		p.leaves = 0
	}
}

// left notes that the manager stands in no line.
func (p *position) left() { p.place, p.joined, p.standsUntil = 0, 0, 0 }

// refused notes that others have the lock. If the try was for requests that do not wait, the try
// has not joined the line. Then the entry asks again at once, for the requests that have come
// since.
func (p *position) refused(m *Machine, e *entry, r *Reply) {
	p.outsiders.noteRefused(m.now, &m.cfg)
	e.woken = e.woken || r.Op.Lined && r.Op.Waits == 0
}

// leftovers reports whether a script must leave the line, or remove a record that nobody wants.
func (p *position) leftovers(n *name) bool {
	return len(p.unwanted) > 0 && n.queue.head == nil || p.mustLeave(n)
}

// mustLeave reports whether a script must leave the line. A position that a release has joined
// stays for a request that is likely. No script leaves while an acquire is in flight: the acquire
// may join, and mustLeave is called again after its answer.
func (p *position) mustLeave(n *name) bool {
	if p.standsUntil > 0 && p.expects(n) {
		return false
	}
	return p.joined != 0 && p.leaves == 0 && n.queue.head == nil && !p.acquires(n)
}

// acquires reports whether an acquire is in flight.
func (p *position) acquires(n *name) bool {
	return n.find(func(e *entry) bool { return e.flight != 0 && e.flightVerb == VerbAcquire }) != nil
}

func (p *position) givenUp() {
	p.unwanted = nil
	p.left()
}

// hear subscribes to the channel of the manager, and to the channel of those who may stand in the
// line.
func (p *position) hear(m *Machine, n *name) {
	if p.delivered != nil || n.sub == subNone {
		return
	}
	p.delivered = make([][2]bool, n.channels())
	if !p.outside {
		m.listen(n, LinePlace, true)
	}
	m.listen(n, OwnPlace, true)
}

func (p *position) unsubscribed(m *Machine, n *name) {
	p.delivered = nil
	if !p.outside {
		m.listen(n, LinePlace, false)
	}
	m.listen(n, OwnPlace, false)
}

// listen subscribes to the channel of a place of a name, or to the name's channel if place is zero,
// or ends the subscription.
func (m *Machine) listen(n *name, place uint64, on bool) {
	s := Subscribe{Name: n.name, Kind: n.kind, Items: n.items(), Place: place}
	if set := n.set(); set != nil && place == OwnPlace {
		s.Set = set.id
	}
	if on {
		m.stats.Subscriptions += n.channels()
		m.emit(s)
	} else {
		m.stats.Subscriptions -= n.channels()
		m.emit(Unsubscribe(s))
	}
}

// noteOutside notes whether the manager can stand in the line. The user may lack a permission, or
// the server may lack memory. A manager outside is one of the clients that stand in no line. Others
// count the manager among these clients, and the manager hears the messages for these clients.
func (p *position) noteOutside(m *Machine, n *name, outside bool) {
	if outside != p.outside {
		p.outside = outside
		if outside {
			m.noticeOf(n, Notice{What: Outside})
		}
		if p.delivered != nil {
			m.listen(n, LinePlace, !outside)
		}
	}
}

// lookAgain is the longest time between two tries of a manager whose waiting the server remembers.
func (m *Machine) lookAgain() time.Duration { return min(m.cfg.PollMax, m.cfg.PlaceTime*2/5) }

// remembered is for how long the server remembers that a request waits, after a try.
func (m *Machine) remembered() time.Duration { return m.lookAgain() * 3 / 2 }

// means keeps the grant of an event, and notes whether the messages of a channel are delivered. The
// name is subscribed if the messages of all channels are delivered. On the channel of the name, a
// message of a script that has served the line is only for clients that stand in no line.
func (p *position) means(_ *name, ev Wake) (Wake, bool) {
	if ev.Place == LinePlace {
		return ev, false
	}
	if ev.Place == OwnPlace && ev.Grant.Number != 0 {
		p.newest = ev.Grant
	}
	p.delivered[max(ev.Item, 1)-1][ev.Place] = ev.Subscribed
	if !ev.Subscribed {
		p.standsUntil = 0 // the server removes the position of a manager that can't be told
	}
	ev.Subscribed = !slices.ContainsFunc(p.delivered, func(of [2]bool) bool { return of != [2]bool{true, true} })
	ev.Confirmed = ev.Confirmed && ev.Subscribed
	ev.Message = ev.Message && (!ev.Served || p.outside)
	return ev, true
}

// told handles an event. A message on the channel of this manager says that something is free for
// the manager. An entry that asks or waits tries. Without such an entry the manager asks, or leaves
// the line if nobody waits here. A message on the channel of the name says that perhaps nobody in
// the line was told, unless the script of the message has served the line. If the script is not of
// this library, an outsider is there.
//
// told also arranges that the next script takes over, or removes, the record of a grant that nobody
// wants: of another number than the place, which each later script names. While the lock is held
// here, the record is that of the hold.
func (p *position) told(m *Machine, n *name, ev Wake) {
	if g, phase := ev.Grant.Number, n.entry.phase; g != 0 && g != p.place && phase != held && phase != passing {
		p.unwanted = append(p.unwanted, g)
	}
	if !ev.Message {
		return
	}
	if ev.Place == 0 && !ev.Served {
		p.standsUntil = 0 // the lock may be free, and nobody in the line was told
		if !ev.More && !ev.Ours {
			p.outsiders.noteHeard(m.now, &n.details.run, &m.cfg)
		}
	}
	if ev.Place == OwnPlace {
		p.toldOwn(m, n)
	}
}

// toldOwn handles a message on the channel of this manager.
func (p *position) toldOwn(m *Machine, n *name) {
	if p.releaseJoined && !n.somebodyWaits() {
		p.early = early{} // the request that was likely has not come
	}
	tries := func(e *entry) bool { return e.phase == waiting || e.phase == asking }
	if p.leaves != 0 || n.find(tries) != nil {
		return
	}
	switch e := n.spare(); {
	case e == nil:
	case n.queue.head != nil:
		m.ask(e)
	default:
		p.joined = m.lastID // the newest script that may have joined the line
		m.release(e)        // which leaves
	}
}
