package core

import "time"

// A Request is one caller's request for a lock. The shell fills the first group
// of fields, Explicit, Fenced and Once, and passes it on with a Lock event; from
// then on the core owns it.
// The shell may read the second group while it carries out an effect that names
// the request.
//
// A granted request has a hold: its own, or for a re-entry that of the request
// which was granted first.
type Request struct {
	Name string
	// ID is unique within the manager and rises with time, so that of two
	// requests the one with the larger ID is the younger.
	ID uint64
	// Owner is ID for an anonymous request.
	Owner uint64
	// Lease is the fixed lease, or zero for a watched one.
	Lease time.Duration
	// MaxHold is the longest that the watchdog keeps a watched hold, or zero.
	MaxHold time.Duration
	// GiveUp is the instant at which waiting ends, or Forever.
	GiveUp time.Duration
	// Tag is the shell's own.
	Tag any

	// Hold is what it was granted, or nil.
	Hold *Hold

	of         *name
	next, prev *Request
	asked      time.Duration // queued: when it was made
	pos        int32         // place in the heap of waits that end
	place      int32         // queued, of an explicit owner: see ownerQueue
	own        Hold          // so that a grant needs no memory of its own

	// Passed says that the lock came from another holder in this manager. The
	// shell may read it like Hold.
	Passed bool
	// Explicit: the caller named the owner, so other requests may share it.
	Explicit bool
	Fenced   bool
	// Once asks for one try and no waiting.
	Once bool

	late  uint8 // grants that came too late
	state requestState
}

type requestState uint8

const (
	reqNew requestState = iota
	reqQueued
	reqGranted
	reqDone
)

func (r *Request) heapPos() *int32 { return &r.pos }

// queue is a FIFO of requests, each of which can be removed.
type queue struct {
	head, tail *Request
}

func (q *queue) push(r *Request) {
	r.prev, r.next = q.tail, nil
	if q.tail != nil {
		q.tail.next = r
	} else {
		q.head = r
	}
	q.tail = r
}

func (q *queue) remove(r *Request) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		q.head = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		q.tail = r.prev
	}
	r.prev, r.next = nil, nil
}

// upTo counts the requests, up to a limit.
func (q *queue) upTo(limit int) (count int) {
	for r := q.head; r != nil && count < limit; r = r.next {
		count++
	}
	return count
}

// request handles a new request.
func (m *Machine) request(r *Request) {
	if m.closing {
		m.fail(r, ErrClosed)
		return
	}
	n := m.lookup(r.Name)
	if n == nil {
		m.fail(r, ErrOverloaded)
		return
	}
	r.of = n
	defer m.settle(n)
	if n.phase == held && m.now >= n.holdUntil() {
		m.expire(n) // before its alarm came
	}
	if n.phase == held && r.Explicit && n.hold.Request.Owner == r.Owner {
		m.reenter(n, r)
		return
	}
	if r.Once && m.occupied(n) {
		m.fail(r, m.whyOccupied(n))
		return
	}
	n.queue.push(r)
	r.state = reqQueued
	r.asked = m.now
	if m.health.failing {
		m.health.tellAt = min(m.health.tellAt, m.tellDue(m.now))
	}
	m.stats.Waiting++
	if r.GiveUp != Forever {
		m.giveUps.set(r, r.GiveUp)
	}
	if r.Explicit {
		m.waits.add(r)
		m.breakDeadlock(r, n)
	}
	switch {
	case n.flight != 0:
	case n.phase == waiting && m.health.failing:
		m.trySoon(n)
	case n.queue.head != r:
	case n.phase == idle:
		m.ask(n)
	case n.phase == passing: // the record was kept
		m.next(n, nil)
	case n.phase == releasing && r.Once: // it does not wait for a failed release
		m.proceed(n)
	}
}

// occupied reports whether a request would have to wait.
func (m *Machine) occupied(n *name) bool {
	switch n.phase {
	case idle:
		return n.contended() && !n.c.turns.ready(m.now, &m.cfg)
	case releasing:
		return n.queue.head != nil
	case passing:
		return n.queue.head != nil || n.flight != 0
	}
	return true
}

// whyOccupied is what a request is told that will not wait. That another has the
// lock is known only of a holder here, or of a server that answers.
func (m *Machine) whyOccupied(n *name) error {
	if n.phase != held && m.health.failing {
		return m.health.err
	}
	return ErrNotAcquired
}

// failOnce fails the requests that ask for one try.
func (m *Machine) failOnce(n *name, err error) {
	for r := n.queue.head; r != nil; {
		next := r.next
		if r.Once {
			m.giveUp(r, err)
		}
		r = next
	}
}

// giveUp fails a queued request.
func (m *Machine) giveUp(r *Request, err error) {
	n := r.of
	m.dequeue(n, r)
	m.fail(r, err)
	if n.queue.head == nil {
		switch {
		case n.phase == waiting && n.flight == 0:
			m.leave(n)
			m.settle(n)
		case n.phase == passing && n.flight == 0:
			m.next(n, nil) // the record was being kept for it
			m.settle(n)
		}
	}
}

func (m *Machine) dequeue(n *name, r *Request) {
	n.queue.remove(r)
	m.giveUps.remove(r)
	m.stats.Waiting--
	if r.Explicit {
		m.waits.remove(r)
	}
}

func (m *Machine) fail(r *Request, err error) {
	r.state = reqDone
	m.emit(Failed{r, err})
}

// cancel handles a caller that left. A script in flight for it can't be
// recalled: if it gets the lock, that goes to the next in line or is released.
func (m *Machine) cancel(r *Request) {
	if r.state == reqQueued {
		m.giveUp(r, errCancel)
	}
}

// overdue reports whether a request has met failures of its lock for RetryTime.
func (m *Machine) overdue(n *name, r *Request) bool {
	return m.now-max(n.c.retry.since, r.asked) >= m.cfg.RetryTime
}
