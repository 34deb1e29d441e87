package core

import "slices"

// lined is the special state of a name of kind Exclusive or ReadWrite that has details of its own, and
// part of the state of sets and of permits. Managers that wait stand in a line.
//
// A release grants the lock to the first manager of the line by message, but to no set: see grants. While a manager
// is in the line, the number of its next hold is known: its place. Each script of the manager names
// the place. So the script finds the record if a message that was lost has granted the lock. If such a
// script has no answer, the manager gets another place: the script could run later, and write another
// number into the record.
type lined struct {
	place    uint64   // the number of a hold that is granted by message, or zero
	side     Side     // of that hold
	unwanted []uint64 // numbers that messages have granted, and that nobody wants. The next script names them
	outside  bool     // the newest script that should join the line could not: see steps
	grants
	position
}

// fill sets what an operation does to the line. A try may join or leave the line if the name is
// subscribed, or if a script may have joined. The first try does neither, so that it may share a command:
// most often there is no line.
func (l *lined) fill(m *Machine, e *entry, op *Op, spare *Line) {
	n := e.of
	op.Lined = op.Verb == VerbAcquire && (n.sub != subNone || l.joined != 0)
	if !op.Lined && op.Verb != VerbRelease || op.Reserve > 0 { // a reservation leaves no line
		return
	}
	if l.fillLine(m, n, op); l.place != 0 {
		op.OtherNumbers = append(op.OtherNumbers, l.place)
	}
	op.OtherNumbers = append(op.OtherNumbers, l.unwanted...)
	if !op.Lined || n.isSet() { // a set is granted nothing by message
		return
	}
	if spare == nil {
		spare = new(Line)
	}
	op.Line = spare
	*spare = Line{Join: spare.Join[:0]}
	if op.Waits == 0 || m.cfg.GrantSecret == "" {
		return
	}
	if r := n.queue.head; l.place != 0 && l.side != r.Side { // the first request has left
		l.unwanted, l.place = append(l.unwanted, l.place), 0
	}
	if l.place == 0 {
		l.place, l.side = m.number(), n.queue.head.Side
	}
	spare.Join = append(spare.Join, l.place)
	spare.Secret, spare.GrantLease = m.cfg.GrantSecret, min(m.cfg.GrantLease, m.cfg.Lease)
	spare.Fenced = n.queue.head.Fenced
}

func (l *lined) granting() *grants { return &l.grants }

func (l *lined) takes(n *name, number uint64) bool {
	return number == l.place && n.queue.head != nil && n.queue.head.Side == l.side
}

// acquired notes that the server has removed the manager from the line, and that nothing is known of the
// others who wait.
func (l *lined) acquired(n *name) {
	l.place, l.joined, l.others.lost = 0, 0, 0
	r := &n.details.run
	r.noOthers, r.fresh = false, false
}

// lined reports whether the name is of kind Exclusive or ReadWrite, and has details of its own.
func (n *name) lined() bool {
	_, ok := n.details.special.(*lined)
	return ok
}

// hear subscribes to the channel of the manager, and to the channel of those who may stand in the line.
func (l *lined) hear(m *Machine, n *name) {
	if !l.own && !l.outside && n.sub != subNone {
		l.counted(m, n, true)
	}
	l.position.hear(m, n)
}

// counted subscribes to the channel of those who may stand in the line, or ends the subscription.
func (l *lined) counted(m *Machine, n *name, counts bool) {
	if counts {
		m.stats.Subscriptions += n.channels()
		m.emit(Subscribe{Name: n.name, Kind: n.kind, Items: n.items(), Place: LinePlace})
	} else {
		m.stats.Subscriptions -= n.channels()
		m.emit(Unsubscribe{Name: n.name, Kind: n.kind, Items: n.items(), Place: LinePlace})
	}
}

// steps notes whether the manager can stand in the line. A user may lack a permission, or the server
// memory. A manager outside is one of the clients that stand in no line: others count it among these, and
// it hears the messages for these.
func (l *lined) steps(m *Machine, n *name, outside bool) {
	if outside != l.outside {
		if l.outside = outside; l.own {
			l.counted(m, n, !outside)
		}
	}
}

func (l *lined) unsubscribed(m *Machine, n *name) {
	if l.own && !l.outside {
		l.counted(m, n, false)
	}
	l.position.unsubscribed(m, n)
}

// hears keeps the grant of an event.
func (l *lined) hears(n *name, ev Wake) (Wake, bool) {
	if ev.Place == LinePlace {
		return ev, false
	}
	if ev.Place == OwnPlace && ev.Grant.Number != 0 {
		l.newest = ev.Grant
	}
	message := ev.Message
	ev, ok := l.position.hears(n, ev)
	ev.Message = ev.Message || message && l.outside
	return ev, ok
}

// leftovers reports whether a script must leave the line, or remove a record that nobody wants.
func (l *lined) leftovers(n *name) bool {
	return len(l.unwanted) > 0 && n.queue.head == nil || l.position.leftovers(n)
}

func (l *lined) givenUp() { l.unwanted, l.place, l.joined = nil, 0, 0 }

// told also arranges that the next script takes over, or removes, the record of a grant that is
// unwanted: its number is not the place, or nobody waits, and no script in flight leaves the line. Such
// a script removes the record itself. While the lock is held here, the record is that of the hold.
func (l *lined) told(m *Machine, n *name, ev Wake) {
	e, g := &n.entry, ev.Grant
	wanted := g.Number == l.place && (n.queue.head != nil && n.queue.head.Side == l.side || l.leaves != 0)
	if g.Number != 0 && !wanted && e.phase != held && e.phase != passing {
		l.unwanted = append(l.unwanted, g.Number)
	}
	l.position.told(m, n, ev)
}

// answered notes what an answer says of the line.
func (l *lined) answered(m *Machine, r *Reply) {
	e := r.Op.entry
	n := e.of
	if r.Ran == Maybe && l.place != 0 {
		e.makeUpkeep().unknown.add(suspect{number: l.place, until: m.suspectUntil(), stray: true})
		l.place = 0
	}
	if l.position.answered(m, r); l.joined == 0 {
		l.place = 0
	}
	if r.Ran != Yes {
		return
	}
	l.ranAt(r.Op.Sent)
	if op := r.Op; op.Lined && op.Waits > 0 && !r.OK && !r.OtherKind && r.Limit == 0 {
		l.steps(m, n, r.Outside)
	}
	l.unwanted = slices.DeleteFunc(l.unwanted, func(number uint64) bool { return slices.Contains(r.Op.OtherNumbers, number) })
	if r.Op.Verb == VerbRelease && n.hasDetails() {
		m.releasedBeside(&l.others, e, r)
	}
}

// refused notes that somebody has the lock, also after a pause. If the try was for requests that do not
// wait, the try has not joined the line. Then the entry asks again at once, for those that have come since.
func (l *lined) refused(m *Machine, e *entry, r *Reply) {
	l.others.held(m.now, &m.cfg)
	e.woken = e.woken || r.Op.Lined && r.Op.Waits == 0
}
