package core

import "time"

// turns decides when a manager that wants a lock lets other processes have it
// first. There is one for each contended name. It is pure: it knows instants
// and reports of what happened, and nothing of scripts.
//
// # What is shared out
//
// Time is shared out, not grants. A process that passes its lock on in memory
// makes many grants in one turn; one that cannot, as a Redisson client, makes
// one grant and asks again. So each turn of ours is measured, and the others
// are owed that time, once for each of them that seems to want the lock.
//
//	owed += (time we had the lock) × share              at each release
//	owed −= (time that others had it, as far as known)  while we wait
//
// A run is what we take before others go first: PassCount grants or PassTime,
// and more if others have had more than their share. After it we stand back.
//
//	             run is over, others wait
//	competing ────────────────────────────▶ standing back
//	    ▲                                        │
//	    ├────────────────────────────────────────┤ another had it, and owed is paid
//	    └────────────────────────────────────────┘ nobody had it, and it lies free
//
// # What others use
//
// Subscribers may be idle, so their number is an upper bound of share. A lock
// that lies free must not wait for them: after a short pause without a message
// we try. If the try is granted, fewer others want the lock than we thought. If
// it was our turn and another was first, more do.
//
// From a refusal to the next message another has the lock. At other times it
// may lie free, as it does between a release and the next acquire of a client
// without local handoff. The part for which others have it is sampled: while
// they are active we look, at random instants, whether there is a record.
//
// A client that asks again as soon as it has released can be first for ever,
// and a message then always comes too late. Once we have had much less than our
// share, a refused try is repeated at once: it falls into such a gap by chance.
//
// # Who is not heard
//
// A process far away answers a message later than our short pause, and one
// without a subscription polls. Once in Config.ShareEvery the pause is long
// enough for them, even if no other subscriber is known.
type turns struct {
	// The run: grants, and the instant of the first.
	count int
	start time.Duration

	// others is the number of other subscribers, by the last reply. fresh says
	// that it was reported since the run's bound was last met, alone that a
	// transfer of this record reported none.
	others int64
	fresh  bool
	alone  bool
	// share is how many of them seem to want the lock.
	share int64

	// owed is the time that others may have the lock before our next run, as of
	// an instant. It is negative if they had more than their share.
	owed time.Duration
	asOf time.Duration
	// busy says that another has the lock: we were refused at busySince, and no
	// message has come since.
	busy      bool
	busySince time.Duration
	// taken is the part of the time for which others have the lock when it is
	// their turn and we are not sure, in 1/256.
	taken int64

	// back says that we stand back; heard counts the turns of others since.
	back  bool
	heard int64
	// tryAt is when the lock is tried although owed is not paid, because nobody
	// was heard for a while; or Forever.
	tryAt time.Duration
	// sampleAt is when to look whether there is a record; or Forever.
	sampleAt time.Duration
	sampled  time.Duration
	// yielded says that we have just let others go first, and it is our turn.
	yielded bool

	// fruitless counts the times in a row that nobody came while we stood back,
	// stood all times that we stood back.
	fruitless int
	stood     uint
	// presses is how many tries may be repeated at once until the next message,
	// vain counts those in a row that brought nothing.
	presses, vain int
	// wide says that this pause is long enough for those who are far away or
	// poll; lastWide is when one began.
	wide     bool
	lastWide time.Duration
}

const (
	wholeTime = 256         // taken, if others have the lock all the time
	leastTime = 256 / 4     // a lower taken would make us wait too long
	firstTime = 256 * 5 / 8 // taken before the first sample

	competing = 256 * 1 / 4 // at most, while we compete

	// mostTurn is the longest PassTime that sharing reckons with, and the most
	// that can be owed in either direction; else it is five PassTimes.
	mostTurn = time.Second

	// smallDebt is too short for a timer: turns are counted instead.
	smallDebt = time.Millisecond
)

// grant counts a grant of our run.
func (t *turns) grant(now time.Duration) {
	t.count++
	if t.count == 1 {
		t.start = now
	}
}

// newRun begins a run without standing back: nobody else waits.
func (t *turns) newRun(now time.Duration) {
	t.count, t.start, t.fresh = 0, now, false
}

