package core

import (
	"cmp"
	"errors"
)

// unlock handles the Unlock of one grant. untaken is set if nobody took the grant.
func (m *Machine) unlock(r *Request, untaken bool) {
	if r.state != reqGranted {
		return
	}
	r.state = reqDone
	h, e := r.Hold, r.entry
	if h.count == 0 {
		m.emit(Unlocked{r, ErrLeaseLost})
		return
	}
	defer m.settleEntry(e)
	if m.now >= h.end() { // the alarm of the hold has not come yet
		err := m.whyOver(h)
		m.expire(e)
		m.emit(Unlocked{r, err})
		return
	}
	m.grantOver(e, r, untaken)
	if h.count--; h.count > 0 {
		m.answerProlongations(e, func(p *Prolongation) bool { return p.Request == r }, ErrNotHeld)
		m.adjust(h)
		m.emit(Unlocked{r, nil})
		return
	}
	m.letGo(h, ErrNotHeld)
	if e.hold != nil { // other holds share the entry
		m.emit(Unlocked{r, nil})
	} else {
		m.noteUnlock(e, r)
		m.passOn(e, nil)
	}
}

// letGo ends a hold. Its prolongations fail with err.
func (m *Machine) letGo(h *Hold, err error) {
	e := h.Request.entry
	e.drop(h)
	if e.of.isSet() {
		m.heldSets.remove(e.of)
	}
	h.count = 0
	h.Request.Ends = min(h.Request.Ends, m.now)
	m.stats.Held--
	if !e.of.hasDetails() {
		return
	}
	m.failUpgrade(e, ErrNotAcquired) // its owner had the only hold
	m.answerProlongations(e, func(p *Prolongation) bool { return p.Request.Hold == h }, err)
	m.holdOver(e, h)
	if x := &e.upkeep().extend; e.hold == nil {
		x.want, x.sent = 0, 0
	}
}

// noteUnlock notes the request whose Unlock is answered once the fate of the entry is known.
func (m *Machine) noteUnlock(e *entry, r *Request) {
	e.unlocking = r
	r.Ends = m.now // its hold has ended
	m.unlocks++
	m.checkBy(m.healthOf(e.of), r.Ends)
}

// answerUnlock answers the Unlock that noteUnlock has noted, if any. If err is a loss of the hold,
// answerUnlock reports the loss first.
func (m *Machine) answerUnlock(e *entry, err error) {
	r := e.unlocking
	if r == nil {
		return
	}
	e.unlocking = nil
	m.unlocks--
	if errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrClosed) {
		m.tellLoss(r.Hold, err)
	}
	m.emit(Unlocked{r, err})
}

// release removes an entry from the server as soon as no script is in flight.
func (m *Machine) release(e *entry) {
	m.becomeReleasing(e)
	if e.flight == 0 {
		m.sendRelease(e)
	}
}

// sendRelease sends a release. The release names every number that the record may carry, and so
// works whether or not earlier scripts ran.
func (m *Machine) sendRelease(e *entry) {
	n := e.of
	if r := n.queue.head; r != nil && n.places() == nil {
		r.own.Number = 0 // this release may name the number, so the request needs another
	}
	m.send(e, VerbRelease, e.side, 0, 0, 0)
}

// released handles the answer to a release.
func (m *Machine) released(e *entry, r *Reply) {
	n := e.of
	if r.Ran != Yes {
		m.releaseFailed(e, r)
		return
	}
	var err error
	if (!r.OK || r.Partly) && e.number != 0 { // no earlier release can have removed it: see releaseFailed
		err = n.rules().goneErr()
	}
	// If the message could not be published, r.Err is set. The unlock has no error: the lock is
	// free.
	if r.OK {
		m.noticeOf(n, Notice{What: Released, Err: r.Err})
	}
	if r.Op.Reserve > 0 {
		m.unreserve(e)
	}
	if u := e.upkeep(); n.hasDetails() {
		u.retry.succeeded()
		if r.OK && e.number == 0 { // no script had confirmed the removed record
			u.unknown.removed()
		}
		u.unknown.foundAll()
	}
	m.disown(e)
	m.answerUnlock(e, err)
	m.afterRelease(e)
}

