package core

import "time"

// admit lets requests at the head of the queue share a held entry, as far as the rules allow. admit
// returns when to try again.
func (m *Machine) admit(e *entry) (again time.Duration) {
	n := e.of
	for r := n.queue.head; r != nil && n.rules().joins(e, r); r = n.queue.head {
		u := e.makeUpkeep()
		if u.upgrade != nil {
			return Forever // the answer to its transfer leads here again
		}
		if m.now < u.shutUntil {
			return min(u.shutUntil, m.admitImpatient(e))
		}
		m.noteHandoff(e)
		run := m.decideRun(e)
		if run == runIsOver && !u.writerWaits {
			// The run is over, so nobody is admitted until shutUntil. If all holds end before, the
			// entry is released and other processes get a turn. Otherwise a new run begins with a
			// transfer. A transfer that reports a writer sets shutUntil itself.
			if u.shutUntil == 0 {
				u.shutUntil = m.now + m.shutFor()
				return min(u.shutUntil, m.admitImpatient(e))
			}
			m.newRun(e)
		}
		if ready, again := m.prepareJoin(e, r, run != goOn); !ready {
			return again // the answer leads here again, too
		}
		r.Passed = true
		m.grant(e, r)
	}
	if n.index() == nil {
		m.failImpatient(n, ErrNotAcquired) // the requests that are left would have to wait for an unlock
	}
	return Forever
}

// shutFor returns for how long nobody is admitted to a shared entry after a run, or while a writer
// waits elsewhere. A long PassTime must not keep readers from an entry for as long: no message
// tells that a writer has left.
func (m *Machine) shutFor() time.Duration { return min(m.cfg.PassTime, mostShut) }

const mostShut = 100 * time.Millisecond

// prepareJoin reports whether a request may join the holds of an entry now. If a script must be
// answered first, prepareJoin sends the script unless one is in flight. In this case prepareJoin
// returns when to call it again if no answer comes. ask is set if a transfer must first report
// whether others wait.
func (m *Machine) prepareJoin(e *entry, r *Request, ask bool) (ready bool, again time.Duration) {
	u := e.makeUpkeep()
	needsTransfer := ask || m.short(e, r) || u.tokens.missing(r)
	mayBeGone := m.unproven(e) || r.Fenced && !m.mayTakeToken(e, r)
	if !needsTransfer && mayBeGone && !u.doubt.open() {
		m.doubt(e) // a renewal looks for the record
	}
	switch {
	case !needsTransfer && !u.doubt.open():
		return true, Forever
	case e.flight != 0:
		return false, Forever
	case !needsTransfer && u.extend.want > 0:
		return false, m.sendDue(e) // the renewal looks for the record
	case m.now < u.retry.at:
		return false, u.retry.at
	}
	m.transfer(e, e.of.rules().side(e), e.target(), m.leaseOf(r), tokensFor(r))
	return false, Forever
}
