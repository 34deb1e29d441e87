package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/renewal"
)

// Machine is the state of one lock manager. It is not safe for concurrent
// use: one goroutine owns it.
type Machine struct {
	cfg    Config
	jitter jitter

	locks    map[string]*lock
	renewals *renewal.Map[*lock]
	alarms   alarms[*lock]    // when a lock has something to do
	giveUps  alarms[*Request] // waits that end
	waits    waits

	health   health
	closedAt time.Duration // when it began to close
	// unreleased is why the newest release that was given up had failed.
	unreleased error

	lastID     uint64 // of scripts
	lastNumber uint64 // see number
	resting    int    // names that nobody holds or waits for
	blind      int    // names whose subscription is not confirmed
	closing    bool
	closed     bool

	// Valid during a step.
	now time.Duration
	out []Effect

	due       []*lock // reused by renewDueLocks
	freeOps   []*Op
	freeLocks []*lock
	forgotten []*lock // during this step: their handlers may still look at them
	tally     tally
	stats     Stats
}

// Stats counts what the machine holds and has done. Scripts counts all
// operations, Renewals those of them that were renewals, and Renewed the
// renewals that succeeded.
type Stats struct {
	Names, Waiting, Held, Watched, Subscriptions      int
	Grants, Passes, Reentries, Losses, Scripts        uint64
	Renewals, Renewed, Wakes, Polls, StoodBack, Fails uint64
	Unreleased                                        uint64
}

// New returns a machine with nothing in it.
func New(cfg Config) *Machine {
	return &Machine{
		cfg:      cfg,
		jitter:   jitter(cfg.Seed),
		locks:    make(map[string]*lock),
		renewals: renewal.NewMap[*lock](cfg.tick()),
		waits:    make(waits),
	}
}

// Step applies an event at an instant and appends the effects to out. Time never
// goes back: an instant before the latest counts as the latest.
func (m *Machine) Step(now time.Duration, ev Event, out []Effect) []Effect {
	m.now = max(m.now, now)
	m.out = out
	switch ev := ev.(type) {
	case Lock:
		m.request(ev.Request)
	case Cancel:
		m.cancel(ev.Request)
	case Unlock:
		m.unlock(ev.Request)
	case *Replies:
		for i := range ev.Replies {
			m.reply(&ev.Replies[i])
		}
		m.reportRenewals()
	case Wake:
		m.wake(ev)
	case Verify:
		m.verify(ev.Name)
	case *Prolongation:
		m.prolong(ev)
	case Tick:
		m.tick()
	case Close:
		m.close()
	case Abort:
		m.abort()
	default:
		panic(fmt.Sprintf("lockmgr: unknown event %T", ev))
	}
	if m.closing && !m.closed && len(m.locks) == 0 {
		m.closed = true
		m.emit(Closed{m.unreleased})
	}
	for _, l := range m.forgotten {
		*l = lock{}
		if len(m.freeLocks) < 256 {
			m.freeLocks = append(m.freeLocks, l)
		}
	}
	m.forgotten = m.forgotten[:0]
	out, m.out = m.out, nil
	return out
}

// Next is when the machine wants a Tick, or Forever.
func (m *Machine) Next() time.Duration {
	at := min(m.alarms.next(), m.giveUps.next())
	if m.health.failing && (m.stats.Waiting > 0 || m.closing && !m.closed) {
		at = min(at, m.health.tellAt)
	}
	if due, ok := m.renewals.Next(); ok {
		at = min(at, due)
	}
	return at
}

// number returns a number that no hold of this manager has had.
func (m *Machine) number() uint64 {
	m.lastNumber++
	return m.lastNumber
}

// Stats returns the counters.
func (m *Machine) Stats() Stats {
	s := m.stats
	s.Names = len(m.locks)
	s.Watched = m.renewals.Len()
	return s
}

func (m *Machine) emit(e Effect) { m.out = append(m.out, e) }

func (m *Machine) notice(n Notice) {
	if m.cfg.Notices {
		told := n // allocated only if somebody listens
		m.emit(&told)
	}
}

