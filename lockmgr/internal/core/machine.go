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

	names    map[string]*name
	renewals *renewal.Map[*entry]
	alarms   alarms[*name]    // when a name has something to do
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

	due       []*entry // reused by renewDueLocks
	freeOps   []*Op
	freeNames []*name
	forgotten []*name // during this step: their handlers may still look at them
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
		names:    make(map[string]*name),
		renewals: renewal.NewMap[*entry](cfg.tick()),
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
	if m.closing && !m.closed && len(m.names) == 0 {
		m.closed = true
		m.emit(Closed{m.unreleased})
	}
	for _, n := range m.forgotten {
		*n = name{}
		if len(m.freeNames) < 256 {
			m.freeNames = append(m.freeNames, n)
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
	s.Names = len(m.names)
	s.Watched = m.renewals.Len()
	return s
}

func (m *Machine) emit(e Effect) { m.out = append(m.out, e) }

func (m *Machine) notice(what Notice) {
	if m.cfg.Notices {
		told := what // allocated only if somebody listens
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
		n, ok := m.alarms.due(m.now)
		if !ok {
			break
		}
		m.settle(n)
	}
	m.renewDueLocks()
}

// settle follows every change of a lock: it does what is due, and forgets the
// lock if it has no state left, else it sets its alarm.
func (m *Machine) settle(n *name) {
	again := m.advance(n)
	if n.phase == idle && n.flight == 0 && !n.contended() && n.sub == subNone {
		m.forget(n)
		return
	}
	if again != Forever {
		m.alarms.atLatest(n, again)
	}
}

// advance does what is due in the phase of a lock. It returns when to call it
// again, unless something happens before.
func (m *Machine) advance(n *name) (again time.Duration) {
	var due time.Duration
	switch c := n.c; n.phase {
	case held:
		if due = n.holdUntil(); m.now >= due {
			m.expire(n)
			break
		}
		return min(due, m.tend(n))
	case passing:
		if due = min(n.entry.until, c.retry.at); n.flight != 0 {
			due = n.entry.until
		}
		if n.flight != 0 && n.entry.number == 0 {
			return Forever
		}
		if m.now < due {
			return due
		}
		m.next(n, nil)
	case waiting:
		if n.flight != 0 {
			return Forever
		}
		if m.now < c.retry.at {
			return c.retry.at
		}
		m.waitOver(n)
	case releasing:
		if n.flight != 0 {
			return Forever
		}
		if m.now < c.retry.at {
			return c.retry.at
		}
		m.sendRelease(n)
	case idle:
		if n.flight != 0 || !n.contended() {
			return Forever
		}
		if m.now < c.restUntil {
			return c.restUntil
		}
		m.rest(n)
	default: // asking: the answer is the next event
		return Forever
	}
	return m.advance(n)
}

// rest is called when nobody here wants the lock and the record is not ours.
// The lock is remembered for a lingering subscription, suspects whose time is
// not over, or turns that others are owed.
func (m *Machine) rest(n *name) {
	c := n.c
	if !n.contended() && n.sub == subNone {
		m.becomeIdle(n)
		return
	}
	if n.phase != idle {
		m.becomeIdle(n)
		c = n.more()
		c.restUntil = m.now
		if n.sub != subNone {
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
	if n.c.unknown.strays() > 0 && !m.closing {
		m.release(n)
		return
	}
	if n.sub != subNone {
		m.unsubscribe(n)
	}
	n.c = &uncontended
}

func (m *Machine) forget(n *name) {
	if n.forgotten {
		return
	}
	n.forgotten = true
	if n.phase == idle {
		m.resting--
	}
	if n.contended() {
		m.answerProlongations(n, ErrClosed)
	}
	m.alarms.remove(n)
	m.renewals.Remove(&n.entry)
	delete(m.names, n.name)
	m.forgotten = append(m.forgotten, n)
}

// lookup returns the lock of a name, made if need be; nil at the bound.
func (m *Machine) lookup(key string) *name {
	n := m.names[key]
	if n == nil {
		// Names that are only remembered do not count, within reason.
		if known := len(m.names); known-m.resting >= m.cfg.MaxLocks || known >= 2*m.cfg.MaxLocks {
			return nil
		}
		if free := len(m.freeNames); free > 0 {
			n, m.freeNames = m.freeNames[free-1], m.freeNames[:free-1]
		} else {
			n = new(name)
		}
		n.name, n.c = key, &uncontended
		n.entry.of = n
		m.names[key] = n
		m.resting++
	}
	return n
}

// send puts a script in flight.
func (m *Machine) send(n *name, kind Kind, owner uint64, lease time.Duration, tokens int64) {
	if n.flight != 0 {
		panic("lockmgr: two scripts in flight for one name")
	}
	var op *Op
	if free := len(m.freeOps); free > 0 {
		op, m.freeOps = m.freeOps[free-1], m.freeOps[:free-1]
	} else {
		op = new(Op)
	}
	m.lastID++
	*op = Op{
		ID: m.lastID, Kind: kind, Name: n.name, Sent: m.now, Lease: lease,
		Owner: owner, Tokens: tokens, of: n, Others: op.Others[:0],
	}
	switch kind {
	case KindRenew:
		m.stats.Renewals++
	case KindLook:
	default:
		op.Others = n.mayCarry(owner, kind, op.Others)
	}
	n.flight, n.flightKind = op.ID, kind
	m.stats.Scripts++
	m.emit(Run{op})
}

// reply hands an answer to the phase that waited for it.
func (m *Machine) reply(r *Reply) {
	op := r.Op
	n := op.of
	if r.ID != op.ID || n == nil || n.flight != op.ID {
		return // stale
	}
	n.flight = 0
	m.health.report(op.Sent, r.Ran, r.Final, r.Err, m.cfg.RetryTime)
	switch {
	case op.Kind == KindLook:
	case r.Ran == Yes && op.Kind == KindRenew:
		if r.OK { // a renewal names no number but the holder's
			m.confirm(n, op.ID)
		}
	case r.Ran == Yes:
		if n.contended() {
			n.c.unknown.named(op.Sent)
		}
		m.confirm(n, op.ID)
	case r.Ran == Maybe:
		n.more().unknown.addOp(op, m.suspectUntil())
	}
	if r.Err != nil {
		m.stats.Fails++
	}
	switch op.Kind {
	case KindLook:
		m.looked(n, r)
	case KindAcquire:
		m.acquired(n, r)
	case KindTransfer:
		m.transferred(n, r)
	case KindRelease:
		m.released(n, r)
	case KindRenew:
		m.renewed(n, r)
	}
	m.settle(n)
	op.of = nil
	if len(m.freeOps) < 1024 {
		m.freeOps = append(m.freeOps, op)
	}
}

// failed notes a failure of a script and returns when to try again.
func (m *Machine) failed(n *name, err error) (retryAt time.Duration) {
	r := &n.more().retry
	r.failed(m.now, m.pause(r.n+1))
	m.notice(Notice{What: CommandError, Name: n.name, N: r.n, Err: err})
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
	for _, n := range m.everyName() {
		for n.queue.head != nil {
			m.giveUp(n.queue.head, ErrClosed)
		}
		switch n.phase {
		case held:
			m.loseHold(n, ErrClosed)
			m.release(n)
		case idle:
			m.leave(n)
		}
		m.settle(n)
	}
}

// abort closes without waiting for the answers to releases. Records that are
// still there expire.
func (m *Machine) abort() {
	m.close()
	for _, n := range m.everyName() {
		if n.entry.number != 0 || n.c.unknown.strays() > 0 || n.flight != 0 && n.flightKind == KindAcquire {
			m.stats.Unreleased++
			m.unreleased = m.health.err
		}
		m.unlocked(n, ErrClosed)
		if n.sub != subNone {
			m.unsubscribe(n)
		}
		m.forget(n)
	}
}

// everyName lists all locks by name.
func (m *Machine) everyName() []*name {
	return m.namesWhere(func(*name) bool { return true })
}

// namesWhere lists the locks that pass a test, by name: the order of a map must
// not decide what happens.
func (m *Machine) namesWhere(pass func(*name) bool) []*name {
	var some []*name
	for _, n := range m.names {
		if pass(n) {
			some = append(some, n)
		}
	}
	slices.SortFunc(some, func(a, b *name) int { return strings.Compare(a.name, b.name) })
	return some
}
