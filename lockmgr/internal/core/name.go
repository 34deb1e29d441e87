package core

import (
	"slices"
	"strings"
	"time"
)

// A name is what the manager knows of one key of the server: who wants it, who holds
// it, and what is under way.
type name struct {
	name  string
	queue queue

	// hold is there in phase held only.
	hold *Hold
	// unlocking is the request whose Unlock waits for the release.
	unlocking *Request

	// entry is the record of the lock, as far as it is ours.
	entry entry

	// flight is the ID of the one script in flight, or zero.
	flight uint64

	// c is uncontended, or the name's own: see more. A name that is taken and
	// given back alone never has its own.
	c *contention

	pos int32 // place in the heap of alarms

	phase      phase
	sub        subscription
	flightVerb Verb
	woken      bool // a wake-up came while a try was in flight
	retried    bool // an earlier copy of the release may have run
	forgotten  bool // removed from the machine
}

type subscription uint8

const (
	subNone    subscription = iota
	subPending              // asked for: messages may be missed
	subOn                   // confirmed: messages are delivered
)

// contention is what a name needs that is contended, passed on, fenced or in
// trouble.
type contention struct {
	retry   retry
	turns   turns
	unknown unknown
	tokens  tokens
	doubt   doubt
	longer  longer

	// giveBack says that the release in flight ends a run although somebody
	// here waits.
	giveBack bool
	echoes   int  // our confirmed releases whose messages have not arrived here
	echoed   bool // the message of the release in flight has arrived

	// firstPass is when the record was first passed on since it came to us, or
	// zero.
	firstPass time.Duration
	// keepUntil is how long the record stays ours although nobody here waits.
	keepUntil time.Duration
	// nextTransfer spaces the transfers of a lock that moves fast. spacing is the
	// time between two of them, zero for Config.RecordEvery.
	nextTransfer, spacing time.Duration
	// restUntil is how long an idle lock is remembered.
	restUntil time.Duration
}

// uncontended is the contention of all names that need none. It is read like
// any other and never written.
var uncontended contention

// Shared returns a pointer to what all machines share and none writes. A copy of
// a machine shares it too.
func Shared() any { return &uncontended }

func (n *name) heapPos() *int32 { return &n.pos }

// contended reports whether a name has a contention of its own.
func (n *name) contended() bool { return n.c != &uncontended }

// more returns a name's contention for writing. It is made on first use.
func (n *name) more() *contention {
	if !n.contended() {
		n.c = &contention{}
	}
	return n.c
}

// holdUntil is the deadline of the present holder: the record's, or the end
// of a fixed lease or of a MaxHold if that is earlier.
func (n *name) holdUntil() time.Duration { return min(n.entry.until, n.hold.limit) }

// transferDue reports whether the record of a held lock is to be given its
// holder's number. While the server refuses transfers, as one does that is out
// of memory, a longer lease goes to the record as it stands.
func (n *name) transferDue() bool {
	c := n.c
	return n.entry.number != n.hold.Number && !(c.longer.want > 0 && c.retry.failing() && !c.unknown.replaced())
}

// lookup returns the name of a key, made if need be; nil at the bound.
func (m *Machine) lookup(key string) *name {
	n := m.names[key]
	if n == nil {
		// Names that are only remembered do not count, within reason.
		if known := len(m.names); known-m.resting >= m.cfg.MaxLocks || known >= 2*m.cfg.MaxLocks {
			return nil
		}
		if free := len(m.freeNames); free > 0 {
			n, m.freeNames = m.freeNames[free-1], m.freeNames[:free-1]
		} else {
			n = new(name)
		}
		n.name, n.c = key, &uncontended
		n.entry.of = n
		m.names[key] = n
		m.resting++
	}
	return n
}

// rest is called when nobody here wants the name and the record is not ours.
// The name is remembered for a lingering subscription, suspects whose time is
// not over, or turns that others are owed.
func (m *Machine) rest(n *name) {
	c := n.c
	if !n.contended() && n.sub == subNone {
		m.becomeIdle(n)
		return
	}
	if n.phase != idle {
		m.becomeIdle(n)
		c = n.more()
		c.restUntil = m.now
		if n.sub != subNone {
			c.restUntil = later(m.now, m.cfg.Linger)
		}
		if t := &c.turns; t.others > 0 || t.back {
			// A pause of callers must not reset the turns.
			c.restUntil = max(c.restUntil, later(m.now, m.cfg.PassTime), t.payAt(m.now))
		}
	}
	at := c.unknown.forgetAt(c.restUntil)
	if m.now < at && !m.closing {
		c.restUntil = at
		return
	}
	if n.c.unknown.strays() > 0 && !m.closing {
		m.release(n)
		return
	}
	if n.sub != subNone {
		m.unsubscribe(n)
	}
	n.c = &uncontended
}

// leave is called when nobody here wants the lock any more, no script is in
// flight and the record is not known to be ours. It removes a record that may
// have been left behind.
func (m *Machine) leave(n *name) {
	if n.c.unknown.strays() > 0 {
		m.release(n)
		return
	}
	m.rest(n)
}

func (m *Machine) forget(n *name) {
	if n.forgotten {
		return
	}
	n.forgotten = true
	if n.phase == idle {
		m.resting--
	}
	if n.contended() {
		m.answerProlongations(n, ErrClosed)
	}
	m.alarms.remove(n)
	m.renewals.Remove(&n.entry)
	delete(m.names, n.name)
	m.forgotten = append(m.forgotten, n)
}

// everyName lists all names in order.
func (m *Machine) everyName() []*name {
	return m.namesWhere(func(*name) bool { return true })
}

// namesWhere lists the names that pass a test, in order: the order of a map must
// not decide what happens.
func (m *Machine) namesWhere(pass func(*name) bool) []*name {
	var some []*name
	for _, n := range m.names {
		if pass(n) {
			some = append(some, n)
		}
	}
	slices.SortFunc(some, func(a, b *name) int { return strings.Compare(a.name, b.name) })
	return some
}
