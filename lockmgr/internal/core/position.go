package core

import "time"

// A position is what a name of a kind with a line knows of the manager's position in the line.
//
// The server keeps the managers that wait for a name in a line: see internal/script/line.lua. A
// refused acquire joins the line. A script that leaves something free tells the managers for which
// it is, on a channel of each manager. A told manager asks. A manager that is granted, or for which
// nobody waits any more, leaves the line.
//
//	request ──▶ acquire: granted
//	              │ refused: joins          told, poll
//	              └──────────▶ in the line ───────────▶ acquire: granted, leaves
//	                                │
//	                                └─ nobody waits ──▶ release: leaves
//
// The messages are hints. If one is lost, the manager asks after lookAgain.
//
// An entry passes in memory. If the newest transfer has reported others, the run of the entry ends
// after PassCount grants or PassTime: the entry is released, and its manager joins the line at the
// end.
type position struct {
	joined uint64 // the newest script that may have joined the line since a script has left it, or zero
	leaves uint64 // the script in flight that leaves the line, or zero
	own    bool   // we are subscribed to the channel of this manager, beside the channel of the name
	// delivered is set if messages of the channel of the name, and of the manager, are delivered.
	delivered [2]bool

	others outsiders
	plain
}

// OwnPlace is the Place of the channel on which the line tells a manager. LinePlace is that of a channel
// without messages: by its subscribers a script knows who may stand in the line.
const (
	OwnPlace  = 1
	LinePlace = 2
)

func (p *position) stands() *position { return p }

// position returns the position of a name of a kind with a line, or nil.
func (n *name) position() *position { return n.details.special.stands() }

// outsiders returns what is known of the clients that stand in no line, or nil for a kind without any.
func (n *name) outsiders() *outsiders {
	if p := n.position(); p != nil {
		return &p.others
	}
	return nil
}

// fillLine sets in op whether the script joins or leaves the line, and notes that here.
func (p *position) fillLine(m *Machine, n *name, op *Op) {
	switch {
	case op.Verb == VerbAcquire && n.somebodyWaits():
		op.Waits, op.Deaf = m.remembered(), n.sub != subOn || !m.cfg.TrustSubscribers
		op.only, p.joined = !p.acquires(n), op.ID
	case op.Verb == VerbRelease && p.leftovers(n):
		op.Leaves, p.leaves = true, op.ID
	}
}

// answered notes whether a script has left the line. A newer script may have joined the line since.
func (p *position) answered(_ *Machine, r *Reply) {
	// Beside another kind the position ends by itself: the manager asks no more.
	left := r.Op.Leaves || r.Op.only && (r.OK || r.OtherKind)
	if r.Ran == Yes && left && p.joined <= r.Op.ID {
		p.joined = 0
	}
	if p.leaves == r.Op.ID {
		p.leaves = 0
	}
}

// leftovers reports whether a script must leave the line. No script leaves while an acquire is in
// flight: the acquire may join, and leftovers is called again after its answer.
func (p *position) leftovers(n *name) bool {
	return p.joined != 0 && p.leaves == 0 && n.queue.head == nil && !p.acquires(n)
}

// acquires reports whether an acquire is in flight.
func (p *position) acquires(n *name) bool {
	for e := range n.toLookAt {
		if e.flight != 0 && e.flightVerb == VerbAcquire {
			return true
		}
	}
	return false
}

func (p *position) givenUp() { p.joined = 0 }

// hear subscribes to the channel of the manager.
func (p *position) hear(m *Machine, n *name) {
	if !p.own && n.sub != subNone {
		p.own = true
		m.stats.Subscriptions += n.channels()
		m.emit(Subscribe{Name: n.name, Kind: n.kind, Items: n.items(), Place: OwnPlace, Set: n.inLines()})
	}
}

func (p *position) unsubscribed(m *Machine, n *name) {
	if p.own {
		m.stats.Subscriptions -= n.channels()
		m.emit(Unsubscribe{Name: n.name, Kind: n.kind, Items: n.items(), Place: OwnPlace, Set: n.inLines()})
	}
	p.own, p.delivered = false, [2]bool{}
}