// afterRelease goes on with an entry that was released or given up.
func (m *Machine) afterRelease(e *entry) {
	n := e.of
	if n.hasDetails() {
		e.upkeep().giveBack = false
	}
	m.gatherReleased(e)
	switch {
	case n.details.special.leftovers(n): // requests have left while the release was in flight
		m.release(e)
	case n.queue.head == nil, m.closing, n.enoughAsk(e):
		m.rest(e)
	default:
		m.waitOrAsk(e)
	}
}

// releaseFailed handles a release that did not run, or may not have. The release is repeated until
// confirmed, or until the record has expired.
func (m *Machine) releaseFailed(e *entry, r *Reply) {
	u := e.makeUpkeep()
	expired := m.now >= u.unknown.fixGoneBy(max(m.now, e.until, u.life.until), &m.cfg)
	refused := r.Ran == No && r.Final
	m.failed(e, r.Err)
	if r.Ran == Maybe { // a record that may have been removed is not passed on
		m.distrust(e)
	}
	if !refused {
		m.failImpatient(e.of, r.Err)
	}
	mayPass := m.mayKeep(e) && !e.unneeded()
	switch {
	case expired, m.closesWithout(e, r):
		m.leaveRecord(e, r.Err)
	case refused && mayPass && !u.cannotPass && !u.life.long:
		m.passInstead(e, r.Err) // the server would refuse again
	case r.Final, m.now-u.retry.failingSince >= m.cfg.RetryTime:
		m.answerUnlock(e, r.Err) // nobody waits any longer for the release
		m.failWith(e, r)
	case mayPass && !u.giveBack:
		m.passOn(e, nil)
	}
}

// unneeded reports whether enough other entries ask for the waiting requests, so that no request
// waits for the release of this entry.
func (e *entry) unneeded() bool { return e.number == 0 && e.of.enoughAsk(e) }

// closesWithout reports whether the manager is closing and gives up a failed release: the manager
// does not wait for a server that refuses, or that has failed for long.
func (m *Machine) closesWithout(e *entry, r *Reply) bool {
	return m.closing && (r.Final || m.now-max(e.upkeep().retry.failingSince, m.closedAt) >= m.cfg.RetryTime)
}

// leaveRecord gives up the release of a record that has expired, or is left to expire. A release
// that could only leave the line, or remove the record of a grant that nobody wanted, is not
// reported: nobody had the lock.
func (m *Machine) leaveRecord(e *entry, err error) {
	u := e.upkeep()
	if e.mayHaveHold() {
		m.noteUnreleased(e.of, err)
	}
	m.answerUnlock(e, err)
	m.disown(e)
	m.unreserve(e)
	u.unknown.suspects = nil
	e.of.details.special.givenUp()
	u.retry.succeeded()
	m.afterRelease(e)
}

// noteUnreleased counts and reports a release of a name that is given up. err is why the release
// had failed, or nil.
func (m *Machine) noteUnreleased(n *name, err error) {
	m.stats.Unreleased++
	m.unreleased = Unconfirmed{n.name, n.isSet(), err}
	m.noticeOf(n, Notice{What: Unreleased, Err: cmp.Or(err, error(ErrClosed))})
}

// passInstead passes an entry on because the server refuses the release. A new run begins. A pause
// ends, because the entry would be released again at once.
func (m *Machine) passInstead(e *entry, err error) {
	n := e.of
	m.answerUnlock(e, err)
	u := e.makeUpkeep()
	u.giveBack = false
	m.newRun(e)
	if o := n.outsiders(); o != nil {
		o.until = 0
	}
	m.passOn(e, nil)
	if e.phase == passing || e.phase == releasing {
		m.failImpatient(n, err)
	}
}
