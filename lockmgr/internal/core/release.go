package core

// release removes the record, as soon as no script is in flight.
func (m *Machine) release(l *lock) {
	m.becomeReleasing(l)
	if l.flight == 0 {
		m.sendRelease(l)
	}
}

// sendRelease names every number that the record may carry, so it works whether
// or not earlier scripts ran.
func (m *Machine) sendRelease(l *lock) {
	if l.contended() {
		l.c.echoed = false
	}
	if r := l.queue.head; r != nil {
		r.own.Number = 0 // this release names it
	}
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
	confirmed := l.owner != 0 // the removed record is the confirmed one
	l.owner = 0
	m.dropTokens(l)
	if c := l.c; l.contended() {
		c.retry.succeeded()
		if r.OK && !confirmed {
			c.unknown.removed()
		}
	}
	m.unlocked(l, err)
	if r.OK {
		if others := m.othersOf(l, r.Subscribers); others > 0 || l.contended() {
			m.endTurn(l, l.more(), others)
		}
	}
	m.afterRelease(l)
}

// endTurn decides, after a release that others could hear, whether this manager
// must stand back before it tries again.
func (m *Machine) endTurn(l *lock, c *contention, others int64) {
	if l.sub == subOn {
		if c.echoed {
			c.echoed = false
		} else {
			c.echoes++
		}
	}
	t := &c.turns
	t.others, t.fresh = others, false
	t.had(m.now, l.since, &m.cfg)
	switch {
	case others == 0 && !(c.giveBack && m.keptLong(l)):
		t.newRun(m.now)
	case c.giveBack && t.count > 0, t.over(m.now, &m.cfg):
		m.notice(Notice{What: StoodBack, Name: l.name, N: t.count})
		m.stats.StoodBack++
		t.standBack(m.now, &m.cfg, &m.jitter)
		m.subscribe(l)
	}
}

// afterRelease goes on when the record is not ours any more.
func (m *Machine) afterRelease(l *lock) {
	if l.contended() {
		l.c.giveBack = false
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
	goneBy := c.unknown.giveUpAt(max(m.now, l.until), &m.cfg)
	m.failed(l, r.Err)
	if r.Ran == Maybe {
		// A record that may have been removed is not passed on. It is a suspect
		// now, and the next script names it.
		l.retried = true
		if l.owner != 0 {
			m.suspectOwner(l)
		}
		m.dropTokens(l)
	}
	if r.Ran != No || !r.Final {
		m.failOnce(l, r.Err)
	}
	// A manager that closes doesn't wait for a server that has failed for long.
	closed := m.closing && (r.Final || m.now-max(c.retry.since, m.closedAt) >= m.cfg.RetryTime)
	switch {
	case closed || m.now >= goneBy:
		m.stats.Unreleased++
		m.unreleased = r.Err
		m.notice(Notice{What: Unreleased, Name: l.name, Err: r.Err})
		m.unlocked(l, r.Err)
		l.owner = 0
		m.dropTokens(l)
		c.unknown.suspects = nil // expired
		c.retry.succeeded()
		m.afterRelease(l)
	case r.Ran == No && r.Final && l.queue.head != nil && !m.closing && !c.longer.set:
		// It can't be released, but it can be passed on.
		m.unlocked(l, r.Err)
		c.giveBack, l.since, c.firstPass = false, m.now, m.now
		c.turns.newRun(m.now)
		m.next(l, nil)
		if l.phase == passing || l.phase == releasing {
			m.failOnce(l, r.Err)
		}
	case r.Final || m.now-c.retry.since >= m.cfg.RetryTime:
		m.unlocked(l, r.Err) // it goes on, but not at the caller's expense
		for q := l.queue.head; q != nil; {
			next := q.next
			if r.Final || m.overdue(l, q) {
				m.giveUp(q, r.Err)
			}
			q = next
		}
	case l.queue.head != nil && !m.leaving(l):
		m.next(l, nil)
	}
}
