package core

import (
	"slices"
	"time"
)

// unknown is what commands without an answer may have done, or may still do. It
// knows the numbers that such commands named. No number is ever recorded again,
// so nothing that happens to one can harm a later hold.
type unknown struct {
	suspects []suspect

	// mayLive is how long the record may live because of scripts that were
	// not answered.
	mayLive time.Duration
	// goneBy is when the record must have expired, however often its
	// removal failed; zero while none has failed.
	goneBy time.Duration
}

// A suspect is a number of this manager that was named in a command without an
// answer. It may turn up in the record whenever the server comes round to that
// command, however late.
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
	if op.Owner != 0 {
		u.add(suspect{owner: op.Owner, until: until, stray: op.Kind == KindAcquire})
	}
}

// named is called when a script that named all suspects has run. It was sent at an
// instant. The record carries what that script wrote, so those that only replace
// an owner can never match again. Strays are looked for until their time is over.
func (u *unknown) named(sent time.Duration) {
	u.suspects = slices.DeleteFunc(u.suspects, func(s suspect) bool { return !s.stray || s.until <= sent })
}

// replaced reports whether a transfer without an answer may have replaced the
// owner of the record, or still may.
func (u *unknown) replaced() bool {
	return slices.ContainsFunc(u.suspects, func(s suspect) bool { return !s.stray })
}

// strays counts the records of ours that may be there, or come to be, of which
// no confirmed script speaks.
func (u *unknown) strays() (n int) {
	for _, s := range u.suspects {
		if s.stray {
			n++
		}
	}
	return n
}

// removed is called when a record of ours has been removed of which no confirmed
// script spoke. If exactly one unanswered acquire could have created it, that
// acquire has run and won't run again.
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

// suspectOwner notes that the record that was ours may still be there, and stops
// trusting it.
func (m *Machine) suspectOwner(l *lock) {
	l.more().unknown.add(suspect{owner: l.owner, until: m.suspectUntil(), stray: true, ours: true})
	l.owner = 0
}

// mayCarry lists the numbers that the record may carry, beside one. A transfer
// names no strays: a record that was ours without a break can't be one.
func (l *lock) mayCarry(beside uint64, kind Kind, out []uint64) []uint64 {
	if l.owner != 0 && l.owner != beside {
		out = append(out, l.owner)
	}
	for _, s := range l.c.unknown.suspects {
		if s.owner != beside && s.owner != l.owner && !(s.stray && kind == KindTransfer) {
			out = append(out, s.owner)
		}
	}
	return out
}
