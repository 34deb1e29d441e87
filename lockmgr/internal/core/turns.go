package core

import "time"

// turns decides when a manager lets other processes have a read-write lock or a set first. Each
// contended name of these kinds has a turns. Names of other kinds use the count of a run, and others.
// turns is pure: the inputs are instants and what happened at each instant, not scripts.
//
// # What is shared
//
// Processes share time, not grants. A process that passes a lock on in memory makes many grants in
// one turn. A process that can't, such as a Redisson client, makes a single grant and asks again.
// So turns measures each turn of ours, from the instant at which the entry came to us until the
// release of the entry. Every other process that seems to want the lock is owed the measured time
// once.
//
//	owed += (length of our turn) × share          at each release
//	owed −= (estimated time of others' turns)     while the entry is not ours
//
// Example: two other processes seem to want the lock, so share is 2. Our turn lasted 100 ms. So 200
// ms are owed.
//
// # When we stand back
//
// A run is a row of our grants. A run is over after PassCount grants or PassTime, or later if
// others have had more than their share. When the run is over, or too much is owed, we stand back:
// we release the lock and do not try, so that others go first.
//
//	             run is over, others wait
//	competing ────────────────────────────▶ standing back
//	    ▲                                        │
//	    ├────────────────────────────────────────┤ another had a turn, and owed is paid
//	    └────────────────────────────────────────┘ nobody was heard, and a try is granted
//
// # How others' turns are estimated
//
// Another process has the lock from a refusal to the next message, so the whole interval counts.
// Outside the interval the lock may be free, for example between a release and the next acquire of
// a client without local handoff. Time outside the interval counts only in part: taken. taken is
// sampled: while others are active we look, at random instants, whether there is a record.
//
// Example, continued: taken is 5/8. A try of ours is refused 10 ms after our release, and a message
// comes 50 ms after the refusal. The first 10 ms count as 6.25 ms, and the 50 ms count in full. So
// 143.75 ms are still owed.
//
// # How many others want the lock
//
// Subscribers may be idle, so the number of subscribers is an upper bound of share. A free lock
// must not wait for idle subscribers: if no message comes in a short pause, we try. If the try is
// granted, share falls by 1. If we have stood back, owed is paid, and our try is refused all the
// same, share rises by 1.
//
// # A client that is always first
//
// A client may ask again as soon as the client has released. The message of the release reaches us
// too late, so such a client can always be first. So if we have had much less than our share, we
// repeat a refused try at once. By chance the repeated try runs between the client's release and
// the client's next acquire.
//
// # Processes that are not heard
//
// A process far away answers a message later than our short pause. A process without a subscription
// polls. So once in Config.ShareEvery the pause is long enough for both, even if no other
// subscriber is known. The long pause is called wide.
type turns struct {
	count int           // grants of this run
	start time.Duration // when the first of them was made

	others   int64 // other subscribers, by the last reply that reported them
	fresh    bool  // others was reported by a transfer of this run
	noOthers bool  // the last transfer since the entry came to us reported no others
	share    int64 // how many others seem to want the lock; zero before our first turn has ended

	// owed is for how long others may have the lock before our next run, as of asOf. A negative
	// owed means: others have had more than their share.
	owed time.Duration
	asOf time.Duration
	// busy is set while another is known to have the lock: we were refused at
	// busySince, and no message has come since.
	busy      bool
	busySince time.Duration
	// taken is the estimated part of the time, in 1/256, for which others have the
	// lock while we stand back and busy is not set.
	taken int64

	back  bool          // we stand back
	since time.Duration // since when
	heard int64         // turns of others since we stand back
	// tryAt is when we try although owed is not paid, because nobody was heard for a while. tryAt
	// may be Forever.
	tryAt    time.Duration
	sampleAt time.Duration // when to look whether there is a record, or Forever
	sampled  time.Duration // when we last looked
	yielded  bool          // we stood back until owed was paid, and no try was answered since

	fruitless int  // pauses in a row that ended because nobody was heard and a try was granted
	stood     uint // how often we have stood back

	repeats int // how many refused tries may be repeated at once before the next message
	vain    int // repeated tries since the last grant, 64 at most

	wide     bool          // this pause is long enough for processes that poll or are far away
	lastWide time.Duration // when the last such pause began, or our first turn ended
}

