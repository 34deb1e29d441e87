package core

import (
	"time"

	"github.com/holdfast-go/holdfast/renewal"
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

	// c is uncontended, or the lock's own: see more. A lock that is taken and
	// given back alone never has its own.
	c *contention

	pos int32 // place in the heap of alarms

	phase      phase
	sub        subscription
	flightKind Kind
	woken      bool // a wake-up came while a try was in flight
	retried    bool // an earlier copy of the release may have run
	forgotten  bool // removed from the machine
}

// An entry is something of ours on the server that has a lease of its own and is
// renewed by itself: the record of an exclusive lock.
type entry struct {
	of *name
	// number is the one that the entry carries on the server, by the last confirmed
	// script, or zero when there is no entry of ours. It lags behind Hold.Number
	// while a transfer is due or in flight.
	number uint64
	// until is how long the entry may be trusted: the latest of send plus usable
	// lease of all confirmed scripts.
	until time.Duration
	// sent is when the last confirmed script was sent.
	sent time.Duration
	// since is when the entry came to us.
	since time.Duration

	renewal renewal.Entry
}

// RenewalEntry makes an entry an item of a renewal.Map.
func (e *entry) RenewalEntry() *renewal.Entry { return &e.renewal }

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
	// nextTransfer spaces the transfers of a lock that moves fast.
	nextTransfer time.Duration
	// restUntil is how long an idle lock is remembered.
	restUntil time.Duration
}

// longer is what is to be done because a holder wants a longer lease than the
// record has.
type longer struct {
	want  time.Duration   // the lease of a renewal that is to be sent; zero if none is
	sent  time.Duration   // that of the renewal in flight
	set   bool            // the record may live longer than Config.Lease from now on
	asked []*Prolongation // they wait for a renewal
}

// uncontended is the contention of all names that need none. It is read like
// any other and never written.
var uncontended contention

// Shared returns a pointer to what all machines share and none writes. A copy of
// a machine shares it too.
func Shared() any { return &uncontended }

func (n *name) heapPos() *int32 { return &n.pos }

// contended reports whether a lock has a contention of its own.
func (n *name) contended() bool { return n.c != &uncontended }

// more returns a lock's contention for writing. It is made on first use.
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
