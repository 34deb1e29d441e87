package core

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/renewal"
)

// phase is where a lock stands in this manager. See the diagram in doc.go.
type phase uint8

const (
	idle      phase = iota // nobody here wants it and the record is not ours
	asking                 // an acquire is in flight for the first waiter
	waiting                // others hold it: a wake-up or the poll comes next
	held                   // a local owner holds it
	passing                // the record is ours, the next holder waits for a reply
	releasing              // nobody here wants it, the record is to be removed
)

func (p phase) String() string {
	return [...]string{"idle", "asking", "waiting", "held", "passing", "releasing"}[p]
}

// A lock is all that the manager knows of one name.
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
	// until bounds our trust in the record: the send of the last confirmed
	// script, plus the usable part of its lease.
	until time.Duration
	// sent is the send of that script.
	sent time.Duration
	// since is when the record came to us.
	since time.Duration

	// flight is the ID of the one script in flight, or zero.
	flight uint64

	// c is state that only contended or troubled locks need. A lock taken
	// and given back alone never has it.
	c *contention

	pos   int32 // place in the heap of alarms
	entry renewal.Entry

	phase      phase
	sub        subscription
	flightKind Kind
	woken      bool // a wake-up came while a try was in flight
	retried    bool // an earlier copy of the release may have run
	forgotten  bool // the machine knows it no more
	resting    bool // counted among those that are only remembered
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
	// failingSince is the first of the failures in a row, failures their
	// number, lastErr the newest.
	failingSince time.Duration
	failures     int
	lastErr      error

	turns turns
	// giveBack says that the release in flight ends a run although somebody
	// here waits.
	giveBack bool
	// echoes counts our releases whose messages have not come back to us yet,
	// echoed says that the message of the release in flight has.
	echoes int
	echoed bool

	// keepUntil is how long the record stays ours although nobody here waits.
	keepUntil time.Duration

	// nextTransfer spaces the transfers of a lock that moves fast.
	nextTransfer time.Duration
	// extend is a lease that the record must be renewed with soon, extending
	// the one of the renewal in flight.
	extend, extending time.Duration
	// long says that the record may live longer than Config.Lease from now on.
	long bool
	// doubt is the last script before a message that said that our record may
	// be gone; zero if there is no doubt.
	doubt uint64
	// doubts counts the messages since then.
	doubts int
	// prolongations wait for a renewal.
	prolongations []*Prolongation
	// tokens left of the range that came with the record.
	nextToken, lastToken int64

	suspects []suspect

	// mayLive is how long the record may live because of scripts that were
	// not answered.
	mayLive time.Duration
	// goneBy is when the record must have expired, however often its
	// removal failed; zero while none has failed.
	goneBy time.Duration

	// restUntil is how long an idle lock is remembered.
	restUntil time.Duration
}

func (l *lock) heapPos() *int32 { return &l.pos }

// RenewalEntry makes a lock an item of the expiration-renewal map.
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

// A suspect is a number of this manager that was named in a command without an
// answer. It may turn up in the record whenever the server comes round to that
// command, however late. No suspect is ever recorded again, so nothing that
// happens to it can harm a later hold.
type suspect struct {
	owner uint64
	// until is how long a record of this number is looked for.
	until time.Duration
	// stray says that the command creates the record, or left it behind. Others
	// replace the owner of a record that is there.
	stray bool
	// ours says that the record was there, and ours. It may have a long lease.
	ours bool
}

// maxSuspects bounds the suspects of one name. A record of an unanswered acquire
// that is not looked for ends within Config.Lease.
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

// suspectOwner notes that the record that was ours may still be there, and stops
// trusting it.
func (l *lock) suspectOwner(until time.Duration) {
	l.suspect(l.owner, until, true)
	for i := range l.c.suspects {
		if s := &l.c.suspects[i]; s.owner == l.owner {
			s.ours = true
		}
	}
	l.owner = 0
}

// clearSuspects is called when a script that named them all has run. The record
// carries what that script wrote, so those that only replace an owner can never
// match again. Strays are looked for until their time is over.
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

// mayHaveStray reports whether a record of ours may be there, or come to be,
// that no confirmed script speaks of.
func (l *lock) mayHaveStray() bool {
	return l.c != nil && slices.ContainsFunc(l.c.suspects, func(s suspect) bool { return s.stray })
}

// mayCarry lists the numbers that the record may carry, beside one. A transfer
// names no strays: a record that was ours without a break can't be one.
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

// succeeded ends a row of failures.
func (c *contention) succeeded() {
	c.failures, c.failingSince, c.lastErr = 0, 0, nil
}
