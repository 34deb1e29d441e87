package core

import "time"

// next finds a lock its next holder. The record is ours, as far as we know,
// and nobody holds it. answered is the script whose answer led here, if one
// did: what it brought is as fresh as can be.
func (m *Machine) next(l *lock, answered *Op) {
	l.phase = passing
	r := l.queue.head
	switch {
	case l.owner == 0: // the record is gone
		m.startOver(l)
		return
	case m.now >= l.until:
		m.abandon(l)
		if r != nil && l.flight == 0 && m.boundary(l) != goOn {
			// Its answer says whether others wait: leases that run out one
			// after another must not shut them out.
			l.more().back = true
			m.release(l)
			return
		}
		m.startOver(l)
		return
	case r == nil:
		m.release(l)
		return
	}
	passed := answered == nil || answered.Kind != KindAcquire
	if passed {
		switch m.boundary(l) {
		case standBack:
			l.c.back = true
			m.release(l)
			return
		case askFirst:
			m.unlocked(l, nil)
			m.transferFirst(l, r)
			return
		}
	}
	if l.until-m.now > m.cfg.usable(max(m.leaseOf(r), m.cfg.Lease)) {
		// A long fixed lease must not outlive its holder: were this process
		// to die, the next one's lock would stay for that long.
		l.more().back = true
		m.release(l)
		return
	}
	m.unlocked(l, nil)
	if answered == nil && l.until-m.now < m.cfg.usable(m.leaseOf(r))/3 || r.Fenced && !l.hasToken() {
		m.transferFirst(l, r)
		return
	}
	r.Passed = passed
	m.hold(l, r)
	m.tend(l)
}

// startOver asks for a lock whose record is not ours, or lets it rest.
func (m *Machine) startOver(l *lock) {
	switch {
	case l.flight != 0: // its answer leads here again
	case l.queue.head != nil:
		m.ask(l)
	default:
		m.leave(l)
	}
}

func (l *lock) hasToken() bool {
	return l.c != nil && l.c.nextToken > 0 && l.c.nextToken <= l.c.lastToken
}

type boundary uint8

const (
	goOn      boundary = iota
	askFirst           // the run may go on if nobody else waits: find out
	standBack          // the run is over
)

// boundary says whether a run may go on. It ends after PassCount grants, unless
// a transfer has told meanwhile that nobody else waits. Then it may be longer,
// because the transfers of a fast run tell in time when somebody comes; but not
// for ever, or a manager whose transfers fail would shut out the rest.
func (m *Machine) boundary(l *lock) boundary {
	c := l.more()
	if c.runCount == 0 {
		return goOn
	}
	if c.runCount < m.runLimit(c) && m.now-c.runStart < m.cfg.PassTime {
		return goOn
	}
	switch {
	case !m.cfg.TrustSubscribers || c.others > 0:
		return standBack
	case c.fresh: // nobody waited a moment ago
		m.newRun(c)
		return goOn
	default:
		return askFirst
	}
}

// runLimit is the most grants of a run before its end, or another look.
func (m *Machine) runLimit(c *contention) int {
	if c.alone && m.cfg.TrustSubscribers {
		return 8 * m.cfg.PassCount
	}
	return m.cfg.PassCount
}

func (m *Machine) newRun(c *contention) {
	c.runCount, c.runStart, c.fresh = 0, m.now, false
}

// leaving tells whether a release must go out although someone here waits.
func (m *Machine) leaving(l *lock) bool {
	return m.closing || l.c != nil && l.c.back
}

// transferFirst holds the lock back from its next holder until a transfer has
// been answered: too little of the lease is left, there is no token left, or
// others may be waiting.
func (m *Machine) transferFirst(l *lock, r *Request) {
	if c := l.more(); l.flight == 0 && m.now >= c.retryAt {
		m.transfer(l, r)
	}
}

// transfer records a request as the holder, and renews the lease in passing.
func (m *Machine) transfer(l *lock, r *Request) {
	c := l.more()
	c.nextTransfer = m.now + m.cfg.RecordEvery
	tokens := int64(0)
	if r.Fenced && r.state != reqGranted {
		tokens = m.tokensFor(l, r)
	}
	m.send(l, KindTransfer, m.field(l, r), m.leaseOf(r), tokens)
}

// transferred handles the answer to a transfer.
func (m *Machine) transferred(l *lock, r *Reply) {
	op := r.Op
	c := l.more()
	if r.Ran == Yes && !r.OK {
		m.gone(l)
		return
	}
	if r.Ran != Yes {
		c.nextTransfer = m.failed(l, r.Err)
		if r.Final && l.phase == passing {
			// No use in waiting: neither for tokens nor for who else waits.
			c.others = max(c.others, 1)
			for q := l.queue.head; q != nil && q.Fenced && !l.hasToken(); q = l.queue.head {
				m.giveUp(q, r.Err)
			}
		}
		if l.flight == 0 {
			m.proceed(l)
		}
		return
	}
	c.succeeded()
	if l.owner != 0 {
		l.owner = op.Owner
		m.trust(l, op.Sent, op.Lease)
		m.takeTokens(l, r)
	} else { // given up while this was under way
		l.suspect(op.Owner, m.now+m.cfg.SuspectTime, 1)
	}
	c.others = m.othersOf(l, r.Subscribers)
	if c.alone = c.others == 0; c.alone {
		m.newRun(c)
	}
	c.fresh = true
	if l.phase == passing {
		m.next(l, op)
		return
	}
	m.proceed(l)
}

// trust moves the deadline of the record forward, never back: no script
// shortens the life of a record.
func (m *Machine) trust(l *lock, sent, lease time.Duration) {
	l.sent = max(l.sent, sent)
	l.until = max(l.until, sent+m.cfg.usable(lease))
	m.extended(l)
}

// What a server says of its subscribers is no reason to overflow.
const mostOthers = 1 << 20

// othersOf is how many other managers wait, if the channel of a lock has so
// many subscribers. It never says zero where it can't know.
func (m *Machine) othersOf(l *lock, subscribers int64) int64 {
	if subscribers < 0 || !m.cfg.TrustSubscribers {
		return 1
	}
	if l.sub == subOn {
		subscribers--
	}
	return max(0, min(subscribers, mostOthers))
}