const (
	wholeTime = 256         // taken, if others have the lock all the time
	leastTime = 256 / 4     // the least taken; less would make us wait too long
	firstTime = 256 * 5 / 8 // taken before the first sample

	competing = 256 * 1 / 4 // the most that rate returns while we compete

	// mostTurn caps PassTime in turns, and owed in either direction. If PassTime
	// is short, owed is capped at five PassTimes.
	mostTurn = time.Second

	// smallDebt is the largest owed for which we wait with no timer. If owed is no larger, we may
	// try once share turns of others were heard.
	smallDebt = time.Millisecond
)

// grant counts a grant of the current run.
func (t *turns) grant(now time.Duration) {
	t.count++
	if t.count == 1 {
		t.start = now
	}
}

// newRun begins a new run without standing back.
func (t *turns) newRun(now time.Duration) {
	t.count, t.start, t.fresh = 0, now, false
}

// elapse reduces owed for the time since asOf, in which the entry was not ours. wanted is set if
// somebody here waited for the entry in the meantime. Others can have had more than their share
// only if wanted is set.
func (t *turns) elapse(now time.Duration, cfg *Config, wanted bool) {
	if t.taken == 0 {
		t.taken, t.asOf = firstTime, now // the first call
	}
	if now <= t.asOf {
		return
	}
	paid := min(now-t.asOf, time.Hour) * t.rate() / wholeTime
	if paid == 0 {
		return // asOf stays, so that rounding loses nothing
	}
	t.pay(paid, cfg, wanted)
	t.asOf = now
}

// rate returns the estimated part of the time, in 1/256, for which others have the lock. The
// estimate is low while we compete: nothing is sampled then, and a high estimate would give us more
// than our share.
func (t *turns) rate() time.Duration {
	if t.back {
		return time.Duration(t.taken)
	}
	return time.Duration(min(t.taken, competing))
}

// released accounts for the end of another process's turn, which has lasted since busySince at
// least. elapse counts only a part of the time since busySince, so released counts the rest.
func (t *turns) released(now time.Duration, cfg *Config) {
	if t.busy {
		t.pay((now-t.busySince)*(wholeTime-t.rate())/wholeTime, cfg, true)
	}
	t.busy = false
}

// pay reduces owed by d. pay makes owed negative only if wanted is set.
func (t *turns) pay(d time.Duration, cfg *Config, wanted bool) {
	least := time.Duration(0)
	if wanted {
		least = -cfg.mostOwed()
	}
	if t.owed > least {
		t.owed = max(least, t.owed-d)
	}
}

// payAt returns the estimated instant at which owed is paid, if we stand back.
func (t *turns) payAt(now time.Duration) time.Duration {
	return now + max(0, t.owed)*wholeTime/time.Duration(max(t.taken, leastTime)) + time.Microsecond
}

