package core

import "time"

// health is the health of one server, for all names on the server together. While the server is
// failing, requests for any of these names fail, not only requests for the name whose command
// failed. A single server is shard 0. Each shard of a cluster has a health of its own, so that a
// failing shard does not fail requests for names on healthy shards.
//
// A name is on the shard of its last reply, or on the shard to which an operation of the name was
// sent since. Three operations count: the first operation, the first after a change of the layout,
// and an operation that another shard has redirected. So if a shard fails, a request fails in time
// even if its operation has not been sent yet because thousands of operations go first. Before the
// first operation a name is on no shard, and no failure concerns the name.
//
//	      no answer, or a passing error
//	healthy ─────────────────────────▶ failing: a request that has waited
//	   ▲                                  │     in it for RetryTime fails
//	   └──────────────────────────────────┘
//	    a command ran, or was refused for
//	    good: what failed is tried again soon
type health struct {
	failing      bool
	ran          time.Duration // the send of the newest command that was answered
	failingSince time.Duration // the send of the first command after ran that failed
	err          error         // the newest failure
	checkAt      time.Duration // while failing: when checkWaitsOn is due
	probed       bool          // checkWaitsOn has sent a try since the server began to fail
}

// report notes the outcome of a command. recovered is set if the server was failing and no longer
// is.
func (h *health) report(r *Reply, retryTime time.Duration) (recovered bool) {
	switch own := r.Final || r.OnlyThis; { // the error concerns the command only
	case r.Ran == Yes || r.Ran == No && own: // the server has answered
		recovered = h.failing
		*h = health{ran: max(h.ran, r.Op.Sent)}
	case own: // the command may have run: that says nothing of the server
	default:
		if since := max(r.Op.Sent, h.ran); !h.failing || since < h.failingSince {
			h.failing, h.failingSince, h.checkAt = true, since, later(since, retryTime/2)
		}
		h.err = r.Err
	}
	return recovered
}

// NoShard is not the number of any shard.
const NoShard = 255

// healthOf returns the health of the shard that a name is on.
func (m *Machine) healthOf(n *name) *health {
	if n.shard == NoShard {
		return &m.nowhere
	}
	return m.healthAt(n.shard)
}

func (m *Machine) healthAt(shard uint8) *health {
	for int(shard) >= len(m.shards) {
		m.shards = append(m.shards, health{})
	}
	return &m.shards[shard]
}

// moveTo notes the shard that a name is on. If the shard is failing, the requests that wait for the
// name have to fail in time, and the Unlocks of the name have to be answered.
func (m *Machine) moveTo(n *name, shard uint8) {
	if n.shard == shard {
		return
	}
	n.shard = shard
	h := m.healthAt(shard)
	if n.queue.head != nil {
		m.checkBy(h, n.queue.head.Asked)
	}
	for e := range n.toLookAt {
		if r := e.unlocking; r != nil {
			m.checkBy(h, r.Ends)
		}
	}
}

// noteSent notes at which shards operations wait. A name moves only if its operation goes to
// another shard than the name's operation before: a shell with an old layout sends each operation
// to the shard that the name has left, and the name stays on the shard that the redirection named.
func (m *Machine) noteSent(ops []*Op) {
	for _, op := range ops {
		n := op.entry.of
		if op.entry.flight != op.ID || n.sentTo == op.Shard { // an Abort in the same batch ends the flight
			continue
		}
		n.sentTo = op.Shard
		if op.Shard != NoShard {
			m.moveTo(n, op.Shard)
		}
	}
}

// noteQueued notes that an operation waits at another server. If the operation has been answered
// since, noteQueued does nothing.
func (m *Machine) noteQueued(ev Queued) {
	n := m.known(ev.Name, ev.Set)
	if n == nil {
		return
	}
	for e := range n.toLookAt {
		if e.flight == ev.ID {
			m.moveTo(n, ev.Shard)
			return
		}
	}
}

// shardGone forgets a shard. The shard's failure concerns no name any more. The names on the shard
// are on no shard until their next operation.
func (m *Machine) shardGone(shard uint8) {
	*m.healthAt(shard) = health{}
	for _, n := range m.namesWhere(func(n *name) bool { return n.shard == shard || n.sentTo == shard }) {
		n.sentTo = NoShard
		if n.shard == shard {
			n.shard = NoShard
		}
	}
}

