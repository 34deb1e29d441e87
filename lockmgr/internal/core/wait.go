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
	// A release that has yet to be sent has no echo.
	sent := l.phase == releasing && l.flight != 0 && l.flightKind == KindRelease
	if ev.Message && !c.echo && (sent || m.now < c.backUntil) {
		// Our own release, which is no reason to go before those that we
		// stand back for.
		c.echo = true
		ev.Message = false
	}
	switch {
	case ev.Message && l.phase == waiting && c.letPass():
		// Should all who wait stand back at a time, whoever has let more go
		// by comes earlier, and the one whose run has just ended last.
		c.backUntil = m.atLeast(m.cfg.BackTime * time.Duration(c.left) / time.Duration(2*c.others+2))
		c.retryAt = c.backUntil
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

// Managers that all want more than one run take turns best if each lets go by
// as many runs as there are others, but not all who are subscribed also wait.
// So each finds out by itself how many to let go by: one more after each time
// that it thought it was its turn and another was first; and when it found that
// nobody made use of a turn, only as many as did.

// letPass notes that the run of another manager has ended, and tells whether
// it is yet another's turn.
func (c *contention) letPass() bool {
	if c.left == 0 {
		return false
	}
	c.fruitless = 0
	c.left--
	c.yielded = c.left == 0
	return !c.yielded
}

func (c *contention) tookTurn() {
	if c.left > 0 {
		c.rounds = max(0, c.rounds-c.left)
		c.fruitless++
	}
	c.left, c.yielded = 0, false
}

func (c *contention) missedTurn() {
	c.fruitless = 0
	if c.yielded {
		c.rounds = min(max(c.rounds, 1)+1, c.others)
	}
	c.yielded = false
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
