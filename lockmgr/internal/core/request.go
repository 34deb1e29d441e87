package core

import (
	"container/list"
	"time"
)

// A Request is one caller's request for a lock. The shell fills the fields from Name to Tag, and
// Kind, Side, Explicit, Fenced and Once. The shell passes the request on with a Lock, LockSet or
// LockPermits event. From then on the core owns the request. The shell may read Hold and Passed
// while carrying out an effect that names the request.
//
// A granted request has a hold: its own, or the hold that the request re-enters.
type Request struct {
	Name string
	// ID is unique within the manager and rises with time. Of two requests, the younger has the
	// larger ID.
	ID uint64
	// Lease is the fixed lease, or zero for a watched lease.
	Lease time.Duration
	// Terms are what few requests have, or nil.
	Terms *Terms
	// Asked is the instant of the request.
	Asked time.Duration
	// Ends is the instant at which waiting ends, or Forever. From the grant on Ends is the core's:
	// the instant at which the hold ends even if renewed, which is the end of a fixed lease or of
	// MaxHold, or Forever. Once the hold has ended, Ends is the instant of the end, also in the
	// request of the last Unlock.
	Ends time.Duration
	// Tag is the shell's own.
	Tag any

	// Hold is the hold that the request was granted, or nil.
	Hold *Hold

	// entry is the entry of the request's hold. Before the grant, entry is the entry whose transfer
	// is to record the request, or the first entry of the name.
	entry      *entry
	next, prev *Request // in the queue, or in the list of holds that share an entry
	pos        int32    // position in the heap Machine.waitEnds
	own        Hold     // the request's own hold, so that a grant allocates nothing

	// Kind is the kind of the lock. Side is the side that the request wants.
	Kind Kind
	Side Side

	// Passed is set if the request got an entry from another holder in this manager, or shares the
	// entry with a holder.
	Passed bool
	// Explicit is set if the caller named the owner. Terms has the owner. Several requests may have
	// the same owner.
	Explicit bool
	Fenced   bool
	// Once is set for a request with a single try, which does not wait.
	Once bool

	late  uint8 // grants that came too late for it
	state requestState
}

// Terms are what few requests ask for.
type Terms struct {
	// Owner is the owner's number, if the request is Explicit: see As.
	Owner uint64
	// MaxHold is the longest that the watchdog keeps a watched hold, or zero.
	MaxHold time.Duration
	// KeepFor is for how long the record stays from the grant on, even after an unlock, or zero.
	// Only the kind Exclusive has KeepFor.
	KeepFor time.Duration
	// TakeOver is the holder ID of an ended hold, or "". The record that KeepFor has left of that
	// hold does not keep the request out. Only the kind Exclusive has TakeOver.
	TakeOver string
	// Note is the shell's own: what the caller says of the request, or "".
	Note string
	// Tag is the shell's own.
	Tag any

	inWaits *list.Element // in Machine.waits, while the request is queued and Explicit
}

// As makes the request a request of an owner that the caller has named. The shell calls As before
// passing the request on, and after setting Terms.
func (r *Request) As(owner uint64) {
	if r.Terms == nil {
		r.Terms = new(Terms)
	}
	r.Terms.Owner, r.Explicit = owner, true
}

// Owner returns the owner's number. For an anonymous request Owner returns the ID.
func (r *Request) Owner() uint64 {
	if r.Explicit {
		return r.Terms.Owner
	}
	return r.ID
}

// takeOver returns the TakeOver of the request's terms, or "".
func (r *Request) takeOver() string {
	if r.Terms == nil {
		return ""
	}
	return r.Terms.TakeOver
}

func (r *Request) takesOver() bool { return r.takeOver() != "" }

// easier reports whether the server may grant r although it has refused a request with the given
// side, permits and takeOver. When the refused request leaves, no message comes, so the next
// request must try.
func (r *Request) easier(side Side, permits int, takeOver string) bool {
	shares := r.Side == Shared && side == Alone
	return shares || int(r.own.Permits) < permits || r.takesOver() && r.takeOver() != takeOver
}

type requestState uint8

const (
	reqNew requestState = iota
	reqQueued
	reqUpgrading // see upkeep.upgrade
	reqGranted
	reqDone
)

func (r *Request) heapPos() *int32 { return &r.pos }

// queue is a FIFO of requests. Any request can be removed.
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

// all calls yield for each request, from the first on. yield may remove the request. If yield has
// removed the next request, too, all goes on from the first.
func (q *queue) all(yield func(*Request) bool) {
	for r := q.head; r != nil; {
		next := r.next
		if !yield(r) {
			return
		}
		if r = next; r != nil && r.state != reqQueued {
			r = q.head
		}
	}
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

// push adds a request to the queue of a name. If a request behind the first has Once set, push
// makes the details of the name: see impatient.
func (n *name) push(r *Request) {
	if r.Once && n.queue.head != nil {
		n.makeDetails()
	}
	n.queue.push(r)
	if n.hasDetails() {
		n.queued(r)
	}
}

// queued counts a new request in the queue of a name with details of its own.
func (n *name) queued(r *Request) {
	if r.Once {
		n.details.once++
	}
	if r.Side == Alone {
		n.details.forAlone++
	}
}

// remove takes a request out of the queue of a name.
func (n *name) remove(r *Request) {
	n.queue.remove(r)
	if !n.hasDetails() {
		return
	}
	if r.Once {
		n.details.once--
	}
	if r.Side == Alone {
		n.details.forAlone--
	}
}

// impatient reports whether a request in the queue has Once set.
func (n *name) impatient() bool {
	if !n.hasDetails() {
		return n.queue.head != nil && n.queue.head.Once // see push
	}
	return n.details.once > 0
}

// somebodyWaits reports whether a request without Once waits.
func (n *name) somebodyWaits() bool {
	for r := range n.queue.all {
		if !r.Once {
			return true
		}
	}
	return false
}

// waitsAlone reports whether a request in the queue is for the side Alone.
func (n *name) waitsAlone() bool {
	if n.hasDetails() {
		return n.details.forAlone > 0
	}
	for r := n.queue.head; r != nil; r = r.next {
		if r.Side == Alone {
			return true
		}
	}
	return false
}

// behindAlone reports whether a queued request waits behind a request for the side Alone without
// Once. The queue may be long, so behindAlone looks at the head and at the few requests
// before r. Requests for the side Shared are at the head only after a run: otherwise the requests
// join the entry. So a request for the side Alone is seldom overlooked.
func (r *Request) behindAlone() bool {
	if h := r.entry.of.queue.head; h != r && h.Side == Alone && !h.Once {
		return true
	}
	const few = 64
	for q, i := r.prev, 0; q != nil && i < few; q, i = q.prev, i+1 {
		if q.Side == Alone && !q.Once {
			return true
		}
	}
	return false
}