// pass accounts for the time since the last call, for which the record was not
// ours. wanted says that somebody here waited for it: only then can others have
// more than their share.
func (t *turns) pass(now time.Duration, cfg *Config, wanted bool) {
	if t.taken == 0 {
		t.taken, t.asOf = firstTime, now // made just now
	}
	if now <= t.asOf {
		return
	}
	paid := min(now-t.asOf, time.Hour) * t.rate() / wholeTime
	if paid == 0 {
		return // a few nanoseconds are not to be lost by rounding
	}
	t.pay(paid, cfg, wanted)
	t.asOf = now
}

// rate is the part of the time for which others are taken to have the lock, in
// 1/256. While we compete it is a low guess, as nothing is sampled then and too
// high a one would give us more than our share.
func (t *turns) rate() time.Duration {
	if t.back {
		return time.Duration(t.taken)
	}
	return time.Duration(min(t.taken, competing))
}

// released accounts for the end of another's turn: since it was first refused to
// us the lock was not free for a moment.
func (t *turns) released(now time.Duration, cfg *Config) {
	if t.busy {
		t.pay((now-t.busySince)*(wholeTime-t.rate())/wholeTime, cfg, true)
	}
	t.busy = false
}

func (t *turns) pay(d time.Duration, cfg *Config, wanted bool) {
	least := time.Duration(0)
	if wanted {
		least = -cfg.mostOwed()
	}
	if t.owed > least {
		t.owed = max(least, t.owed-d)
	}
}

// payAt is when owed will be paid, as far as is known.
func (t *turns) payAt(now time.Duration) time.Duration {
	return now + max(0, t.owed)*wholeTime/time.Duration(max(t.taken, leastTime)) + time.Microsecond
}

// had accounts for a turn of ours that has ended with a release.
func (t *turns) had(now, since time.Duration, cfg *Config) {
	t.pass(since, cfg, false)
	t.asOf, t.busy = now, false
	if t.lastWide == 0 {
		t.lastWide = now
	}
	if t.share == 0 {
		t.share = t.others
	}
	t.share = max(1, min(t.share, t.others))
	t.owed = min(cfg.mostOwed(), t.owed+min(cfg.mostOwed(), now-since)*time.Duration(min(t.share, 64)))
}

// inCredit reports whether others have had much more than their share, even if
// we have had the lock since an instant.
func (t *turns) inCredit(now, since time.Duration, cfg *Config) bool {
	return t.count < 2*cfg.PassCount && t.owed+(now-since)*time.Duration(max(1, t.share)) < -cfg.BackTime
}

// mostOwed bounds what can be owed, in either direction.
func (c *Config) mostOwed() time.Duration {
	return min(5*min(c.PassTime, mostTurn), mostTurn)
}

// over reports whether the run has had its share.
func (t *turns) over(now time.Duration, cfg *Config) bool {
	return !t.inCredit(now, now, cfg) && (t.count >= cfg.PassCount || t.count > 0 && now-t.start >= cfg.PassTime) ||
		t.owed >= min(cfg.PassTime, mostTurn)*time.Duration(max(1, min(t.share, 4)))
}

// standBack ends the run. others is zero if they are not known but may poll.
func (t *turns) standBack(now time.Duration, cfg *Config, j *jitter) {
	t.back, t.heard, t.yielded = true, 0, false
	t.count, t.fresh = 0, false
	t.stood++
	pause := t.pause(cfg)
	if t.stood%16 == 0 {
		pause = cfg.BackTime // some are slower than others
	}
	if t.wide = cfg.ShareEvery > 0 && now-t.lastWide >= cfg.ShareEvery/4*3; t.wide {
		t.lastWide = now
		t.share = max(1, t.others)
		pause = cfg.FarPause
	}
	if t.others == 0 {
		pause = cfg.BlindPause
	}
	t.tryAt = now + pause + j.upTo(min(pause, cfg.BackTime))
	t.sampleAt = Forever
}

// pause is how long nobody must be heard before we try. It gets shorter while
// nobody comes.
func (t *turns) pause(cfg *Config) time.Duration {
	return cfg.BackTime >> min(2*t.fruitless, 4)
}

