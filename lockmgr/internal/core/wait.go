package core

import "time"

// subscribe asks for the messages of a lock, if that has not been done.
func (m *Machine) subscribe(l *lock) {
	if l.sub != subNone || m.closing {
		return
	}
	l.sub = subPending
	m.stats.Subscriptions++
	m.emit(Subscribe{l.name})
}

// wake handles news from the channel. It is a hint: the worst that a forged
// one can do is cause a try, and of those there is one at a time.
func (m *Machine) wake(ev Wake) {
	l := m.locks[ev.Name]
	if l == nil || l.sub == subNone {
		return // late
	}
	m.stats.Wakes++
	was := l.sub
	l.sub = subPending
	if ev.Subscribed {
		l.sub = subOn
	}
	c := l.more()
	if ev.Message && !c.echo && (l.phase == releasing || m.now < c.backUntil) {
		// Our own release, which is no reason to go before those that we
		// stand back for.
		c.echo = true
		ev.Message = false
	}
	switch {
	case ev.Message:
		c.backUntil = min(c.backUntil, m.now)
		fallthrough
	case ev.Confirmed:
		// A confirmation closes the gap in which a message may have been
		// missed, whether at the start or after a reconnection.
		if l.phase == asking {
			l.woken = true
		} else if l.phase == waiting {
			m.ask(l)
		}
	case was == subOn && l.sub == subPending && l.phase == waiting:
		// Nobody tells us now, so look again soon.
		c.retryAt = min(c.retryAt, m.now+m.poll(l, m.cfg.PollBlind))
	}
	m.settle(l)
}

// poll is the time until the next try, should no message come: when the
// record that stands in the way expires, unless that is too far off.
func (m *Machine) poll(l *lock, ttl time.Duration) time.Duration {
	most := m.cfg.PollMax
	if l.sub != subOn {
		most = m.cfg.PollBlind
	}
	if ttl < 0 || ttl > most {
		ttl = most
	}
	// Managers that wait for the same record must not all come at once.
	return ttl + time.Millisecond + m.jitter.upTo(min(ttl/8, 100*time.Millisecond))
}
