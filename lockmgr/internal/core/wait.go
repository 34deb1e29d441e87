package core

import "time"

// subscribe subscribes to the channel of a name, unless the name is subscribed already.
func (m *Machine) subscribe(n *name) {
	if n.sub != subNone || m.closing {
		return
	}
	n.sub = subPending
	m.blind++
	n.makeDetails().special.hear(m, n) // first: without the other channels a subscriber counts as an outsider
	m.listen(n, 0, true)
}

// unsubscribe ends the subscription of a name, if any.
func (m *Machine) unsubscribe(n *name) {
	if n.sub == subNone {
		return
	}
	m.subscribed(n, false)
	n.sub = subNone
	m.blind--
	m.listen(n, 0, false)
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
	}
}

// wake handles an event of a name's channel. A message is only a hint, except a grant by message:
// see grants. A forged message causes one script at a time, delays the next handoff, and may cause
// pauses. A forged message never grants a hold or ends a hold.
func (m *Machine) wake(ev Wake) {
	n := m.known(ev.Name, ev.Item > 0)
	if n == nil || n.sub == subNone {
		return // late
	}
	ev, ok := n.details.special.means(n, ev)
	if !ok {
		return // late
	}
	m.stats.Wakes++
	gap := n.sub == subOn && !ev.Subscribed
	m.subscribed(n, ev.Subscribed)
	n.details.special.told(m, n, ev)
	for e := range n.toLookAt {
		m.wakeEntry(e, ev, gap)
	}
	if ev.Message {
		m.verifySilent(n, n.channel(ev))
	}
	m.settle(n)
}

// wakeEntry handles an event for an entry. gap is set if the event says that no messages arrive any
// more.
func (m *Machine) wakeEntry(e *entry, ev Wake, gap bool) {
	n := e.of
	switch e.phase {
	case waiting:
		m.wakeWaiting(e, ev, gap)
		return
	case held, passing:
		// The entry may be given back already, and granted again by message: see gaveWay.
		granted := e.phase == passing && ev.Grant.Number != 0
		ofTheLine := n.position() != nil && ev.Place == OwnPlace
		if ev.Message && !granted && !ofTheLine && n.rules().doubts() {
			m.doubt(e)
		}
	}
	// The event is for the answer to the script in flight: woken counts if the try is refused, if
	// the transfer gives way, or if the release joins the line. A gap counts for a release, because
	// the server may remove a position that nobody hears for. A confirmation closes the gap in
	// which a message may have been missed, whether at the start or after a reconnection.
	woken := ev.Message || ev.Confirmed || gap && e.phase == releasing
	e.woken = e.woken || woken
}

// wakeWaiting is wakeEntry for an entry in phase waiting.
func (m *Machine) wakeWaiting(e *entry, ev Wake, gap bool) {
	switch n := e.of; {
	case e.flight == 0 && m.takeGrant(e):
	case n.worthTrying(ev), ev.Confirmed:
		m.ask(e)
	case gap: // poll soon
		e.makeUpkeep().retry.hasten(m.now + m.poll(n, m.cfg.PollBlind))
	}
}

// tryAt returns the instant at which waitOver has something to do for an entry in phase waiting. No
// script follows a failed script without a pause.
func (m *Machine) tryAt(e *entry) time.Duration {
	switch r := &e.upkeep().retry; {
	case e.of.queue.head == nil:
		return m.now
	case r.failing():
		return r.at
	case e.of.placesDue(m.now):
		return m.now
	default:
		return min(r.at, e.gatherEnd(), e.of.refreshAt())
	}
}

// waitOver is called when something is due for an entry in phase waiting: the poll, or the end of a
// pause. The last request may have been granted another entry.
func (m *Machine) waitOver(e *entry) {
	switch {
	case e.of.queue.head == nil:
		m.releaseOrRest(e)
	case m.now >= e.gatherEnd():
		m.release(e) // what it has got so far
	default:
		m.stats.Polls++
		m.ask(e)
	}
}

// poll returns the time until the next try if no message comes: the time until the other manager's
// record expires, but no more than PollMax, lookAgain in a line, or pollBlind without messages. In
// a line, the next try comes before a turn or a grant whose message was lost is over: both last for
// lookAgain.
func (m *Machine) poll(n *name, ttl time.Duration) time.Duration {
	most := m.cfg.PollMax
	if n.position() != nil {
		most = m.lookAgain() * 7 / 8
	}
	if s := n.set(); s != nil && s.active() && s.until > s.ends {
		most = min(most, max(0, s.ends-m.now)/2) // the next try must prolong what is kept before it ends
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

// pollBlind returns the time between two polls for a name without a confirmed subscription.
func (m *Machine) pollBlind() time.Duration {
	d := time.Duration(m.blind) * (time.Second / blindPolls)
	return min(max(d, m.cfg.PollSoon), m.cfg.PollBlind)
}