// hears notes whether the messages of a channel are delivered. The name is subscribed if the
// messages of both channels are delivered. A message of a script that has served the line is for
// clients that stand in no line.
func (p *position) hears(_ *name, ev Wake) (Wake, bool) {
	if ev.Place != 0 && !p.own {
		return ev, false
	}
	p.delivered[ev.Place] = ev.Subscribed
	ev.Subscribed = p.delivered[0] && p.delivered[OwnPlace]
	ev.Confirmed = ev.Confirmed && ev.Subscribed
	ev.Message = ev.Message && !ev.Served
	return ev, true
}

// told handles an event. A message on the channel of this manager says that something is free for the
// manager. Then the manager asks, unless an entry asks or waits: then that entry tries. If nobody waits
// here, the manager leaves the line. A message on the channel of the name, of a script that has served
// no line, is of an outsider, or of one of our rare scripts that serve none.
func (p *position) told(m *Machine, n *name, ev Wake) {
	if ev.Message && ev.Place == 0 && !ev.More && !ev.Served {
		p.others.hear(m.now, &n.details.run, &m.cfg)
	}
	if ev.Place != OwnPlace || !ev.Message || p.leaves != 0 {
		return
	}
	for e := range n.toLookAt {
		if e.phase == waiting || e.phase == asking {
			return
		}
	}
	switch e := n.spare(); {
	case e == nil:
	case n.queue.head != nil:
		m.ask(e)
	default:
		p.joined = m.lastID // so that the release leaves
		m.release(e)
	}
}

// runOver reports whether an entry of a name with a line is to be released instead of passed on. The
// entry is released in a pause for outsiders. It is released after a run if others wait, or if the
// server does not count who waits. And a lock is given back from time to time for processes that
// nobody knows of, because they poll: see keptLong.
func (m *Machine) runOver(e *entry) bool {
	p := e.of.position()
	if p == nil {
		return false
	}
	over := e.upkeep().grants >= m.cfg.PassCount || m.now-e.since >= m.cfg.PassTime
	return m.now < p.others.until || over && (e.of.details.run.others > 0 || !m.cfg.TrustSubscribers) ||
		e.of.lined() && m.keptLong(e)
}

// outsiders lets the clients that join no line have their share, such as those of Redisson. A run of
// grants ends after PassCount grants for each held entry, or PassTime. In the pause that follows, this
// manager passes nothing on and asks for nothing. The pause lasts for as long as the run, or until no
// outsider was heard for BackTime.
//
// An outsider that was never heard may be one that never gets the lock. So a run of grants ends with a
// short pause if the lock has subscribers and its line is empty.
type outsiders struct {
	heard        time.Duration // when an outsider has last said that something came free, or zero
	since, until time.Duration // the newest pause
	end          time.Duration // of that pause, if it does not end earlier
	whole        bool          // the pause does not end earlier
	repeats      int           // how many refused tries may be repeated at once
	lost         int           // repeated tries since the last grant
	vain         uint          // pauses for subscribers in a row in which nobody was heard
	wideAt       time.Duration // when a pause is to be long enough for clients far away
	had          time.Duration // for how long we had a lock since the last pause, without the present hold
}

// known reports whether an outsider was heard of late.
func (o *outsiders) known(now time.Duration, cfg *Config) bool {
	return o.heard > 0 && now-o.heard < cfg.ShareEvery
}

// hear notes that an outsider has released something.
func (o *outsiders) hear(now time.Duration, r *run, cfg *Config) {
	if !o.known(now, cfg) {
		r.begin(now)
		o.had = 0
	}
	o.heard, o.vain = now, 0
	// After 16 repeats in vain one message in 16 allows repeats.
	if o.repeats = 0; o.lost < 16 || uint64(now)%16 == 0 {
		o.repeats = 2
	}
}

// held notes that an outsider has what a try was for. A pause that has ended early goes on.
func (o *outsiders) held(now time.Duration, cfg *Config) {
	if o.vain = 0; o.known(now, cfg) {
		o.until = max(o.until, o.end)
	}
}

