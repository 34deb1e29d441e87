package core

import "time"

// turns decides when a manager that wants a lock lets other processes have it
// first. There is one for each contended name. It is pure: its inputs are
// instants and what happened at them, not scripts.
//
// # What is shared
//
// Processes share time, not grants. One that passes its lock on in memory makes
// many grants in one turn; one that cannot, as a Redisson client, makes one grant
// and asks again. So each turn of ours is measured, and the others are owed that
// time, once for each of them that seems to want the lock.
//
//	owed += (time we had the lock) × share              at each release
//	owed −= (estimated time that others had it)         while we wait
//
// A run is PassCount grants or PassTime, and more if others have had more than
// their share. After a run we stand back, so that others go first.
//
//	             run is over, others wait
//	competing ────────────────────────────▶ standing back
//	    ▲                                        │
//	    ├────────────────────────────────────────┤ another had it, and owed is paid
//	    └────────────────────────────────────────┘ nobody had it, and it lies free
//
// # What others use
//
// Subscribers may be idle, so their number is an upper bound of share. A free
// lock must not wait for them: after a short pause without a message we try. If
// the try is granted, share is lowered. If another was first when it was our
// turn, share is raised.
//
// From a refusal to the next message another has the lock. At other times it may
// be free, as between a release and the next acquire of a client without local
// handoff. How much of that time others have it is sampled: while they are active
// we look, at random instants, whether there is a record.
//
// A client that asks again as soon as it has released can always be first,
// because a message comes too late for us. Once we have had much less than our
// share, a refused try is repeated at once: by chance it comes between its two
// commands.
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

	others int64 // other subscribers, by the last reply
	fresh  bool  // others was reported by a transfer of this run
	alone  bool  // a transfer of this record reported no others
	share  int64 // how many of others seem to want the lock

	// owed is for how long others may have the lock before our next run, as of
	// the instant asOf. It is negative if they had more than their share.
	owed time.Duration
	asOf time.Duration
	// busy: another has the lock. We were refused at busySince, and no message
	// has come since.
	busy      bool
	busySince time.Duration
	// taken is the part of the time, in 1/256, for which others have the lock
	// while we stand back and nothing else is known.
	taken int64

	back  bool  // we stand back
	heard int64 // the turns of others since then
	// tryAt is when we try although owed is not paid, because nobody was heard
	// for a while; or Forever.
	tryAt    time.Duration
	sampleAt time.Duration // when to look whether there is a record; or Forever
	sampled  time.Duration // the last such look
	yielded  bool          // we have just stood back, and it is our turn

	fruitless int  // times in a row that nobody came while we stood back
	stood     uint // times that we stood back

	presses int // tries that may be repeated at once until the next message
	vain    int // such repetitions in a row that were refused

	wide     bool          // this pause is long enough for processes that poll or are far away
	lastWide time.Duration // when such a pause last began
}

const (
	wholeTime = 256         // taken, if others have the lock all the time
	leastTime = 256 / 4     // a lower taken would make us wait too long
	firstTime = 256 * 5 / 8 // taken before the first sample

	competing = 256 * 1 / 4 // the most that rate returns while we compete

	// mostTurn caps PassTime here, and what can be owed in either direction.
	// With a short PassTime that is five PassTimes.
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

// newRun begins a run without standing back, as nobody else waits.
func (t *turns) newRun(now time.Duration) {
	t.count, t.start, t.fresh = 0, now, false
}

// pass accounts for the time since the last call, in which the record was not
// ours. wanted: somebody here waited for it. Only then can others have more
// than their share.
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

// rate estimates the part of the time for which others have the lock, in 1/256.
// While we compete it is low: nothing is sampled then, and too high an estimate
// would give us more than our share.
func (t *turns) rate() time.Duration {
	if t.back {
		return time.Duration(t.taken)
	}
	return time.Duration(min(t.taken, competing))
}

// released accounts for the end of another's turn: the lock was not free since it
// was first refused to us.
func (t *turns) released(now time.Duration, cfg *Config) {
	if t.busy {
		t.pay((now-t.busySince)*(wholeTime-t.rate())/wholeTime, cfg, true)
	}
	t.busy = false
}

// pay reduces owed. It goes below zero only if wanted.
func (t *turns) pay(d time.Duration, cfg *Config, wanted bool) {
	least := time.Duration(0)
	if wanted {
		least = -cfg.mostOwed()
	}
	if t.owed > least {
		t.owed = max(least, t.owed-d)
	}
}

// payAt estimates when owed will be paid.
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

// mostOwed bounds owed in either direction.
func (c *Config) mostOwed() time.Duration {
	return min(5*min(c.PassTime, mostTurn), mostTurn)
}

// over reports whether the run is over, or others are owed too much.
func (t *turns) over(now time.Duration, cfg *Config) bool {
	return !t.inCredit(now, now, cfg) && (t.count >= cfg.PassCount || t.count > 0 && now-t.start >= cfg.PassTime) ||
		t.owed >= min(cfg.PassTime, mostTurn)*time.Duration(max(1, min(t.share, 4)))
}

// standBack ends the run. If no others subscribe, the pause is for those that
// poll.
func (t *turns) standBack(now time.Duration, cfg *Config, j *jitter) {
	t.back, t.heard, t.yielded = true, 0, false
	t.count, t.fresh = 0, false
	t.stood++
	pause := t.pause(cfg)
	if t.stood%16 == 0 {
		pause = cfg.BackTime // some clients are slower than others
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

// pause is how long nobody must be heard before we try. It gets shorter each time
// that nobody comes.
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

// hadTurns reports whether others have had turns while we stood back: at least
// one, or in a wide pause share of them.
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
		t.tryAt = now + cfg.FarPause // all waiters nearby may be standing back
	} else {
		t.tryAt = now + t.pause(cfg)/4 + j.upTo(t.pause(cfg)/4)
	}
	if t.sampleAt == Forever && now-t.sampled >= cfg.BackTime {
		// Not at once: just after a message the lock is always free.
		t.sampleAt = now + j.upTo(min(t.payAt(now)-now, cfg.BackTime))
	}
}

// refused notes that another process has the lock. released: a message has come
// since we asked, which may be of its release.
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

// press reports whether a refused try is to be repeated at once: twice after each
// message, and after fewer messages while that is in vain.
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
		t.owed = 0 // the length of the first wait does not count
	}
	switch {
	case t.back:
		// It lay free although we stood back: fewer want it than we thought, or
		// we came between two of their turns. Most of what is owed stays owed,
		// but not more than can be paid within a second.
		t.fruitless++
		t.share = max(1, t.share-1)
		t.back, t.count = false, 0
		t.owed = min(t.owed, t.owed*7/8, cfg.mostOwed()/4)
	case t.yielded:
		t.yielded, t.fruitless = false, 0
	}
	if t.owed <= 0 {
		t.count = 0 // others have had their share
	}
}

// sample notes whether there was a record at a random instant while we stood
// back.
func (t *turns) sample(now time.Duration, there bool) {
	t.sampled, t.sampleAt = now, Forever
	x := int64(0)
	if there {
		x = wholeTime
	}
	t.taken = max(leastTime, t.taken+(x-t.taken)/8)
}
