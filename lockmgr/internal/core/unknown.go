package core

import (
	"slices"
	"time"
)

// unknown is what the unanswered commands of a name may have done, or may still
// do.
type unknown struct {
	suspects []suspect

	// mayLive is until when the record may live because of unanswered scripts.
	mayLive time.Duration
	// goneBy is when the record must have expired even if its removal goes on
	// failing; zero while no removal has failed.
	goneBy time.Duration
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

// add notes a suspect.
func (u *unknown) add(s suspect) {
	for i := range u.suspects {
		if known := &u.suspects[i]; known.owner == s.owner {
			known.until = max(known.until, s.until)
			known.stray = known.stray || s.stray
			known.ours = known.ours || s.ours
			return
		}
	}
	if len(u.suspects) == maxSuspects {
		oldest := max(0, slices.IndexFunc(u.suspects, func(s suspect) bool { return s.stray && !s.ours }))
		u.suspects = slices.Delete(u.suspects, oldest, oldest+1)
	}
	u.suspects = append(u.suspects, s)
}

// addOp notes that op may have run, or may yet.
func (u *unknown) addOp(op *Op, until time.Duration) {
	u.mayLive = max(u.mayLive, until+op.Lease)
	if op.Owner != 0 && op.Verb != VerbRenew {
		u.add(suspect{owner: op.Owner, until: until, stray: op.Verb == VerbAcquire})
	}
}

// named is called when a script that named the suspects has run. The record
// carries the number that it wrote, so commands that only replace a number can
// never match again. Strays are looked for until their time is over.
func (u *unknown) named(sent time.Duration) {
	u.suspects = slices.DeleteFunc(u.suspects, func(s suspect) bool { return !s.stray || s.until <= sent })
}

// replaced reports whether a transfer without an answer may have replaced the
// number in the record, or still may.
func (u *unknown) replaced() bool {
	return slices.ContainsFunc(u.suspects, func(s suspect) bool { return !s.stray })
}

// strays counts the records of ours that unanswered commands may have left, or
// still may create.
func (u *unknown) strays() (n int) {
	for _, s := range u.suspects {
		if s.stray {
			n++
		}
	}
	return n
}

// removed is called when a release has removed a record of ours that no script
// had confirmed. If only one suspect can be that record, its command has run and
// won't run again.
func (u *unknown) removed() {
	if u.strays() == 1 {
		u.suspects = nil
	}
}

// forgetAt is when the last suspect has had its time, or an instant after that.
func (u *unknown) forgetAt(at time.Duration) time.Duration {
	for _, s := range u.suspects {
		at = max(at, s.until)
	}
	return at
}

// giveUpAt is when a record must have expired that can't be removed: until is the
// end of what is known of it.
func (u *unknown) giveUpAt(until time.Duration, cfg *Config) time.Duration {
	if u.goneBy == 0 {
		u.goneBy = later(max(until, u.mayLive)+cfg.Lease/50, cfg.SuspectTime)
		for _, s := range u.suspects {
			if s.stray {
				u.goneBy = max(u.goneBy, later(s.until, cfg.Lease))
			}
		}
	}
	return u.goneBy
}

// suspectUntil is how long a number is looked for that becomes a suspect now.
func (m *Machine) suspectUntil() time.Duration { return later(m.now, m.cfg.SuspectTime) }

// suspectOwner stops trusting our record, and notes that it may still be there.
func (m *Machine) suspectOwner(n *name) {
	n.more().unknown.add(suspect{owner: n.entry.number, until: m.suspectUntil(), stray: true, ours: true})
	n.entry.number = 0
}

// mayCarry appends to out the numbers that the record may carry, except beside. A
// transfer names no strays: a record that was ours all the time can't be one.
func (n *name) mayCarry(beside uint64, verb Verb, out []uint64) []uint64 {
	if n.entry.number != 0 && n.entry.number != beside {
		out = append(out, n.entry.number)
	}
	for _, s := range n.c.unknown.suspects {
		if s.owner != beside && s.owner != n.entry.number && !(s.stray && verb == VerbTransfer) {
			out = append(out, s.owner)
		}
	}
	return out
}