// tick runs everything that is due. Losses come before renewals: a lock that is
// past its deadline must not be renewed.
func (m *Machine) tick() {
	for {
		r, ok := m.giveUps.due(m.now)
		if !ok {
			break
		}
		m.giveUp(r, ErrWaitTimeout)
	}
	m.tellOfServer()
	for {
		l, ok := m.alarms.due(m.now)
		if !ok {
			break
		}
		m.settle(l)
	}
	m.renewDueLocks()
}

// settle follows every change of a lock: it does what is due, and forgets the
// lock if it has no state left, else it sets its alarm.
func (m *Machine) settle(l *lock) {
	again := m.advance(l)
	if l.phase == idle && l.flight == 0 && !l.contended() && l.sub == subNone {
		m.forget(l)
		return
	}
	if again != Forever {
		m.alarms.atLatest(l, again)
	}
}

// advance does what is due in the phase of a lock. It returns when to call it
// again, unless something happens before.
func (m *Machine) advance(l *lock) (again time.Duration) {
	var due time.Duration
	switch c := l.c; l.phase {
	case held:
		if due = l.holdUntil(); m.now >= due {
			m.expire(l)
			break
		}
		return min(due, m.tend(l))
	case passing:
		if due = min(l.until, c.retry.at); l.flight != 0 {
			due = l.until
		}
		if l.flight != 0 && l.owner == 0 {
			return Forever
		}
		if m.now < due {
			return due
		}
		m.next(l, nil)
	case waiting:
		if l.flight != 0 {
			return Forever
		}
		if m.now < c.retry.at {
			return c.retry.at
		}
		m.waitOver(l)
	case releasing:
		if l.flight != 0 {
			return Forever
		}
		if m.now < c.retry.at {
			return c.retry.at
		}
		m.sendRelease(l)
	case idle:
		if l.flight != 0 || !l.contended() {
			return Forever
		}
		if m.now < c.restUntil {
			return c.restUntil
		}
		m.rest(l)
	default: // asking: the answer is the next event
		return Forever
	}
	return m.advance(l)
}

// rest is called when nobody here wants the lock and the record is not ours.
// The lock is remembered for a lingering subscription, suspects whose time is
// not over, or turns that others are owed.
func (m *Machine) rest(l *lock) {
	c := l.c
	if !l.contended() && l.sub == subNone {
		m.becomeIdle(l)
		return
	}
	if l.phase != idle {
		m.becomeIdle(l)
		c = l.more()
		c.restUntil = m.now
		if l.sub != subNone {
			c.restUntil = later(m.now, m.cfg.Linger)
		}
		if t := &c.turns; t.others > 0 || t.back {
			// A pause of callers must not reset the turns.
			c.restUntil = max(c.restUntil, later(m.now, m.cfg.PassTime), t.payAt(m.now))
		}
	}
	at := c.unknown.forgetAt(c.restUntil)
	if m.now < at && !m.closing {
		c.restUntil = at
		return
	}
	if l.c.unknown.strays() > 0 && !m.closing {
		m.release(l)
		return
	}
	if l.sub != subNone {
		m.unsubscribe(l)
	}
	l.c = &uncontended
}

func (m *Machine) forget(l *lock) {
	if l.forgotten {
		return
	}
	l.forgotten = true
	if l.phase == idle {
		m.resting--
	}
	if l.contended() {
		m.answerProlongations(l, ErrClosed)
	}
	m.alarms.remove(l)
	m.renewals.Remove(l)
	delete(m.locks, l.name)
	m.forgotten = append(m.forgotten, l)
}

// lookup returns the lock of a name, made if need be; nil at the bound.
func (m *Machine) lookup(name string) *lock {
	l := m.locks[name]
	if l == nil {
		// Names that are only remembered do not count, within reason.
		if n := len(m.locks); n-m.resting >= m.cfg.MaxLocks || n >= 2*m.cfg.MaxLocks {
			return nil
		}
		if n := len(m.freeLocks); n > 0 {
			l, m.freeLocks = m.freeLocks[n-1], m.freeLocks[:n-1]
		} else {
			l = new(lock)
		}
		l.name, l.c = name, &uncontended
		m.locks[name] = l
		m.resting++
	}
	return l
}

