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
