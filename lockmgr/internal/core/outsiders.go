package core

import "time"

// outsiders lets the clients that join no line have their share, such as those of Redisson. A run
// of grants ends after PassCount grants for each held entry, or PassTime. In the pause that
// follows, this manager passes nothing on and asks for nothing. The pause lasts for as long as the
// run, PassTime at most, or until no outsider was heard for BackTime.
//
// An outsider that was not heard lately may be one that never gets the lock. So a run of grants
// ends with a short pause if the lock has subscribers and its line is empty.
type outsiders struct {
	heard    time.Duration // when an outsider has last said that something came free, or zero
	until    time.Duration // the end of the newest pause. until moves back if the pause ends early
	atLeast  time.Duration // the pause does not end before that
	end      time.Duration // the value of until when the pause began
	blind    bool          // the pause is for clients that do not subscribe, and nobody knows of any
	repeats  int           // how many refused tries may be repeated at once
	repeated int           // tries repeated since the last grant; always zero with an index
	vain     uint          // how many pauses for subscribers have followed each other without anybody being heard
	wideAt   time.Duration // when a pause is to be long enough for clients far away
	hadFor   time.Duration // for how long we had a lock since pausedAt, without the present time
	pausedAt time.Duration // when a run has last ended with a pause
}

// known reports whether an outsider was heard of late.
func (o *outsiders) known(now time.Duration, cfg *Config) bool {
	return o.heard > 0 && now-o.heard < cfg.ShareEvery
}

// noteHeard notes that an outsider has released something.
func (o *outsiders) noteHeard(now time.Duration, r *run, cfg *Config) {
	if !o.known(now, cfg) {
		r.begin(now)
		o.hadFor = 0
	}
	o.heard, o.vain = now, 0
	// After 16 repeats in vain one message in 16 allows repeats, by its nanosecond.
	o.repeats = 0
	if o.repeated < 16 || uint64(now)%16 == 0 {
		o.repeats = 2
	}
}

// noteRefused notes that an outsider has what a try was for. A pause that has ended early goes on.
func (o *outsiders) noteRefused(now time.Duration, cfg *Config) {
	o.vain = 0
	if o.known(now, cfg) {
		o.until = max(o.until, o.end)
	}
}

// pausesBlindly reports whether a pause lasts that is for clients of whom nobody knows.
func (o *outsiders) pausesBlindly(now time.Duration) bool {
	return o != nil && o.blind && now < o.until
}

// takeRepeat reports whether a refused try is repeated at once, and counts the repeat. A client may
// ask again as soon as it has released. Its message reaches us too late, so the client is always
// first. By chance the repeated try runs between its release and its next acquire.
func (o *outsiders) takeRepeat(now time.Duration, cfg *Config) bool {
	if o == nil || !o.known(now, cfg) || now < o.until || o.repeats == 0 {
		return false
	}
	o.repeats, o.repeated = o.repeats-1, o.repeated+1
	return true
}

// advance ends a pause, or begins a pause if the run is over and an outsider was heard of late. ran
// is how long the run has lasted. advance reports whether a pause begins.
func (o *outsiders) advance(now, ran time.Duration, r *run, entries int, cfg *Config) bool {
	switch {
	case now < o.until:
		if now >= o.nextLook(cfg) {
			o.until = now
		}
	case o.known(now, cfg) && r.ended(cfg.PassCount*max(1, entries), ran, cfg):
		o.atLeast, o.end, o.blind = now+cfg.BackTime, now+min(ran, cfg.PassTime), false
		o.until = o.end
		r.begin(now)
		return true
	}
	return false
}

// nextLook returns when a pause ends if no outsider is heard.
func (o *outsiders) nextLook(cfg *Config) time.Duration {
	return min(o.until, max(o.atLeast, o.heard+cfg.BackTime))
}

// pauseInCase begins a short pause: a client that joins no line may wait. Pauses in a row in which
// nobody is heard get shorter, except each sixteenth. One pause in ShareEvery is long enough for
// clients that are far away. If nobody subscribes, the pause is for clients that poll.
func (o *outsiders) pauseInCase(now time.Duration, others bool, cfg *Config, j *jitter) {
	pause := cfg.BackTime >> min(2*o.vain, 4)
	switch {
	case !others:
		pause = cfg.BlindPause
	case o.wideAt == 0:
		o.wideAt = now + cfg.shareDue()
	case cfg.ShareEvery > 0 && now >= o.wideAt:
		pause, o.wideAt = cfg.FarPause, now+cfg.shareDue()
	case o.vain%16 == 15:
		pause = cfg.BackTime
	}
	o.vain++
	o.blind = !others
	o.end = now + pause + j.upTo(min(pause, cfg.BackTime))
	o.until, o.atLeast = o.end, o.end
}

// advanceOutsiders is outsiders.advance for a name. The run of a lock, or a set, lasts for as long
// as this manager has had it since the last pause.
func (m *Machine) advanceOutsiders(n *name) {
	o, r := n.outsiders(), &n.details.run
	switch x := n.index(); {
	case o == nil:
	case x != nil:
		o.advance(m.now, m.now-r.start, r, x.held, &m.cfg)
	default:
		if o.advance(m.now, o.hadFor+o.has(&n.entry, m.now), r, 1, &m.cfg) {
			o.hadFor, o.pausedAt = 0, m.now
		}
	}
}

// has returns for how long an entry has been ours, since runSince or pausedAt.
func (o *outsiders) has(e *entry, now time.Duration) time.Duration {
	if e.number == 0 {
		return 0
	}
	return now - max(e.runSince, o.pausedAt)
}
