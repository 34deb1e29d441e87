package core

import "time"

// subscribe subscribes to the channel of a lock, if that has not been done.
func (m *Machine) subscribe(l *lock) {
	if l.sub != subNone || m.closing {
		return
	}
	l.sub = subPending
	m.blind++
	m.stats.Subscriptions++
	m.emit(Subscribe{l.name})
}

func (m *Machine) unsubscribe(l *lock) {
	m.subscribed(l, false)
	l.sub = subNone
	m.blind--
	m.stats.Subscriptions--
	m.emit(Unsubscribe{l.name})
}

// subscribed notes whether the messages of a lock are delivered from now on.
func (m *Machine) subscribed(l *lock, on bool) {
	switch {
	case on && l.sub == subPending:
		l.sub = subOn
		m.blind--
	case !on && l.sub == subOn:
		l.sub = subPending
		m.blind++
		if l.contended() {
			l.c.echoes = 0 // they are lost
		}
	}
}

// wake handles an event of the channel. It is a hint: a forged one can at worst
// cause a script, one at a time.
func (m *Machine) wake(ev Wake) {
	l := m.locks[ev.Name]
	if l == nil || l.sub == subNone {
		return // late
	}
	m.stats.Wakes++
	gap := l.sub == subOn && !ev.Subscribed
	m.subscribed(l, ev.Subscribed)
	c := l.more()
	foreign := ev.Message && !l.isEcho(ev)
	if foreign {
		c.turns.message(m.now, &m.cfg, &m.jitter)
	}
	switch l.phase {
	case held, passing:
		if foreign {
			m.doubt(l)
		}
	case asking:
		// A confirmation closes the gap in which a message may have been
		// missed, whether at the start or after a reconnection.
		l.woken = l.woken || ev.Message || ev.Confirmed
	case waiting:
		switch {
		case ev.Message || ev.Confirmed:
			m.tryOrWait(l)
		case gap:
			// No messages arrive now, so poll soon.
			c.retry.at = min(c.retry.at, m.now+m.poll(l, m.cfg.PollBlind))
		}
	}
	m.settle(l)
}

// isEcho reports whether a message is of our own release, and notes that it has
// come. It may be wrong, so no wake-up of a waiter depends on it.
func (l *lock) isEcho(ev Wake) bool {
	c := l.c
	switch {
	case ev.More: // several in one: not ours alone
		c.echoes = 0
	case c.echoes > 0:
		c.echoes--
		return true
	case l.flight != 0 && l.flightKind == KindRelease && !c.echoed:
		c.echoed = true // before the answer of that release
		return true
	}
	return false
}

// tryOrWait tries to get a lock that is waited for, if it is our turn.
func (m *Machine) tryOrWait(l *lock) {
	c := l.c
	switch {
	case l.flight != 0: // a look
		l.woken = true
	case c.turns.ready(m.now, &m.cfg):
		m.ask(l)
	default:
		c.retry.at = c.turns.wakeAt(m.now)
	}
}

// waitOver is called at the time for a poll, for the end of a stand-back, or
// for a look whether others have the lock.
func (m *Machine) waitOver(l *lock) {
	t := &l.c.turns
	if t.ready(m.now, &m.cfg) {
		m.stats.Polls++
		m.ask(l)
		return
	}
	if m.now >= t.sampleAt {
		l.woken = false
		m.send(l, KindLook, 0, 0, 0)
		return
	}
	l.c.retry.at = t.wakeAt(m.now)
}

// looked handles the answer to a look.
func (m *Machine) looked(l *lock, r *Reply) {
	c := l.more()
	if r.Ran == Yes {
		c.turns.sample(m.now, r.OK)
	} else {
		c.turns.sampleAt = Forever
	}
	switch {
	case l.phase != waiting:
		m.proceed(l)
	case l.queue.head == nil:
		m.leave(l)
	default:
		m.tryOrWait(l)
	}
}

// poll returns the time until the next try if no message comes: until the other's
// record expires, or less if that is too far off.
func (m *Machine) poll(l *lock, ttl time.Duration) time.Duration {
	most := m.cfg.PollMax
	if l.sub != subOn {
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