// repeat reports whether a refused try is repeated at once. A client may ask again as soon as it has
// released. Its message reaches us too late, so the client is always first. By chance the repeated try
// runs between its release and its next acquire.
func (o *outsiders) repeat(now time.Duration, cfg *Config) bool {
	if o == nil || !o.known(now, cfg) || now < o.until || o.repeats == 0 {
		return false
	}
	o.repeats, o.lost = o.repeats-1, min(o.lost+1, 64)
	return true
}

// advance ends a pause, or begins a pause if the run is over and an outsider was heard of late. ran is how
// long the run has lasted. advance reports whether a pause begins.
func (o *outsiders) advance(now, ran time.Duration, r *run, entries int, cfg *Config) bool {
	switch {
	case now < o.until:
		if now >= o.nextLook(cfg) {
			o.until = now
		}
	case o.known(now, cfg) && (r.count >= cfg.PassCount*max(1, entries) || r.count > 0 && ran >= cfg.PassTime):
		o.since, o.end, o.whole = now, now+min(ran, cfg.PassTime), false
		o.until = o.end
		r.begin(now)
		return true
	}
	return false
}

// nextLook returns when a pause ends if no outsider is heard.
func (o *outsiders) nextLook(cfg *Config) time.Duration {
	if o.whole {
		return o.until
	}
	return min(o.until, max(o.since, o.heard)+cfg.BackTime)
}

// pauseInCase begins a short pause: a client that joins no line may wait. Pauses in a row in which nobody
// is heard get shorter, except each sixteenth. If others subscribe, one pause in ShareEvery is
// long enough for clients that are far away.
func (o *outsiders) pauseInCase(now time.Duration, others int64, cfg *Config, j *jitter) {
	pause := cfg.BackTime >> min(2*o.vain, 4)
	switch {
	case others == 0:
		pause = cfg.BlindPause
	case o.wideAt == 0:
		o.wideAt = now + cfg.shareDue()
	case cfg.ShareEvery > 0 && now >= o.wideAt:
		pause, o.wideAt = cfg.FarPause, now+cfg.shareDue()
	case o.vain%16 == 15:
		pause = cfg.BackTime
	}
	o.vain++
	o.since, o.end, o.whole = now, now+pause+j.upTo(min(pause, cfg.BackTime)), true
	o.until = o.end
}

// advanceOutsiders is outsiders.advance for a name. The run of a lock, or a set, lasts for as long as this
// manager has had it since the last pause.
func (m *Machine) advanceOutsiders(n *name) {
	o, r := n.outsiders(), &n.details.run
	switch x := n.index(); {
	case o == nil:
	case x != nil:
		o.advance(m.now, m.now-r.start, r, x.held, &m.cfg)
	default:
		has := time.Duration(0)
		if n.entry.number != 0 {
			has = m.now - n.entry.since
		}
		if o.advance(m.now, o.had+has, r, 1, &m.cfg) {
			o.had = -has // the release of the present hold adds all of it
		}
	}
}

// releasedBeside notes what the answer to a release says of others. A release that ends a run of grants, and
// has handed on to nobody in the line, may leave a client waiting that was never heard.
func (m *Machine) releasedBeside(o *outsiders, e *entry, r *Reply) {
	n := e.of
	if e.number != 0 {
		o.had += m.now - e.since
	}
	run, back, most := &n.details.run, e.upkeep().giveBack, m.cfg.PassCount
	others := run.others
	if r.OK {
		others = m.othersOf(n, r.Subscribers)
	}
	if x := n.index(); x != nil {
		most *= max(1, x.held)
	} else {
		run.others = others // of several entries, one may pass on: the line still counts
	}
	ended := back || run.ended(most, m.now, &m.cfg)
	if o.known(m.now, &m.cfg) || !ended && !r.HandedOn {
		return // advance ends the run
	}
	if !r.HandedOn && (others > 0 || back && m.keptLong(e)) {
		o.pauseInCase(m.now, others, &m.cfg, &m.jitter)
	}
	run.begin(m.now)
}
