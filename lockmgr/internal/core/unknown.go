package core

import (
	"slices"
	"time"
)

// unknown is what the unanswered scripts about an entry may have done, or may still do.
type unknown struct {
	suspects []suspect

	// mayLive is the instant until which a record may live because of unanswered scripts.
	mayLive time.Duration
	// goneBy is when the record must have expired even if no release of the record succeeds. goneBy
	// is zero while no release has failed.
	goneBy time.Duration
}

// A suspect is a number that an unanswered command of this manager may record, however late the
// command runs, or under which an entry that gathers keeps a part. No later command records the
// number, so a script that names the number can't harm a later hold.
type suspect struct {
	number uint64
	// until is the instant until which a record of the number is looked for.
	until time.Duration
	// stray is set if a record of the number may exist, or may still be created. stray is not set
	// if the command was a transfer, which only replaces the number in a record.
	stray bool
	// ours is set if the record was ours. The record may have a long lease.
	ours bool
	// byMessage is set if only a grant by message can have recorded the number. Nobody had the
	// lock, and the record ends soon.
	byMessage bool
	// repeats is set if several commands record the number: see places, and Reply.Split.
	repeats bool
	// answered is set if each command that records the number has an answer.
	answered bool
}

// maxSuspects bounds the suspects of one entry. Dropping a suspect does little harm, because the
// record of an unanswered acquire ends within Config.Lease.
const maxSuspects = 16

// add adds a suspect, or what is new about a known suspect.
func (u *unknown) add(s suspect) {
	for i := range u.suspects {
		if known := &u.suspects[i]; known.number == s.number {
			known.until = max(known.until, s.until)
			known.repeats = known.repeats || s.repeats || known.stray && s.stray
			known.stray = known.stray || s.stray
			known.ours = known.ours || s.ours
			known.byMessage = known.byMessage && s.byMessage
			known.answered = known.answered && s.answered
			return
		}
	}
	if len(u.suspects) == maxSuspects {
		oldest := max(0, slices.IndexFunc(u.suspects, func(s suspect) bool { return s.stray && !s.ours }))
		u.suspects = slices.Delete(u.suspects, oldest, oldest+1)
	}
	u.suspects = append(u.suspects, s)
}

// addOp notes that op may have run, or may still run.
func (u *unknown) addOp(op *Op, split bool, until time.Duration) {
	u.mayLive = max(u.mayLive, until+op.Lease)
	if op.Number != 0 && op.Verb != VerbRenew {
		u.add(suspect{number: op.Number, until: until, stray: op.Verb == VerbAcquire, repeats: split && op.Verb == VerbAcquire})
	}
}

// named is called when a script that names the suspects has run. If a record is left, the record
// carries the number that the script wrote. So an unanswered transfer that runs later finds no
// number to replace. Strays are looked for until their time is over.
func (u *unknown) named(sent time.Duration) {
	u.suspects = slices.DeleteFunc(u.suspects, func(s suspect) bool { return !s.stray || s.until <= sent })
}

// replaced reports whether an unanswered transfer may have replaced the number in the record, or
// still may.
func (u *unknown) replaced() bool {
	return slices.ContainsFunc(u.suspects, func(s suspect) bool { return !s.stray })
}

// strays returns the number of records that unanswered scripts may have left, or may still create.
func (u *unknown) strays() (n int) {
	for _, s := range u.suspects {
		if s.stray {
			n++
		}
	}
	return n
}

// mayHaveHold reports whether the server may have a record of a hold that somebody had or asked
// for, if no acquire is in flight. The record of a grant by message that nobody has taken is left
// out.
func (e *entry) mayHaveHold() bool {
	return e.number != 0 || slices.ContainsFunc(e.upkeep().unknown.suspects, func(s suspect) bool { return s.stray && !s.byMessage })
}

// removed is called when a release has removed a record of ours that no script had confirmed. If
// there is exactly one stray, the record was the stray's. The stray's command has run and won't run
// again, unless several commands record the number.
func (u *unknown) removed() {
	if u.strays() == 1 && !slices.ContainsFunc(u.suspects, func(s suspect) bool { return s.repeats }) {
		u.suspects = nil
	}
}

// foundAll is called when a script that names the suspects has taken over, or removed, every record
// of the entry. No record is left of a command that has an answer.
func (u *unknown) foundAll() {
	u.suspects = slices.DeleteFunc(u.suspects, func(s suspect) bool { return s.answered })
}

// removedNumber is called when a command that removes a number has run, and the command that
// recorded the number had been answered. So no record carries the number, and none will.
func (u *unknown) removedNumber(number uint64) {
	u.suspects = slices.DeleteFunc(u.suspects, func(s suspect) bool { return s.number == number })
}

// forgetAt returns the instant at which the time of the last suspect is over, or at, whichever is
// later.
func (u *unknown) forgetAt(at time.Duration) time.Duration {
	for _, s := range u.suspects {
		at = max(at, s.until)
	}
	return at
}

// fixGoneBy determines when a record that can't be removed must have expired, unless an earlier
// call for the release has, and returns the instant. until is the latest end of the record by the
// scripts with an answer, or now.
func (u *unknown) fixGoneBy(until time.Duration, cfg *Config) time.Duration {
	if u.goneBy == 0 {
		u.goneBy = later(max(until, u.mayLive)+cfg.Lease/50, cfg.SuspectTime) // until leaves out 1 %, and the server's clock may be 1 % slow
		for _, s := range u.suspects {
			if s.stray {
				u.goneBy = max(u.goneBy, later(s.until, cfg.Lease))
			}
		}
	}
	return u.goneBy
}

// suspectUntil returns until when the record of a new suspect is looked for.
func (m *Machine) suspectUntil() time.Duration { return later(m.now, m.cfg.SuspectTime) }
