package core

import "time"

// health is the health of the server, not of a name: a failing server fails the
// requests for all names, whichever name's command met the failure.
//
//	          a command fails, not for good
//	healthy ───────────────────────────────▶ failing: a request that has waited
//	   ▲                                       │      in it for RetryTime fails
//	   └───────────────────────────────────────┘
//	         the server answers any command
type health struct {
	failing bool
	since   time.Duration // the send of the first command that failed
	err     error         // the newest failure
	tellAt  time.Duration // when the next request may have to fail
	probed  bool          // a waiter has tried whether it still fails
}

// report takes in the outcome of a command.
func (h *health) report(sent time.Duration, ran Ran, final bool, err error, retryTime time.Duration) {
	switch {
	case ran == Yes || ran == No && final: // the server has answered
		*h = health{}
	case final: // this command's own trouble
	case !h.failing:
		*h = health{failing: true, since: sent, err: err, tellAt: later(sent, retryTime/2)}
	default:
		h.err = err
	}
}

// tellDue is when a wait that began at an instant fails, if the server goes on
// failing.
func (m *Machine) tellDue(asked time.Duration) time.Duration {
	return later(max(asked, m.health.since), m.cfg.RetryTime)
}

// tellOfServer ends the waits that have met a failing server for RetryTime. A
// manager that closes then waits for nothing more.
func (m *Machine) tellOfServer() {
	h := &m.health
	if !h.failing || m.now < h.tellAt {
		return
	}
	if m.closing && m.now >= m.tellDue(m.closedAt) {
		m.abort()
		return
	}
	h.tellAt = Forever
	if m.closing {
		h.tellAt = m.tellDue(m.closedAt)
	}
	if m.stats.Waiting == 0 {
		return
	}
	if !h.probed {
		// Maybe nothing was sent since the failure: try before requests fail.
		h.probed = true
		for _, n := range m.namesWhere(func(n *name) bool { return n.phase == waiting && n.flight == 0 }) {
			m.trySoon(n)
			m.settle(n)
			break
		}
	}
	for _, n := range m.namesWhere(func(n *name) bool { return n.queue.head != nil }) {
		for r := n.queue.head; r != nil; {
			next := r.next
			if due := m.tellDue(r.asked); due <= m.now {
				m.giveUp(r, h.err)
			} else {
				h.tellAt = min(h.tellAt, due)
			}
			r = next
		}
		m.settle(n)
	}
	// Each call goes through all names, so it is done rarely.
	h.tellAt = max(h.tellAt, later(m.now, m.cfg.RetryTime/64+time.Millisecond))
}

// trySoon makes a waiter try although no message has come: the answer shows
// whether the server still fails.
func (m *Machine) trySoon(n *name) {
	c := n.more()
	c.turns.back = false
	c.retry.at = min(c.retry.at, m.now+m.pause(1))
}
