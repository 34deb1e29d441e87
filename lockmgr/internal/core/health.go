package core

import "time"

// health is what is known of the server as a whole. It belongs to the server,
// not to a name: whoever waits is told of a server that fails, whichever name's
// command met the failure.
//
//	          a command fails, not for good
//	healthy ───────────────────────────────▶ failing: whoever has waited in it
//	   ▲                                       │      for RetryTime is told
//	   └───────────────────────────────────────┘
//	         the server answers any command
type health struct {
	failing bool
	since   time.Duration // the send of the first command that failed
	err     error         // the newest failure
	tellAt  time.Duration // when somebody is to be told
	probed  bool          // a waiter has looked whether it still fails
}

// report takes in what became of a command.
func (h *health) report(sent time.Duration, ran Ran, final bool, err error, retryTime time.Duration) {
	switch {
	case ran == Yes || ran == No && final: // the server has spoken
		*h = health{}
	case final: // this command's own trouble
	case !h.failing:
		*h = health{failing: true, since: sent, err: err, tellAt: later(sent, retryTime/2)}
	default:
		h.err = err
	}
}

// tellDue is when a wait that began at an instant ends, if the server goes on
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
		// Nothing may be under way, and a failure of long ago is no reason.
		h.probed = true
		for _, l := range m.locksWhere(func(l *lock) bool { return l.phase == waiting && l.flight == 0 }) {
			m.trySoon(l)
			m.settle(l)
			break
		}
	}
	for _, l := range m.locksWhere(func(l *lock) bool { return l.queue.head != nil }) {
		for r := l.queue.head; r != nil; {
			next := r.next
			if due := m.tellDue(r.asked); due <= m.now {
				m.giveUp(r, h.err)
			} else {
				h.tellAt = min(h.tellAt, due)
			}
			r = next
		}
		m.settle(l)
	}
	// Each look goes through all names, so there are a few of them only.
	h.tellAt = max(h.tellAt, later(m.now, m.cfg.RetryTime/64+time.Millisecond))
}

// trySoon makes a waiter try although no message has come: its answer tells how
// the server is.
func (m *Machine) trySoon(l *lock) {
	c := l.more()
	c.turns.back = false
	c.retry.at = min(c.retry.at, m.now+m.pause(1))
}
