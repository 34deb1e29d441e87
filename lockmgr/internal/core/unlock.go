package core

// unlock handles a holder that gives back one of its holds.
func (m *Machine) unlock(r *Request) {
	n := r.of
	if r.state != reqGranted {
		return
	}
	r.state = reqDone
	h := r.Hold
	if n.phase != held || n.hold != h {
		m.emit(Unlocked{r, ErrLeaseLost})
		return
	}
	if m.now >= n.holdUntil() {
		m.emit(Unlocked{r, m.expire(n)}) // before its alarm came
		m.settle(n)
		return
	}
	h.count--
	if h.count > 0 {
		m.emit(Unlocked{r, nil})
		return
	}
	m.letGo(n, ErrNotHeld)
	n.unlocking = r
	m.next(n, nil)
	m.settle(n)
}

// letGo ends the hold of a lock. Its prolongations fail with err.
func (m *Machine) letGo(n *name, err error) {
	n.hold = nil
	m.stats.Held--
	if n.contended() {
		n.c.longer.want, n.c.longer.sent = 0, 0
		m.answerProlongations(n, err)
	}
}

// unlocked answers the Unlock that waits, if one does.
func (m *Machine) unlocked(n *name, err error) {
	if r := n.unlocking; r != nil {
		n.unlocking = nil
		m.emit(Unlocked{r, err})
	}
}

// keep reports whether the record is kept although nobody here waits. A caller
// that takes the lock again and again needs a round trip for each grant, and a
// client that asks again at once is always there first. So once others have had
// much more than their share, the record stays ours for a moment after an
// unlock, until the caller comes back.
func (m *Machine) keep(n *name) bool {
	c := n.c
	if !n.contended() || m.closing || n.flight != 0 || c.doubt.open() || c.longer.set || n.retried || c.retry.failing() ||
		c.turns.others == 0 || !c.turns.inCredit(m.now, n.entry.since, &m.cfg) {
		return false
	}
	if n.unlocking != nil {
		c.keepUntil = m.now + m.cfg.BackTime/4
		m.unlocked(n, nil)
	}
	c.retry.at = c.keepUntil
	return m.now < c.keepUntil
}

// release removes the record, as soon as no script is in flight.
func (m *Machine) release(n *name) {
	m.becomeReleasing(n)
	if n.flight == 0 {
		m.sendRelease(n)
	}
}

// sendRelease names every number that the record may carry, so it works whether
// or not earlier scripts ran.
func (m *Machine) sendRelease(n *name) {
	if n.contended() {
		n.c.echoed = false
	}
	if r := n.queue.head; r != nil {
		r.own.Number = 0 // this release names it
	}
	m.send(n, VerbRelease, 0, 0, 0)
}

// released handles the answer to a release.
func (m *Machine) released(n *name, r *Reply) {
	if r.Ran != Yes {
		m.releaseFailed(n, r)
		return
	}
	var err error
	switch {
	case r.Err != nil:
		err = r.Err
	case !r.OK && n.entry.number != 0 && !n.retried:
		err = errGone
	}
	if r.OK {
		m.notice(Notice{What: Released, Name: n.name, Err: r.Err})
	}
	confirmed := n.entry.number != 0 // the removed record is the confirmed one
	n.entry.number = 0
	m.dropTokens(n)
	if c := n.c; n.contended() {
		c.retry.succeeded()
		if r.OK && !confirmed {
			c.unknown.removed()
		}
	}
	m.unlocked(n, err)
	if r.OK {
		if others := m.othersOf(n, r.Subscribers); others > 0 || n.contended() {
			m.endTurn(n, n.more(), others)
		}
	}
	m.afterRelease(n)
}

// endTurn decides, after a release that others could hear, whether this manager
// must stand back before it tries again.
func (m *Machine) endTurn(n *name, c *contention, others int64) {
	if n.sub == subOn {
		if c.echoed {
			c.echoed = false
		} else {
			c.echoes++
		}
	}
	t := &c.turns
	t.others, t.fresh = others, false
	t.had(m.now, n.entry.since, &m.cfg)
	switch {
	case others == 0 && !(c.giveBack && m.keptLong(n)):
		t.newRun(m.now)
	case c.giveBack && t.count > 0, t.over(m.now, &m.cfg):
		m.notice(Notice{What: StoodBack, Name: n.name, N: t.count})
		m.stats.StoodBack++
		t.standBack(m.now, &m.cfg, &m.jitter)
		m.subscribe(n)
	}
}

// afterRelease goes on when the record is not ours any more.
func (m *Machine) afterRelease(n *name) {
	if n.contended() {
		n.c.giveBack = false
	}
	if n.queue.head != nil && !m.closing {
		m.ask(n)
		return
	}
	m.rest(n)
}

// releaseFailed handles a release that did not run, or may not have. It is
// sent again until it is confirmed, or the record has expired.
func (m *Machine) releaseFailed(n *name, r *Reply) {
	c := n.more()
	goneBy := c.unknown.giveUpAt(max(m.now, n.entry.until), &m.cfg)
	m.failed(n, r.Err)
	if r.Ran == Maybe {
		// A record that may have been removed is not passed on. It is a suspect
		// now, and the next script names it.
		n.retried = true
		if n.entry.number != 0 {
			m.suspectOwner(n)
		}
		m.dropTokens(n)
	}
	if r.Ran != No || !r.Final {
		m.failOnce(n, r.Err)
	}
	// A manager that closes doesn't wait for a server that has failed for long.
	closed := m.closing && (r.Final || m.now-max(c.retry.since, m.closedAt) >= m.cfg.RetryTime)
	switch {
	case closed || m.now >= goneBy:
		m.stats.Unreleased++
		m.unreleased = r.Err
		m.notice(Notice{What: Unreleased, Name: n.name, Err: r.Err})
		m.unlocked(n, r.Err)
		n.entry.number = 0
		m.dropTokens(n)
		c.unknown.suspects = nil // expired
		c.retry.succeeded()
		m.afterRelease(n)
	case r.Ran == No && r.Final && n.queue.head != nil && !m.closing && !c.longer.set:
		// It can't be released, but it can be passed on.
		m.unlocked(n, r.Err)
		c.giveBack, n.entry.since, c.firstPass = false, m.now, m.now
		c.turns.newRun(m.now)
		m.next(n, nil)
		if n.phase == passing || n.phase == releasing {
			m.failOnce(n, r.Err)
		}
	case r.Final || m.now-c.retry.since >= m.cfg.RetryTime:
		m.unlocked(n, r.Err) // it goes on, but not at the caller's expense
		for q := n.queue.head; q != nil; {
			next := q.next
			if r.Final || m.overdue(n, q) {
				m.giveUp(q, r.Err)
			}
			q = next
		}
	case n.queue.head != nil && !m.leaving(n):
		m.next(n, nil)
	}
}
