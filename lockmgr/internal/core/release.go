package core

import "time"

// release removes the record, as soon as no script is in flight.
func (m *Machine) release(l *lock) {
	l.phase = releasing
	l.retried = false
	m.renewals.Remove(l)
	if l.c != nil {
		l.c.goneBy = 0
		l.c.echo = false
	}
	if l.flight == 0 {
		m.sendRelease(l)
	}
}

// sendRelease names every owner that the record may carry, so it works
// whatever became of the scripts before it.
func (m *Machine) sendRelease(l *lock) {
	m.send(l, KindRelease, 0, 0, 0)
}

// released handles the answer to a release.
func (m *Machine) released(l *lock, r *Reply) {
	if r.Ran != Yes {
		m.releaseFailed(l, r)
		return
	}
	var err error
	switch {
	case r.Err != nil:
		err = r.Err
	case !r.OK && l.owner != 0 && !l.retried:
		err = errGone
	}
	if r.OK {
		m.notice(Notice{What: Released, Name: l.name, Err: r.Err})
	}
	confirmed := l.owner != 0 // then that record is the one that was removed
	l.owner = 0
	m.dropTokens(l)
	if c := l.c; c != nil {
		c.succeeded()
		if r.OK && !confirmed {
			c.accounted()
		}
	}
	m.unlocked(l, err)
	if r.OK {
		if others := m.othersOf(l, r.Subscribers); others > 0 || l.c != nil {
			c := l.more()
			c.others, c.fresh = others, false
			m.endRun(l, c)
		}
	}
	m.afterRelease(l)
}

// accounted is called when a record of ours has been removed. If it can only
// have come from one command, that command has run and won't run again.
func (c *contention) accounted() {
	n := 0
	for _, s := range c.suspects {
		n += s.creates
	}
	if n == 1 {
		for i := range c.suspects {
			c.suspects[i].creates = 0
		}
	}
}

// endRun decides, after a release that others could hear, whether this
// manager must stand back before it tries again.
func (m *Machine) endRun(l *lock, c *contention) {
	over := c.back || c.runCount >= m.cfg.PassCount || m.now-c.runStart >= m.cfg.PassTime
	c.back = false
	switch {
	case c.others == 0:
		m.newRun(c)
	case over && c.runCount > 0:
		m.notice(Notice{What: StoodBack, Name: l.name, N: c.runCount})
		m.stats.StoodBack++
		m.newRun(c)
		// Those who are subscribed need not wait, and the lock lies idle
		// meanwhile. So the pause gets shorter while nobody comes. But now
		// and then all others get a full one: some are farther away, and
		// would come too late for ever.
		c.left = max(1, min(c.rounds, c.others))
		pause := m.cfg.BackTime >> min(2*c.fruitless, 4)
		if c.stood++; c.stood%16 == 0 {
			c.left, pause = c.others, m.cfg.BackTime
		}
		c.backUntil = m.atLeast(pause)
		// The message of our own release is not the wake-up that ends it. It
		// reaches us if we are subscribed, and may have done so already.
		c.echo = c.echo || l.sub != subOn
		m.subscribe(l)
	}
}

// atLeast is a pause of d, up to twice as long by chance, so that managers do
// not all come at once.
func (m *Machine) atLeast(d time.Duration) time.Duration { return m.now + d + m.jitter.upTo(d) }

// afterRelease goes on when the record is not ours any more.
func (m *Machine) afterRelease(l *lock) {
	if c := l.c; c != nil {
		c.back = false
	}
	if l.queue.head != nil && !m.closing {
		m.ask(l)
		return
	}
	m.rest(l)
}

// releaseFailed handles a release that did not run, or may not have. It is
// sent again until it is confirmed, or the record has expired.
func (m *Machine) releaseFailed(l *lock, r *Reply) {
	c := l.more()
	if c.goneBy == 0 {
		c.goneBy = max(m.now, l.until, c.mayLive) + m.cfg.Lease/50 + m.cfg.SuspectTime
		for _, s := range c.suspects {
			if s.creates > 0 {
				c.goneBy = max(c.goneBy, s.until+m.cfg.Lease)
			}
		}
	}
	m.failed(l, r.Err)
	if r.Ran == Maybe {
		// Nobody here may be handed a record that may have been removed. It
		// is a suspect now, and the next script names it.
		l.retried = true
		if l.owner != 0 {
			l.suspect(l.owner, m.now+m.cfg.SuspectTime, 1)
			l.owner = 0
		}
		m.dropTokens(l)
	}
	// A manager that closes doesn't wait for a server that has failed for long.
	closed := m.closing && (r.Final || m.now-c.failingSince >= m.cfg.RetryTime)
	switch {
	case closed || m.now >= c.goneBy:
		m.stats.Unreleased++
		m.notice(Notice{What: Unreleased, Name: l.name, Err: r.Err})
		m.unlocked(l, r.Err)
		l.owner = 0
		for i := range c.suspects {
			c.suspects[i].creates = 0 // expired; but these releases may still run
		}
		c.succeeded()
		m.afterRelease(l)
	case r.Final || m.now-c.failingSince >= m.cfg.RetryTime:
		m.unlocked(l, r.Err) // it goes on, but not at the caller's expense
	case l.queue.head != nil && !m.leaving(l):
		m.next(l, nil)
	}
}