// hurry makes the scripts that failed on a shard due soon, because the shard answers again. By now
// the pauses after failures are up to a second long.
func (m *Machine) hurry(shard uint8) {
	const soon = 15 * time.Millisecond // the longest first pause
	late := func(e *entry) bool {
		r := &e.upkeep().retry
		return r.failing() && e.flight == 0 && r.at > m.now+soon
	}
	for _, n := range m.namesWhere(func(n *name) bool {
		for e := range n.entries {
			if n.shard == shard && late(e) {
				return true
			}
		}
		return false
	}) {
		for e := range n.entries {
			if late(e) {
				m.trySoon(e)
			}
		}
		m.settle(n)
	}
}

// failsAt returns when a wait that began at an instant fails if the server goes on failing.
func (m *Machine) failsAt(h *health, began time.Duration) time.Duration {
	return later(max(began, h.failingSince), m.cfg.RetryTime)
}

// checkBy makes checkWaitsOn due when a wait that began at an instant fails, if the server is
// failing. Each call of checkWaitsOn looks at all names, so calls must be rare.
func (m *Machine) checkBy(h *health, began time.Duration) {
	if h.failing {
		h.checkAt = min(h.checkAt, max(m.failsAt(h, began), later(m.now, m.cfg.RetryTime/64+time.Millisecond)))
	}
}

// nextCheck returns when checkWaitsOn has something to do, or Forever.
func (m *Machine) nextCheck() time.Duration {
	at := Forever
	if m.stats.Waiting > 0 || m.unlocks > 0 || m.closing && !m.closed {
		for i := range m.shards {
			if h := &m.shards[i]; h.failing {
				at = min(at, h.checkAt)
			}
		}
	}
	return at
}

// trouble returns the error of a shard that is failing, or nil.
func (m *Machine) trouble() error {
	for i := range m.shards {
		if m.shards[i].err != nil {
			return m.shards[i].err
		}
	}
	return nil
}

// closeDue returns when a manager that is closing aborts if the server goes on failing: RetryTime
// after the server began to fail. But after Close there is time for one more try of each release:
// RetryTime or half of SuspectTime, whichever is less.
func (m *Machine) closeDue(h *health) time.Duration {
	return max(later(h.failingSince, m.cfg.RetryTime), later(m.closedAt, min(m.cfg.RetryTime, m.cfg.SuspectTime/2)))
}

// checkWaitsOn fails the requests, and answers the Unlocks, that have waited for RetryTime while
// the server of a shard was failing. A manager that is closing aborts: see closeDue.
func (m *Machine) checkWaitsOn(shard uint8) {
	h := &m.shards[shard]
	if !h.failing || m.now < h.checkAt {
		return
	}
	if m.closing && m.now >= m.closeDue(h) {
		m.abort(h.err)
		return
	}
	h.checkAt = Forever
	if m.closing {
		h.checkAt = m.closeDue(h)
	}
	m.answerLateUnlocks(h, shard)
	if m.stats.Waiting == 0 {
		return
	}
	if !h.probed {
		// Perhaps nothing was sent since the failure, so a try goes out before requests fail. The
		// answer shows whether the server still fails.
		h.probed = true
		if some := m.namesWhere(func(n *name) bool { return n.shard == shard && n.waiting() != nil }); len(some) > 0 {
			m.trySoon(some[0].waiting())
			m.settle(some[0])
		}
	}
	for _, n := range m.namesWhere(func(n *name) bool { return n.shard == shard && n.queue.head != nil }) {
		for r := range n.queue.all {
			if m.failsAt(h, r.Asked) <= m.now {
				m.failQueued(r, h.err)
			} else {
				m.checkBy(h, r.Asked)
			}
		}
		m.settle(n)
	}
}

// answerLateUnlocks answers the Unlocks that have waited for RetryTime while the server was
// failing, with the server's error. The releases are still repeated.
func (m *Machine) answerLateUnlocks(h *health, shard uint8) {
	unlocking := func(e *entry) bool { return e.unlocking != nil }
	for _, n := range m.namesWhere(func(n *name) bool { return n.shard == shard && n.find(unlocking) != nil }) {
		for e := range n.toLookAt {
			switch r := e.unlocking; {
			case r == nil:
			case m.failsAt(h, r.Ends) <= m.now:
				m.answerUnlock(e, h.err)
			default:
				m.checkBy(h, r.Ends)
			}
		}
	}
}

// trySoon makes the next script of an entry due soon: as after a first failure.
func (m *Machine) trySoon(e *entry) { e.makeUpkeep().retry.hasten(m.now + m.pause(1)) }