// ready reports whether we may try to get the lock.
func (t *turns) ready(now time.Duration, cfg *Config) bool {
	if !t.back {
		return true
	}
	t.pass(now, cfg, true)
	if t.hadTurns() && (t.owed <= 0 || t.owed <= smallDebt && t.heard >= t.share) {
		t.back, t.yielded = false, true
		return true
	}
	return now >= t.tryAt
}

// hadTurns reports whether others have made use of our standing back: one of
// them, or in a wide pause as many as there are.
func (t *turns) hadTurns() bool {
	return t.heard > 0 && (!t.wide || t.heard >= t.share)
}

// wakeAt is when ready, or the sample, is due next.
func (t *turns) wakeAt(now time.Duration) time.Duration {
	at := min(t.tryAt, t.sampleAt)
	if t.hadTurns() {
		at = min(at, t.payAt(now))
	}
	return at
}

// message notes that another process has released the lock.
func (t *turns) message(now time.Duration, cfg *Config, j *jitter) {
	t.pass(now, cfg, true)
	t.released(now, cfg)
	if t.presses = 0; t.vain < 16 || uint64(now)%16 == 0 {
		t.presses = 2
	}
	if !t.back {
		return
	}
	t.heard++
	if t.wide {
		t.tryAt = now + cfg.FarPause // all who wait nearby may stand back at a time
	} else {
		t.tryAt = now + t.pause(cfg)/4 + j.upTo(t.pause(cfg)/4)
	}
	if t.sampleAt == Forever && now-t.sampled >= cfg.BackTime {
		// Not now: just after a message the lock is always free.
		t.sampleAt = now + j.upTo(min(t.payAt(now)-now, cfg.BackTime))
	}
}

// refused notes that another process has the lock, or had it: a message that
// came since we asked may be that of its release.
func (t *turns) refused(now time.Duration, cfg *Config, released bool) {
	t.alone, t.fresh = false, false
	t.pass(now, cfg, true)
	if !t.busy && !released {
		t.busy, t.busySince = true, now
	}
	switch {
	case t.back && released:
		t.tryAt = now + t.pause(cfg)
	case t.back:
		t.heard = max(t.heard, 1)
		t.tryAt = Forever // until its release is heard, owed is paid, or its record expires
	case t.yielded:
		t.yielded, t.fruitless = false, 0
		t.share = min(t.share+1, t.others)
	}
	if t.owed <= 0 {
		t.count = 0
	}
}

// press reports whether a refused try is to be repeated at once: twice after
// each message, and more rarely while that is in vain.
func (t *turns) press(cfg *Config) bool {
	least := cfg.BackTime
	if t.share == 0 {
		least = 2 * cfg.PassTime // we have not had a turn yet
	}
	if t.back || t.owed > -least || t.presses == 0 {
		return false
	}
	t.presses--
	t.vain = min(t.vain+1, 64)
	return true
}

// acquired notes that the record has come to us.
func (t *turns) acquired(now time.Duration, cfg *Config) {
	t.pass(now, cfg, true)
	t.busy, t.alone, t.fresh = false, false, false
	t.vain = 0
	if t.share == 0 {
		t.owed = 0 // how long the first wait was says nothing of shares
	}
	switch {
	case t.back && t.heard > 0:
		// They use it, and we came between two of their turns. What is owed is
		// kept, but not so much that we could not pay it within a second.
		t.fruitless = 0
		t.back, t.count = false, 0
		t.owed = min(t.owed, t.owed*7/8, cfg.mostOwed()/4)
	case t.back:
		// It lay free although we stood back: fewer want it than we thought.
		t.fruitless++
		t.share = max(1, t.share-1)
		t.back, t.owed = false, min(t.owed, t.owed/2)
		t.count = 0
	case t.yielded:
		t.yielded, t.fruitless = false, 0
	}
	if t.owed <= 0 {
		t.count = 0 // others have had their share
	}
}

// sample notes whether there was a record at a random instant of others' turn.
func (t *turns) sample(now time.Duration, there bool) {
	t.sampled, t.sampleAt = now, Forever
	x := int64(0)
	if there {
		x = wholeTime
	}
	t.taken = max(leastTime, t.taken+(x-t.taken)/8)
}