// send puts a script in flight.
func (m *Machine) send(l *lock, kind Kind, owner uint64, lease time.Duration, tokens int64) {
	if l.flight != 0 {
		panic("lockmgr: two scripts in flight for one name")
	}
	var op *Op
	if n := len(m.freeOps); n > 0 {
		op, m.freeOps = m.freeOps[n-1], m.freeOps[:n-1]
	} else {
		op = new(Op)
	}
	m.lastID++
	*op = Op{
		ID: m.lastID, Kind: kind, Name: l.name, Sent: m.now, Lease: lease,
		Owner: owner, Tokens: tokens, lock: l, Others: op.Others[:0],
	}
	switch kind {
	case KindRenew:
		m.stats.Renewals++
	case KindLook:
	default:
		op.Others = l.mayCarry(owner, kind, op.Others)
	}
	l.flight, l.flightKind = op.ID, kind
	m.stats.Scripts++
	m.emit(Run{op})
}

// reply hands an answer to the phase that waited for it.
func (m *Machine) reply(r *Reply) {
	op := r.Op
	l := op.lock
	if r.ID != op.ID || l == nil || l.flight != op.ID {
		return // stale
	}
	l.flight = 0
	m.health.report(op.Sent, r.Ran, r.Final, r.Err, m.cfg.RetryTime)
	switch {
	case op.Kind == KindLook:
	case r.Ran == Yes && op.Kind == KindRenew:
		if r.OK { // a renewal names no number but the holder's
			m.confirm(l, op.ID)
		}
	case r.Ran == Yes:
		if l.contended() {
			l.c.unknown.named(op.Sent)
		}
		m.confirm(l, op.ID)
	case r.Ran == Maybe:
		l.more().unknown.addOp(op, m.suspectUntil())
	}
	if r.Err != nil {
		m.stats.Fails++
	}
	switch op.Kind {
	case KindLook:
		m.looked(l, r)
	case KindAcquire:
		m.acquired(l, r)
	case KindTransfer:
		m.transferred(l, r)
	case KindRelease:
		m.released(l, r)
	case KindRenew:
		m.renewed(l, r)
	}
	m.settle(l)
	op.lock = nil
	if len(m.freeOps) < 1024 {
		m.freeOps = append(m.freeOps, op)
	}
}

// failed notes a failure of a script and returns when to try again.
func (m *Machine) failed(l *lock, err error) (retryAt time.Duration) {
	r := &l.more().retry
	r.failed(m.now, m.pause(r.n+1))
	m.notice(Notice{What: CommandError, Name: l.name, N: r.n, Err: err})
	return r.at
}

// close refuses new requests, fails those that wait and releases held locks.
func (m *Machine) close() {
	if m.closing {
		return
	}
	m.closing = true
	m.closedAt = m.now
	m.health.tellAt = m.tellDue(m.now)
	for _, l := range m.everyLock() {
		for l.queue.head != nil {
			m.giveUp(l.queue.head, ErrClosed)
		}
		switch l.phase {
		case held:
			m.loseHold(l, ErrClosed)
			m.release(l)
		case idle:
			m.leave(l)
		}
		m.settle(l)
	}
}

// abort closes without waiting for the answers to releases. Records that are
// still there expire.
func (m *Machine) abort() {
	m.close()
	for _, l := range m.everyLock() {
		if l.owner != 0 || l.c.unknown.strays() > 0 || l.flight != 0 && l.flightKind == KindAcquire {
			m.stats.Unreleased++
			m.unreleased = m.health.err
		}
		m.unlocked(l, ErrClosed)
		if l.sub != subNone {
			m.unsubscribe(l)
		}
		m.forget(l)
	}
}

// everyLock lists all locks by name.
func (m *Machine) everyLock() []*lock {
	return m.locksWhere(func(*lock) bool { return true })
}

// locksWhere lists the locks that pass a test, by name: the order of a map must
// not decide what happens.
func (m *Machine) locksWhere(pass func(*lock) bool) []*lock {
	var some []*lock
	for _, l := range m.locks {
		if pass(l) {
			some = append(some, l)
		}
	}
	slices.SortFunc(some, func(a, b *lock) int { return strings.Compare(a.name, b.name) })
	return some
}
