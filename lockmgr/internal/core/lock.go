package core

import "fmt"

// request handles a new request. items are the items of a set, or nil. limit is the limit of
// permits.
func (m *Machine) request(r *Request, items []Item, limit int64) {
	if m.closing {
		m.fail(r, ErrClosed)
		return
	}
	n := m.lookup(r.Name, items)
	switch {
	case n == nil:
		m.fail(r, fmt.Errorf("%w: MaxLocks is %d", ErrOverloaded, m.cfg.MaxLocks))
		return
	case n.kind != r.Kind && !m.turnInto(n, r.Kind):
		m.fail(r, ErrKind)
		return
	}
	r.entry = &n.entry
	defer m.settleEntry(r.entry)
	if err := m.otherKind(n); err != nil {
		m.fail(r, err)
		return
	}
	if p := n.pool(); p != nil {
		p.limit = limit
	}
	for e := range n.toLookAt {
		if e.phase == held && m.now >= e.holdUntil() {
			m.expire(e) // the alarm of the hold has not come yet
		}
	}
	if r.Explicit && m.answerOwner(n, r) {
		return
	}
	if r.Once && m.occupied(n, r) {
		m.fail(r, m.whyOccupied(n))
		return
	}
	m.enqueue(r)
	for e := range n.toLookAt {
		m.serve(e, r)
	}
}

// serve lets an entry act on a newly queued request.
func (m *Machine) serve(e *entry, r *Request) {
	switch {
	case e.flight != 0:
	case e.phase == waiting && m.healthOf(e.of).failing:
		m.trySoon(e) // to see whether the server still fails
	case e.phase == waiting && r.Once:
		m.ask(e) // in a pause for clients of whom nobody knows
	case e.of.queue.head != r:
	case e.phase == idle:
		if !e.of.enoughAsk(e) {
			m.waitOrAsk(e)
		}
	case e.phase == passing, e.phase == releasing && r.Once:
		// A script has failed, and is due again. In phase passing r may not need the script. A
		// request with Once does not wait for the end of a pause.
		if r.Once {
			e.makeUpkeep().retry.hasten(m.now)
		}
		m.proceed(e)
	}
}

// failQueued fails a queued request.
func (m *Machine) failQueued(r *Request, err error) {
	n := r.entry.of
	m.dequeue(r)
	n.leavePlace(r)
	m.fail(r, err)
	if r.Explicit && r.Side == Shared {
		if first := m.waits.firstOf(r.Owner(), r.wanted()); first != nil && first.ID > r.ID {
			m.search = append(m.search, first) // see cycle: of an owner's equal requests only the first counts
		}
	}
	if n.queue.head != nil {
		return
	}
	for e := range n.toLookAt {
		switch {
		case e.flight != 0:
		case e.phase == waiting:
			m.settle(n)
		case e.phase == passing:
			m.passOn(e, nil) // a script for the request has failed, and was due again
			m.settle(n)
		}
	}
}

// enqueue puts a request into the queue of its name. If the request closes a cycle of owners that
// wait for each other, a request of the cycle fails.
func (m *Machine) enqueue(r *Request) {
	n := r.entry.of
	n.push(r)
	if n.places() != nil && n.entry.phase != idle {
		n.makeDetails() // a script must give the request a place
	}
	r.state = reqQueued
	m.checkBy(m.healthOf(n), r.Asked)
	m.stats.Waiting++
	if r.Ends != Forever {
		m.waitEnds.atLatest(r, r.Ends)
	}
	if r.Explicit {
		m.waits.add(r)
		m.breakDeadlock(r)
	}
}

func (m *Machine) dequeue(r *Request) {
	n := r.entry.of
	first := n.queue.head == r
	r.state = reqNew
	n.remove(r)
	m.waitEnds.remove(r)
	m.stats.Waiting--
	if r.Explicit {
		m.waits.remove(r)
	}
	if next := n.queue.head; first && next != nil && next.easier(r.Side, int(r.own.Permits), r.takeOver()) {
		m.tryAtOnce(n)
	}
}

// tryAtOnce makes the waiting entries of a name try again. An entry whose tries fail keeps its
// pause. The alarm leads to admit, which lets the first request share a held entry.
func (m *Machine) tryAtOnce(n *name) {
	for e := range n.toLookAt {
		if e.phase == waiting && e.flight == 0 && !e.upkeep().retry.failing() {
			e.makeUpkeep().retry.hasten(m.now)
		}
	}
	m.alarms.atLatest(n, m.now)
}

func (m *Machine) fail(r *Request, err error) {
	r.state = reqDone
	m.emit(Failed{r, err})
}

// cancel handles a caller that has left. A script in flight for the caller can't be recalled. If
// the script gets the lock, the lock goes to the next waiter or is released.
func (m *Machine) cancel(r *Request) {
	switch r.state {
	case reqQueued:
		m.failQueued(r, errCancel)
	case reqUpgrading:
		m.failUpgrade(r.entry, errCancel)
	}
}

// lookup returns the name of a key, or the name of the set with the given items. lookup makes the
// name if there is none, and returns nil if there are too many names.
func (m *Machine) lookup(key string, items []Item) *name {
	n := m.known(key, items != nil)
	if n != nil {
		return n
	}
	// Idle names do not count towards MaxLocks. But all names together are at most twice as many.
	if known := len(m.names) + len(m.setNames); known-m.resting >= m.cfg.MaxLocks || known/2 >= m.cfg.MaxLocks {
		return nil
	}
	if free := len(m.freeNames); free > 0 {
		n, m.freeNames = m.freeNames[free-1], m.freeNames[:free-1]
	} else {
		n = new(name)
	}
	n.name, n.details = key, &noDetails
	n.entry.of = n
	if m.cfg.Sharded {
		n.shard, n.sentTo = NoShard, NoShard
	}
	if items != nil {
		m.setNames[key] = n
		m.newSet(n, items)
	} else {
		m.names[key] = n
	}
	m.resting++
	return n
}

// turnInto changes the kind of a name, and reports whether the change is possible: all entries must
// be idle, and no unanswered script may have left a record.
func (m *Machine) turnInto(n *name, k Kind) bool {
	if !n.idle() {
		return false
	}
	for e := range n.entries {
		if e.upkeep().unknown.strays() > 0 {
			return false
		}
	}
	m.unsubscribe(n) // from the channel of the old kind
	n.kind = k
	n.details = n.rules().newSpecial().dropped(n)
	return true
}
