package core

import "time"

// subscribe subscribes to the channel of a name, unless the name is subscribed already.
func (m *Machine) subscribe(n *name) {
	if n.sub != subNone || m.closing {
		return
	}
	n.sub = subPending
	m.blind++
	m.stats.Subscriptions += n.channels()
	if n.kind == Exclusive { // its other channels come first: who is counted late counts as a client in no line
		n.makeDetails().special.hear(m, n)
	}
	m.emit(Subscribe{Name: n.name, Kind: n.kind, Items: n.items()})
}

func (m *Machine) unsubscribe(n *name) {
	m.subscribed(n, false)
	n.sub = subNone
	m.blind--
	m.stats.Subscriptions -= n.channels()
	m.emit(Unsubscribe{Name: n.name, Kind: n.kind, Items: n.items()})
	n.details.special.unsubscribed(m, n)
}

// subscribed notes whether the messages of a name are delivered from now on.
func (m *Machine) subscribed(n *name, on bool) {
	switch {
	case on && n.sub == subPending:
		n.sub = subOn
		m.blind--
	case !on && n.sub == subOn:
		n.sub = subPending
		m.blind++
		if n.hasDetails() {
			n.details.echoes = 0 // their messages are lost
		}
	}
}

// wake handles an event of a name's channel. A message is only a hint, except a grant by message:
// see line. A forged message causes one script at a time, delays the next handoff, and distorts the
// estimate of others' turns. A forged message never grants a hold or ends a hold.
func (m *Machine) wake(ev Wake) {
	n := m.known(ev.Name, ev.Item > 0)
	if n == nil || n.sub == subNone {
		return // late
	}
	ev, ok := n.details.special.hears(n, ev)
	if !ok {
		return // late
	}
	m.stats.Wakes++
	gap := n.sub == subOn && !ev.Subscribed
	m.subscribed(n, ev.Subscribed)
	n.makeDetails()
	foreign := ev.Message && !n.takeEcho(ev)
	if foreign && n.endsTurn(ev) {
		n.details.turns.message(m.now, &m.cfg, &m.jitter)
	}
	n.details.special.told(m, n, ev)
	for e := range n.toLookAt {
		m.wakeEntry(e, ev, foreign, gap)
	}
	if foreign {
		m.verifySilent(n, n.channel(ev))
	}
	m.settle(n)
}

// wakeEntry handles an event for an entry. foreign is set if a message is not of our own release.
// gap is set if the event says that no messages arrive any more.
func (m *Machine) wakeEntry(e *entry, ev Wake, foreign, gap bool) {
	n := e.of
	switch e.phase {
	case held, passing:
		// The entry may be given back already, and granted again by message: see gaveWay.
		granted := e.phase == passing && ev.Grant.Number != 0
		ofTheLine := n.position() != nil && ev.Place == OwnPlace
		if foreign && !granted && !ofTheLine && n.rules().doubts() {
			m.doubt(e)
		}
		e.woken = e.woken || ev.Message || ev.Confirmed // a transfer in flight may give way
	case asking:
		// A confirmation closes the gap in which a message may have been
		// missed, whether at the start or after a reconnection.
		e.woken = e.woken || ev.Message || ev.Confirmed
		n.details.special.signal(ev)
	case waiting:
		m.wakeWaiting(e, ev, gap)
	}
}

// wakeWaiting is wakeEntry for an entry in phase waiting.
func (m *Machine) wakeWaiting(e *entry, ev Wake, gap bool) {
	switch n := e.of; {
	case e.flight == 0 && m.takeGrant(e):
	case n.worthTrying(ev), ev.Confirmed:
		m.tryOrWait(e)
	case gap: // poll soon
		r := &e.makeUpkeep().retry
		r.at = min(r.at, m.now+m.poll(n, m.cfg.PollBlind))
	}
}

// endsTurn reports whether a message of another process may end a turn of others. A message of an
// item other than the item that a set waits for says nothing about turns.
func (n *name) endsTurn(ev Wake) bool {
	return n.takesTurns() && (n.worthTrying(ev) || n.held())
}

// takeEcho notes the arrival of a message, and returns whether the message is of our own release.
// The result may be wrong, so no wake-up of a waiter depends on the result.
func (n *name) takeEcho(ev Wake) bool {
	c := n.details
	if !ev.More && c.echoes > 0 {
		c.echoes--
		return true
	}
	most := n.channels()
	for e := range n.toLookAt {
		u := e.upkeep()
		switch {
		case e.flight == 0 || e.flightVerb != VerbRelease:
		case ev.More:
			u.echoed = min(most, u.echoed+1) // one of its messages may be among them
		case u.echoed < most:
			u.echoed++ // the message came before the release's answer
			return true
		}
	}
	if ev.More {
		c.echoes = 0 // several messages: not all are ours
	}
	return false
}