// turnEnded accounts for a turn of ours from since to now.
func (t *turns) turnEnded(now, since time.Duration, cfg *Config) {
	t.elapse(since, cfg, false)
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

// inCredit reports whether others have had more than their share by more than BackTime, even if our
// turn from since to now is added to owed. inCredit is false once a run has 2×PassCount grants.
func (t *turns) inCredit(now, since time.Duration, cfg *Config) bool {
	return t.count < 2*cfg.PassCount && t.owed+(now-since)*time.Duration(max(1, t.share)) < -cfg.BackTime
}

// mostOwed returns the most that is owed, in either direction.
func (c *Config) mostOwed() time.Duration {
	return min(5*min(c.PassTime, mostTurn), mostTurn)
}

// over reports whether the run is over, or too much is owed. Too much is a PassTime for each
// process that share counts, but no more than four PassTimes.
func (t *turns) over(now time.Duration, cfg *Config) bool {
	return t.ended(cfg.PassCount, now, cfg) && !t.inCredit(now, now, cfg) ||
		t.owed >= min(cfg.PassTime, mostTurn)*time.Duration(max(1, min(t.share, 4)))
}

// ended reports whether the run has most grants, or has lasted for PassTime.
func (t *turns) ended(most int, now time.Duration, cfg *Config) bool {
	return t.count >= most || t.count > 0 && now-t.start >= cfg.PassTime
}

// standBack ends the run and begins a pause, in which we do not try. If there are no other
// subscribers, the pause is BlindPause, for processes that poll. Otherwise a wide pause is
// FarPause, and a pause that is not wide is short. standBack adds a random time.
func (t *turns) standBack(now time.Duration, cfg *Config, j *jitter) {
	t.back, t.since, t.heard, t.yielded = true, now, 0, false
	t.count, t.fresh = 0, false
	t.stood++
	pause := t.pause(cfg)
	if t.stood%16 == 0 {
		pause = cfg.BackTime // a client may be too slow for shorter pauses
	}
	if t.wide = cfg.ShareEvery > 0 && now-t.lastWide >= cfg.shareDue(); t.wide {
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

// pause returns the length of a short pause: for how long nobody must be heard before we try. The
// length is BackTime, a quarter of BackTime after a fruitless pause, and a sixteenth after more
// fruitless pauses.
func (t *turns) pause(cfg *Config) time.Duration {
	return cfg.BackTime >> min(2*t.fruitless, 4)
}

// comeBack ends the pause if others have had turns and owed is paid.
func (t *turns) comeBack(now time.Duration, cfg *Config) {
	if !t.back {
		return
	}
	t.elapse(now, cfg, true)
	if t.hadTurns() && (t.owed <= 0 || t.owed <= smallDebt && t.heard >= t.share) {
		t.back, t.yielded = false, true
	}
}

// mayTry reports whether we may try to get the lock. If we stand back, we may try once tryAt has
// come. Call comeBack first.
func (t *turns) mayTry(now time.Duration) bool { return !t.back || now >= t.tryAt }

// hadTurns reports whether others have had turns while we stood back: at least one turn, or share
// turns in a wide pause.
func (t *turns) hadTurns() bool {
	return t.heard > 0 && (!t.wide || t.heard >= t.share)
}

// wakeAt returns the instant at which to come back or to try, or at which to look
// whether there is a record.
func (t *turns) wakeAt(now time.Duration) time.Duration {
	at := min(t.tryAt, t.sampleAt)
	if t.hadTurns() {
		at = min(at, t.payAt(now))
	}
	return at
}

// message notes that another process has released the lock.
func (t *turns) message(now time.Duration, cfg *Config, j *jitter) {
	t.elapse(now, cfg, true)
	t.released(now, cfg)
	if t.repeats = 0; t.vain < 16 || uint64(now)%16 == 0 {
		t.repeats = 2
	}
	if !t.back {
		return
	}
	t.heard++
	if t.wide {
		t.tryAt = now + cfg.FarPause // for those far away: all waiters nearby may stand back
	} else {
		t.tryAt = now + t.pause(cfg)/4 + j.upTo(t.pause(cfg)/4)
	}
	if t.sampleAt == Forever && now-t.sampled >= cfg.BackTime {
		// Not at once: right after a message the lock is always free.
		t.sampleAt = now + j.upTo(min(t.payAt(now)-now, cfg.BackTime))
	}
}

// refused notes that another process has the lock. released is set if a message has come since we
// asked. The message may be of the same process's release.
func (t *turns) refused(now time.Duration, cfg *Config, released bool) {
	t.noOthers, t.fresh = false, false
	t.elapse(now, cfg, true)
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

// mayRepeat reports whether a refused try may be repeated at once. A repetition needs a credit of
// BackTime, or of 2×PassTime if we have not had a turn yet. There are two repetitions after each
// message. If 16 or more in a row were in vain, only about one message in 16 allows repetitions.
func (t *turns) mayRepeat(cfg *Config) bool {
	least := cfg.BackTime
	if t.share == 0 {
		least = 2 * cfg.PassTime // before our first turn has ended
	}
	return !t.back && t.owed <= -least && t.repeats > 0
}

// repeated notes that a refused try is repeated at once.
func (t *turns) repeated() {
	t.repeats--
	t.vain = min(t.vain+1, 64)
}

// acquired notes that the entry has come to us.
func (t *turns) acquired(now time.Duration, cfg *Config) {
	t.elapse(now, cfg, true)
	t.busy, t.noOthers, t.fresh = false, false, false
	t.vain = 0
	if t.share == 0 {
		t.owed = 0 // the length of the first wait does not count
	}
	switch {
	case t.back:
		// The lock was free although we stood back: fewer processes want the lock than we thought,
		// or we came between two turns of others. Most of what is owed stays owed, but no more than
		// can be paid within a second. A credit stays.
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

// sample notes whether there was a record at a random instant while we stood back. taken is a
// moving average of the samples.
func (t *turns) sample(now time.Duration, there bool) {
	t.sampled, t.sampleAt = now, Forever
	x := int64(0)
	if there {
		x = wholeTime
	}
	t.taken = max(leastTime, t.taken+(x-t.taken)/8)
}
