package core

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/renewal"
)

// phase is the state of a lock in this manager. See the diagram in doc.go.
type phase uint8

const (
	idle      phase = iota // nobody here wants it and the record is not ours
	asking                 // an acquire is in flight for the first waiter
	waiting                // others hold it: a wake-up or the poll comes next
	held                   // a local owner holds it
	passing                // the record is ours, and nobody holds the lock yet
	releasing              // the record is to be removed: nobody here is next, or others go first
)

func (p phase) String() string {
	return [...]string{"idle", "asking", "waiting", "held", "passing", "releasing"}[p]
}

// A lock is the manager's state of one name.
type lock struct {
	name  string
	queue queue

	// holder is the anchor of the hold, in phase held only.
	holder *Request
	// unlocking is the request whose Unlock waits for the release.
	unlocking *Request

	// owner is the number that the record in Redis carries, by the last
	// confirmed script, or zero when the record is not ours. It lags behind
	// holder.Field while a transfer is due or in flight.
	owner uint64
	// until is how long the record may be trusted: the latest of send plus
	// usable lease of all confirmed scripts.
	until time.Duration
	// sent is when the last confirmed script was sent.
	sent time.Duration
	// since is when the record came to us.
	since time.Duration

	// flight is the ID of the one script in flight, or zero.
	flight uint64

	// c is state that most locks never need: for contention, failures, tokens
	// and long leases.
	c *contention

	pos   int32 // place in the heap of alarms
	entry renewal.Entry

	phase      phase
	sub        subscription
	flightKind Kind
	woken      bool // a wake-up came while a try was in flight
	retried    bool // an earlier copy of the release may have run
	forgotten  bool // removed from the machine
	resting    bool // counted in Machine.resting
}

type subscription uint8

const (
	subNone    subscription = iota
	subPending              // asked for: messages may be missed
	subOn                   // confirmed: messages are delivered
)

type contention struct {
	// retryAt is when the phase's next script goes out: the poll in phase
	// waiting, the repetition of what failed in the others.
	retryAt time.Duration
	// failingSince is the instant of the first of the failures in a row,
	// failures their number, lastErr the newest.
	failingSince time.Duration
	failures     int
	lastErr      error

	turns turns
	// giveBack says that the release in flight ends a run although somebody
	// here waits.
	giveBack bool
	echoes   int  // our confirmed releases whose messages have not arrived here
	echoed   bool // the message of the release in flight has arrived

	// keepUntil is how long the record stays ours although nobody here waits.
	keepUntil time.Duration

	// nextTransfer spaces the transfers of a lock that moves fast.
	nextTransfer time.Duration
	extend       time.Duration // a lease with which the record must be renewed soon
	extending    time.Duration // the same, of the renewal in flight
	// long says that the record may live longer than Config.Lease from now on.
	long bool
	// doubt is the last script before the message because of which our record
	// may be gone; zero if there is no doubt.
	doubt uint64
	// doubts counts the messages since then.
	doubts int
	// prolongations wait for a renewal.
	prolongations []*Prolongation
	// nextToken to lastToken are left of the range that came with the record.
	nextToken, lastToken int64

	suspects []suspect

	// mayLive is until when the record may live because of unanswered scripts.
	mayLive time.Duration
	// goneBy is when the record must have expired even if its removal goes on
	// failing; zero while no removal has failed.
	goneBy time.Duration

	// restUntil is how long an idle lock is remembered.
	restUntil time.Duration
}

func (l *lock) heapPos() *int32 { return &l.pos }

// RenewalEntry makes a lock an item of a renewal.Map.
func (l *lock) RenewalEntry() *renewal.Entry { return &l.entry }

// more returns the lock's contention state, made on first use.
func (l *lock) more() *contention {
	if l.c == nil {
		l.c = &contention{}
	}
	return l.c
}

// holdUntil is the deadline of the present holder: the record's, or the end
// of a fixed lease or of a MaxHold if that is earlier.
func (l *lock) holdUntil() time.Duration { return min(l.until, l.holder.limit) }

// transferDue reports whether the record of a held lock is to be given its
// holder's number. While the server refuses transfers, as one does that is out
// of memory, a longer lease goes to the record as it stands.
func (l *lock) transferDue() bool {
	c := l.c
	return l.owner != l.holder.Field && !(c.extend > 0 && c.failures > 0 && !l.mayBeReplaced())
}

