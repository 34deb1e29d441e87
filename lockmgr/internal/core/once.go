package core

import "time"

// occupied reports whether a new request would have to wait until others leave. With an empty
// queue, an acquire or transfer in flight still counts: its request has left. A release in flight
// does not count. If all requests in the queue, and the new request, are for the side Shared, all
// are granted together, so the queue does not count.
func (m *Machine) occupied(n *name, r *Request) bool {
	if n.index() != nil {
		return !n.roomForTry()
	}
	e := &n.entry
	together := n.queue.head != nil && !n.waitsAlone() && r.Side == Shared
	queueFirst := n.queue.head != nil && !together
	switch e.phase {
	case idle:
		return false
	case asking:
		return !together
	case waiting:
		return !together || !n.outsiders().pausesBlindly(m.now)
	case held:
		return queueFirst || !n.rules().joins(e, r)
	case releasing:
		return queueFirst
	default: // passing
		return queueFirst || e.flight != 0 && !together
	}
}

// roomForTry reports whether a new request with Once set may get an entry of a name with an index.
// Requests that wait come first if an entry waits, or is released.
func (n *name) roomForTry() bool {
	x := n.index()
	room := n.hasRoom() || len(x.idle) > 0
	for _, e := range x.moving {
		switch e.phase {
		case passing:
			room = true
		case waiting, releasing:
			if n.queue.head != nil {
				return false
			}
		}
	}
	return room
}

// whyOccupied returns the error for a request that would have to wait and has Once set. While the
// server is failing, only a hold in this manager shows that the name is taken. Without a hold, the
// error is the server's.
func (m *Machine) whyOccupied(n *name) error {
	if h := m.healthOf(n); h.failing && !n.held() {
		return h.err
	}
	return ErrNotAcquired
}

// triesNext reports whether the next grant serves a request that has Once set: the first of the
// queue, or one that shares with all others. The queue must not be empty.
func (n *name) triesNext() bool { return n.queue.head.Once || n.impatient() && !n.waitsAlone() }

// failImpatient fails the waiting requests that have Once set. They wait for an answer, and for no
// unlock.
func (m *Machine) failImpatient(n *name, err error) {
	if !n.impatient() {
		return
	}
	for r := range n.queue.all {
		if r.Once {
			m.failQueued(r, err)
		}
	}
}

// admitImpatient grants or fails the requests with Once set, while nobody else is admitted to an
// entry. The requests join if no other process is known to wait. Requests without Once go on
// waiting, because a process without a subscription may wait. admitImpatient returns when to call
// it again.
func (m *Machine) admitImpatient(e *entry) (again time.Duration) {
	n := e.of
	if !n.impatient() {
		return Forever
	}
	othersMayWait := e.upkeep().writerWaits || n.details.run.others || !m.cfg.TrustSubscribers
	for r := range n.queue.all { // a grant may re-enter the next request, too
		switch {
		case !r.Once:
		case othersMayWait || n.waitsAlone():
			m.failQueued(r, ErrNotAcquired)
		default:
			ready, again := m.prepareJoin(e, r, false)
			if !ready {
				return again
			}
			r.Passed = true
			m.grant(e, r)
		}
	}
	return Forever
}