// tryOrWait tries to get an entry in phase waiting, if we have our turn.
func (m *Machine) tryOrWait(e *entry) {
	t := &e.of.details.turns
	if e.flight != 0 { // the answer to a look leads here again
		return
	}
	if t.comeBack(m.now, &m.cfg); t.mayTry(m.now) {
		m.ask(e)
		return
	}
	e.upkeep().retry.at = t.wakeAt(m.now)
}

// tryAt returns the instant at which waitOver has something to do for an entry in phase waiting. No
// script follows a failed script without a pause.
func (m *Machine) tryAt(e *entry) time.Duration {
	switch r := &e.upkeep().retry; {
	case e.of.queue.head == nil:
		return m.now
	case r.failing():
		return r.at
	case e.of.lineDue(m.now):
		return m.now
	default:
		return min(r.at, e.gatherEnd(), e.of.refreshAt())
	}
}

// waitOver is called when something is due for an entry in phase waiting: the
// poll, the end of a stand-back, or a look whether others have the lock. The last request may have
// been granted another entry.
func (m *Machine) waitOver(e *entry) {
	n := e.of
	t := &n.details.turns
	if n.queue.head == nil {
		m.releaseOrRest(e)
		return
	}
	if m.now >= e.gatherEnd() {
		m.release(e) // what it has got so far
		return
	}
	if t.comeBack(m.now, &m.cfg); t.mayTry(m.now) {
		m.stats.Polls++
		m.ask(e)
		return
	}
	if m.now >= t.sampleAt {
		m.send(e, VerbLook, e.side, 0, 0, 0)
		return
	}
	e.upkeep().retry.at = t.wakeAt(m.now)
}

// looked handles the answer to a look.
func (m *Machine) looked(e *entry, r *Reply) {
	n := e.of
	n.makeDetails()
	if r.Ran == Yes {
		n.details.turns.sample(m.now, r.OK)
	} else {
		n.details.turns.sampleAt = Forever
	}
	switch {
	case e.phase != waiting:
		m.proceed(e)
	case n.queue.head == nil:
		m.releaseOrRest(e)
	default:
		m.tryOrWait(e)
	}
}

// lookAgain is the longest time between two tries of a manager whose waiting the server remembers.
func (m *Machine) lookAgain() time.Duration {
	if m.cfg.PlaceTime == 0 {
		return m.cfg.PollMax
	}
	return min(m.cfg.PollMax, m.cfg.PlaceTime*2/5)
}

// remembered is for how long the server remembers that a request waits, after a try.
func (m *Machine) remembered() time.Duration { return m.lookAgain() * 3 / 2 }

// isRemembered reports whether the server remembers that requests of the name wait: those of a line, and
// those that want to write while others read.
func (n *name) isRemembered() bool {
	return n.position() != nil || n.takesTurns() && n.waitsAlone()
}

// poll returns the time until the next try if no message comes: the time until the other manager's
// record expires, but no more than PollMax, or pollBlind if messages are not delivered.
func (m *Machine) poll(n *name, ttl time.Duration) time.Duration {
	most := m.cfg.PollMax
	if n.isRemembered() {
		most = m.lookAgain()
	}
	if n.sub != subOn {
		most = m.pollBlind()
	}
	if ttl < 0 || ttl > most {
		ttl = most
	}
	// Managers that wait for the same record must not all try at once.
	return ttl + time.Millisecond + m.jitter.upTo(min(ttl/8, 100*time.Millisecond))
}

// blindPolls is the number of polls a second that all names without a confirmed subscription may
// make together. Each name still polls at least once in Config.PollBlind, so that everybody keeps a
// chance.
const blindPolls = 500

// pollBlind returns the time between two polls for a name without a confirmed
// subscription.
func (m *Machine) pollBlind() time.Duration {
	d := time.Duration(m.blind) * (time.Second / blindPolls)
	return min(max(d, m.cfg.PollSoon), m.cfg.PollBlind)
}

// mostOthers caps the number of subscribers that a script reports. The number is not trusted.
const mostOthers = 1 << 20

// othersOf returns the number of others who may want a name: other subscribers of the name's channel, or,
// for the kind Exclusive, those that scripts count. The number is 1 if it is unknown. Names of this manager that wait for the same items count, too: see rivals.
func (m *Machine) othersOf(n *name, subscribers int64) int64 {
	if n.places() {
		return 0
	}
	if subscribers < 0 || !m.cfg.TrustSubscribers {
		return 1
	}
	rivals, counted := m.rivals(n)
	if n.sub == subOn {
		counted = n.kind != Exclusive // else the script knows that this manager may stand in the line
	}
	if counted {
		subscribers--
	}
	return max(0, min(subscribers, mostOthers)) + rivals
}