// nextAt is when this lock wants its alarm, or Forever.
func (l *lock) nextAt() time.Duration {
	c := l.c
	switch l.phase {
	case held:
		at := l.holdUntil()
		if c != nil && l.flight == 0 {
			switch { // as in tend
			case l.transferDue():
				at = min(at, c.nextTransfer)
			case c.extend > 0:
				at = min(at, c.retryAt)
			}
		}
		return at
	case passing:
		switch {
		case l.flight == 0:
			return min(l.until, c.retryAt)
		case l.owner != 0:
			return l.until
		}
	case waiting:
		if l.flight == 0 {
			return c.retryAt
		}
	case releasing:
		if l.flight == 0 {
			return c.retryAt
		}
	case idle:
		if l.flight == 0 {
			return c.restUntil
		}
	}
	return Forever
}

// A suspect is a number that an unanswered command of this manager may record,
// however late that command runs. No later command records the number, so scripts
// about it can't harm a later hold.
type suspect struct {
	owner uint64
	// until is how long a record of this number is looked for.
	until time.Duration
	// stray: the command was an acquire, which creates a record, or the record
	// was ours and may be left. Else it was a transfer, which replaces the number
	// in a record.
	stray bool
	// ours: the record was ours. It may have a long lease.
	ours bool
}

// maxSuspects bounds the suspects of one name. A dropped one can do little
// harm: the record of an unanswered acquire ends within Config.Lease.
const maxSuspects = 16

// suspectOp notes that op may have run, or may yet.
func (l *lock) suspectOp(op *Op, until time.Duration) {
	c := l.more()
	c.mayLive = max(c.mayLive, until+op.Lease)
	if op.Owner != 0 {
		l.suspect(op.Owner, until, op.Kind == KindAcquire)
	}
}

func (l *lock) suspect(owner uint64, until time.Duration, stray bool) {
	c := l.more()
	for i := range c.suspects {
		if s := &c.suspects[i]; s.owner == owner {
			s.until = max(s.until, until)
			s.stray = s.stray || stray
			return
		}
	}
	if len(c.suspects) == maxSuspects {
		oldest := max(0, slices.IndexFunc(c.suspects, func(s suspect) bool { return s.stray && !s.ours }))
		c.suspects = slices.Delete(c.suspects, oldest, oldest+1)
	}
	c.suspects = append(c.suspects, suspect{owner: owner, until: until, stray: stray})
}

// suspectOwner stops trusting our record, and notes that it may still be there.
func (l *lock) suspectOwner(until time.Duration) {
	l.suspect(l.owner, until, true)
	for i := range l.c.suspects {
		if s := &l.c.suspects[i]; s.owner == l.owner {
			s.ours = true
		}
	}
	l.owner = 0
}

// clearSuspects is called when a script that named the suspects has run. The
// record carries the number that it wrote, so commands that only replace a
// number can never match again. Strays are looked for until their time is over.
func (l *lock) clearSuspects(at time.Duration) {
	if c := l.c; c != nil && len(c.suspects) > 0 {
		c.suspects = slices.DeleteFunc(c.suspects, func(s suspect) bool { return !s.stray || s.until <= at })
	}
}

// mayBeReplaced reports whether a transfer without an answer may have replaced
// l.owner in the record, or still may.
func (l *lock) mayBeReplaced() bool {
	return l.c != nil && slices.ContainsFunc(l.c.suspects, func(s suspect) bool { return !s.stray })
}

// mayHaveStray reports whether an unanswered command may have left a record of
// ours, or still may create one.
func (l *lock) mayHaveStray() bool {
	return l.c != nil && slices.ContainsFunc(l.c.suspects, func(s suspect) bool { return s.stray })
}

// mayCarry appends to out the numbers that the record may carry, except beside. A
// transfer names no strays: a record that was ours all the time can't be one.
func (l *lock) mayCarry(beside uint64, kind Kind, out []uint64) []uint64 {
	if l.owner != 0 && l.owner != beside {
		out = append(out, l.owner)
	}
	if l.c != nil {
		for _, s := range l.c.suspects {
			if s.owner != beside && s.owner != l.owner && !(s.stray && kind == KindTransfer) {
				out = append(out, s.owner)
			}
		}
	}
	return out
}

// succeeded resets the failures in a row.
func (c *contention) succeeded() {
	c.failures, c.failingSince, c.lastErr = 0, 0, nil
}
