package core

import "time"

// subscribe subscribes to the channel of a lock, if that has not been done.
func (m *Machine) subscribe(n *name) {
	if n.sub != subNone || m.closing {
		return
	}
	n.sub = subPending
	m.blind++
	m.stats.Subscriptions++
	m.emit(Subscribe{n.name})
}

func (m *Machine) unsubscribe(n *name) {
	m.subscribed(n, false)
	n.sub = subNone
	m.blind--
	m.stats.Subscriptions--
	m.emit(Unsubscribe{n.name})
}

// subscribed notes whether the messages of a lock are delivered from now on.
func (m *Machine) subscribed(n *name, on bool) {
	switch {
	case on && n.sub == subPending:
		n.sub = subOn
		m.blind--
	case !on && n.sub == subOn:
		n.sub = subPending
		m.blind++
		if n.contended() {
			n.c.echoes = 0 // they are lost
		}
	}
}

// wake handles an event of the channel. It is a hint: a forged one can at worst
// cause a script, one at a time.
func (m *Machine) wake(ev Wake) {
	n := m.names[ev.Name]
	if n == nil || n.sub == subNone {
		return // late
	}
	m.stats.Wakes++
	gap := n.sub == subOn && !ev.Subscribed
	m.subscribed(n, ev.Subscribed)
	c := n.more()
	foreign := ev.Message && !n.isEcho(ev)
	if foreign {
		c.turns.message(m.now, &m.cfg, &m.jitter)
	}
	switch n.phase {
	case held, passing:
		if foreign {
			m.doubt(n)
		}
	case asking:
		// A confirmation closes the gap in which a message may have been
		// missed, whether at the start or after a reconnection.
		n.woken = n.woken || ev.Message || ev.Confirmed
	case waiting:
		switch {
		case ev.Message || ev.Confirmed:
			m.tryOrWait(n)
		case gap:
			// No messages arrive now, so poll soon.
			c.retry.at = min(c.retry.at, m.now+m.poll(n, m.cfg.PollBlind))
		}
	}
	m.settle(n)
}

// isEcho reports whether a message is of our own release, and notes that it has
// come. It may be wrong, so no wake-up of a waiter depends on it.
func (n *name) isEcho(ev Wake) bool {
	c := n.c
	switch {
	case ev.More: // several in one: not ours alone
		c.echoes = 0
	case c.echoes > 0:
		c.echoes--
		return true
	case n.flight != 0 && n.flightVerb == VerbRelease && !c.echoed:
		c.echoed = true // before the answer of that release
		return true
	}
	return false
}

// tryOrWait tries to get a lock that is waited for, if it is our turn.
func (m *Machine) tryOrWait(n *name) {
	c := n.c
	switch {
	case n.flight != 0: // a look
		n.woken = true
	case c.turns.ready(m.now, &m.cfg):
		m.ask(n)
	default:
		c.retry.at = c.turns.wakeAt(m.now)
	}
}

// waitOver is called at the time for a poll, for the end of a stand-back, or
// for a look whether others have the lock.
func (m *Machine) waitOver(n *name) {
	t := &n.c.turns
	if t.ready(m.now, &m.cfg) {
		m.stats.Polls++
		m.ask(n)
		return
	}
	if m.now >= t.sampleAt {
		n.woken = false
		m.send(n, VerbLook, 0, 0, 0)
		return
	}
	n.c.retry.at = t.wakeAt(m.now)
}

// looked handles the answer to a look.
func (m *Machine) looked(n *name, r *Reply) {
	c := n.more()
	if r.Ran == Yes {
		c.turns.sample(m.now, r.OK)
	} else {
		c.turns.sampleAt = Forever
	}
	switch {
	case n.phase != waiting:
		m.proceed(n)
	case n.queue.head == nil:
		m.leave(n)
	default:
		m.tryOrWait(n)
	}
}

// poll returns the time until the next try if no message comes: until the other's
// record expires, or less if that is too far off.
func (m *Machine) poll(n *name, ttl time.Duration) time.Duration {
	most := m.cfg.PollMax
	if n.sub != subOn {
		most = m.pollBlind()
	}
	if ttl < 0 || ttl > most {
		ttl = most
	}
	// Managers that wait for the same record must not all try at once.
	return ttl + time.Millisecond + m.jitter.upTo(min(ttl/8, 100*time.Millisecond))
}

// blindPolls is how many tries a second all names may make that are not
// subscribed, while these are no more than blindPolls. Beyond that each makes
// one try in Config.PollBlind: everybody keeps a chance.
const blindPolls = 500

// pollBlind is the time between two tries for a lock that is not subscribed.
func (m *Machine) pollBlind() time.Duration {
	d := time.Duration(m.blind) * (time.Second / blindPolls)
	return min(max(d, m.cfg.PollSoon), m.cfg.PollBlind)
}

// mostOthers caps the reported count, which is not trusted.
const mostOthers = 1 << 20

// othersOf returns the number of other subscribers of a lock's channel. It is 1
// if the count is unknown.
func (m *Machine) othersOf(n *name, subscribers int64) int64 {
	if subscribers < 0 || !m.cfg.TrustSubscribers {
		return 1
	}
	if n.sub == subOn {
		subscribers--
	}
	return max(0, min(subscribers, mostOthers))
}
