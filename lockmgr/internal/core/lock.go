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

	// owner is the owner that the record in Redis carries as far as the last
	// confirmed script goes, or zero when the record is not ours. It lags
	// behind holder.Field while a transfer is due or in flight.
	owner uint64
	// until bounds our trust in the record: the send of the last confirmed
	// script, plus the usable part of its lease.
	until time.Duration
	// sent is the send of that script.
	sent time.Duration

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

	// A run: grants in a row. others is how many others were waiting when
	// last we heard, fresh whether we heard since the record came to us or
	// the run's bound was met.
	// alone says that since the record came to us we heard of no others.
	runCount int
	runStart time.Duration
	others   int64
	fresh    bool
	alone    bool
	// back says that the release in flight ends a run; backUntil that the
	// name stands back; echo that the message of that release has been seen.
	back      bool
	backUntil time.Duration
	echo      bool
	// rounds is how many runs of others this manager lets go by before its
	// next one, left how many of them are still to come, and yielded that the
	// last of them has ended, so that it is our turn. fruitless counts the
	// times in a row that nobody came, stood those that it stood back.
	left, rounds int64
	yielded      bool
	fruitless    int
	stood        uint

	// nextTransfer spaces the transfers of a lock that moves fast.
	nextTransfer time.Duration
	// extend is a lease that the record must be renewed with soon.
	extend time.Duration
	// tokens left of the range that came with the record.
	nextToken, lastToken int64

	// suspects are owners named in commands whose fate is unknown.
	suspects []suspect

	// mayLive is how long the record may live because of scripts whose fate
	// is unknown.
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
// of a fixed lease if that is earlier.
func (l *lock) holdUntil() time.Duration { return min(l.until, l.holder.limit) }

// nextAt is when this lock wants its alarm, or Forever.
func (l *lock) nextAt() time.Duration {
	c := l.c
	switch l.phase {
	case held:
		at := l.holdUntil()
		if c != nil && l.flight == 0 {
			switch { // as in tend
			case l.owner != l.holder.Field:
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
		return c.retryAt
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

// A suspect is an owner of this manager that was named in a command whose
// fate is unknown. Until its time is over it may turn up in the record, or
// vanish from it, whenever the server comes round to that command. So every
// script of the name lists the suspects, and nobody else is recorded under a
// suspect's number.
type suspect struct {
	owner uint64
	until time.Duration
	// creates counts what may put a record there, or have left one: the
	// acquires among those commands, and a record that was given up.
	creates int
	// doomed is that one of those commands removes it.
	doomed bool
}

// suspectOp notes that op may have run, or may yet.
func (l *lock) suspectOp(op *Op, until time.Duration) {
	c := l.more()
	c.mayLive = max(c.mayLive, until+op.Lease)
	creates := 0
	if op.Kind == KindAcquire {
		creates = 1
	}
	if op.Owner != 0 {
		l.suspect(op.Owner, until, creates)
	}
	for _, o := range op.Others {
		l.suspect(o, until, 0).doomed = true
	}
}

func (l *lock) suspect(owner uint64, until time.Duration, creates int) *suspect {
	c := l.more()
	for i := range c.suspects {
		if s := &c.suspects[i]; s.owner == owner {
			s.until = max(s.until, until)
			s.creates += creates
			return s
		}
	}
	c.suspects = append(c.suspects, suspect{owner: owner, until: until, creates: creates})
	return &c.suspects[len(c.suspects)-1]
}

func (l *lock) isDoomed(owner uint64) bool {
	if l.c == nil {
		return false
	}
	for _, s := range l.c.suspects {
		if s.owner == owner && s.doomed {
			return true
		}
	}
	return false
}

// clearSuspects forgets those whose time was over at an instant.
func (l *lock) clearSuspects(at time.Duration) {
	c := l.c
	if c == nil || len(c.suspects) == 0 {
		return
	}
	c.suspects = slices.DeleteFunc(c.suspects, func(s suspect) bool { return s.until <= at })
}

// haunted tells whether a record of ours may be there, or come to be, that no
// confirmed script speaks of.
func (l *lock) haunted() bool {
	return l.c != nil && slices.ContainsFunc(l.c.suspects, func(s suspect) bool { return s.creates > 0 })
}

// mayCarry lists the owners that the record may carry, beside one.
func (l *lock) mayCarry(beside uint64, out []uint64) []uint64 {
	if l.owner != 0 && l.owner != beside {
		out = append(out, l.owner)
	}
	if l.c != nil {
		for _, s := range l.c.suspects {
			if s.owner != beside && s.owner != l.owner {
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
