package core

import (
	"cmp"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/renewal"
)

// Machine is the state of one lock manager. A Machine is not safe for concurrent use: one goroutine
// owns it.
type Machine struct {
	cfg    Config
	jitter jitter

	names    map[string]*name // single names, by key
	setNames map[string]*name // names of sets, by key
	sets     setsOf           // of all sets
	heldSets setsOf           // of those that have a hold
	renewals *renewal.Map[*entry]
	alarms   alarms[*name]    // when to look at a name again
	waitEnds alarms[*Request] // when the wait of a request ends
	waits    waits

	shards     []health      // see healthOf
	nowhere    health        // of names without a shard: it is never failing
	pace       pace          // of the renewals
	closedAt   time.Duration // when the machine began to close
	unreleased Unconfirmed   // the newest release that was given up

	lastID     uint64 // the ID of the newest Op
	lastNumber uint64 // see number
	resting    int    // names whose entries are all idle
	unlocks    int    // entries whose unlocking is set: Unlocks without an answer
	blind      int    // names whose subscription was asked for and is not confirmed
	closing    bool
	closed     bool

	// Valid during a step.
	now time.Duration
	out []Effect

	due       []*entry // reused by renewDueLocks
	freeOps   []*Op
	freeNames []*name
	forgotten []*name // in this step: its handlers may still look at them
	tally     tally
	nowFirst  []*Request // requests for which endStep looks for deadlocks: see failQueued
	stats     Stats
}

// Stats counts what the machine holds and has done. Scripts counts all operations. Renewals counts
// the renewals among the operations, and Renewed the successful renewals.
type Stats struct {
	Names, Waiting, Held, Watched, Subscriptions      int
	Grants, Passes, Reentries, Losses, Scripts        uint64
	Renewals, Renewed, Wakes, Polls, StoodBack, Fails uint64
	Unreleased                                        uint64
}

// New returns a machine that knows no names.
func New(cfg Config) *Machine {
	return &Machine{
		cfg:      cfg,
		jitter:   jitter(cfg.Seed),
		names:    make(map[string]*name),
		setNames: make(map[string]*name),
		sets:     make(setsOf),
		heldSets: make(setsOf),
		renewals: renewal.NewMap[*entry](cfg.tick()),
		waits:    make(waits),
	}
}

// Step applies an event at the instant now and appends the effects to out. Time never goes back: an
// instant before the latest counts as the latest.
func (m *Machine) Step(now time.Duration, ev Event, out []Effect) []Effect {
	m.now = max(m.now, now)
	m.out = out
	switch ev := ev.(type) {
	case Lock:
		m.request(ev.Request, nil, 0)
	case LockSet:
		m.request(ev.Request, ev.Items, 0)
	case LockPermits:
		ev.Request.own.Permits = max(ev.Permits, 1)
		m.request(ev.Request, nil, ev.Limit)
	case Cancel:
		m.cancel(ev.Request)
	case Unlock:
		m.unlock(ev.Request, false)
	case Untaken:
		m.unlock(ev.Request, true)
	case *Sent:
		m.sent(ev.Ops)
	case Queued:
		m.queuedAt(ev)
	case *Replies:
		m.replies(ev.Replies)
		m.reportRenewals()
	case Wake:
		m.wake(ev)
	case Verify:
		m.verify(ev.Name)
	case *Prolongation:
		m.prolong(ev)
	case ShardGone:
		m.shardGone(ev.Shard)
	case Tick:
		m.tick()
	case Close:
		m.close()
	case Abort:
		m.abort(m.trouble())
	default:
		panic(fmt.Sprintf("lockmgr: unknown event %T", ev))
	}
	m.endStep()
	out, m.out = m.out, nil
	return out
}

// endStep does what is due once after each event.
func (m *Machine) endStep() {
	for i := 0; i < len(m.nowFirst); i++ { // a search may add to it
		m.breakDeadlock(m.nowFirst[i])
	}
	clear(m.nowFirst)
	m.nowFirst = m.nowFirst[:0]
	if m.closing && !m.closed && len(m.names)+len(m.setNames) == 0 {
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
}

// Next returns the instant at which the machine needs a Tick, or Forever.
func (m *Machine) Next() time.Duration {
	at := min(m.alarms.next(), m.waitEnds.next(), m.tellAt())
	if due, ok := m.renewals.Next(); ok {
		at = min(at, max(due, m.pace.next()))
	}
	return at
}

// number returns a number that no hold of this manager has had. A number is a part of a holder ID.
func (m *Machine) number() uint64 {
	m.lastNumber++
	return m.lastNumber
}

// Stats returns the counters.
func (m *Machine) Stats() Stats {
	s := m.stats
	s.Names = len(m.names) + len(m.setNames)
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

// noticeOf is notice about a name.
func (m *Machine) noticeOf(n *name, what Notice) {
	what.Name, what.Set = n.name, n.isSet()
	m.notice(what)
}

// noteUnreleased counts and reports a release of a name that is given up. err is why the release
// had failed, or nil.
func (m *Machine) noteUnreleased(n *name, err error) {
	m.stats.Unreleased++
	m.unreleased = Unconfirmed{n.name, n.isSet(), err}
	m.noticeOf(n, Notice{What: Unreleased, Err: cmp.Or(err, error(ErrClosed))})
}

// tick runs everything that is due. Losses come before renewals, because an entry past its deadline
// must not be renewed.
func (m *Machine) tick() {
	for r := range m.waitEnds.due(m.now) {
		m.failQueued(r, r.entry.of.about(ErrWaitTimeout))
	}
	m.tellOfServers()
	for n := range m.alarms.due(m.now) {
		m.settle(n)
	}
	m.renewDueLocks()
}

// settle must follow every change of a name. settle does what is due for each entry of the name,
// then for the name.
func (m *Machine) settle(n *name) {
	again := Forever
	for e := range n.entries {
		again = min(again, m.advance(e))
	}
	m.settleName(n, again)
}

// settleEntry is settle after a change that concerns one entry of a name, and no further held
// entry. A name may have many held entries.
func (m *Machine) settleEntry(e *entry) {
	n := e.of
	if n.index() == nil {
		m.settle(n)
		return
	}
	again := m.advance(e)
	for other := range n.toLookAt {
		if other != e {
			again = min(again, m.advance(other))
		}
	}
	m.settleName(n, again)
}

// settleName does what is due for a name and for no entry in particular. settleName sets the name's
// alarm, for again at the latest. If the name has no state left, settleName forgets the name.
func (m *Machine) settleName(n *name, again time.Duration) {
	if n.index() != nil {
		again = min(again, m.askMore(n))
	}
	if n.hasDetails() && n.idle() && m.now >= n.details.restUntil {
		m.rest(&n.entry)
	}
	switch {
	case n.hasDetails() && n.idle():
		again = min(again, n.details.restUntil)
	case !n.hasDetails() && n.sub == subNone && n.entry.phase == idle && n.entry.flight == 0:
		m.forget(n)
		return
	}
	if again != Forever {
		m.alarms.atLatest(n, again)
	}
}

// askMore asks for further entries of a name if requests wait, and returns when to look at these
// entries again. If no request waits, askMore ends the wait of each entry: the last request may
// have gone to an entry that was advanced after a waiting entry.
func (m *Machine) askMore(n *name) (again time.Duration) {
	again = Forever
	if n.queue.head == nil {
		for e := n.waiting(); e != nil; e = n.waiting() {
			again = min(again, m.advance(e))
		}
	}
	again = min(again, m.leaveLine(n))
	for !m.closing {
		e := n.another()
		if e == nil {
			break
		}
		m.ask(e)
		again = min(again, m.advance(e))
	}
	if n.allHeld() {
		m.failImpatient(n, ErrNotAcquired) // such a request does not wait for an unlock
	}
	return again
}

// advance does what is due for an entry, and returns when to call it again if nothing happens
// before.
func (m *Machine) advance(e *entry) (again time.Duration) {
	for again = m.dueAt(e); m.now >= again; again = m.dueAt(e) {
		m.phaseOver(e)
	}
	if e.phase == held {
		again = min(m.admit(e), m.lookBehind(e), m.extendDue(e), m.sendDue(e), e.holdUntil())
	}
	return again
}

// dueAt returns the instant at which the phase of an entry is over if nothing happens before.
func (m *Machine) dueAt(e *entry) time.Duration {
	if e.flight != 0 && e.phase != held {
		if e.phase == passing && e.number != 0 {
			return e.until // then the entry is given up without the answer: see recordExpired
		}
		return Forever // the answer comes next
	}
	switch e.phase {
	case held:
		return e.holdUntil()
	case passing:
		return min(e.until, e.upkeep().retry.at)
	case waiting:
		return m.tryAt(e)
	case releasing:
		return e.upkeep().retry.at
	}
	return Forever
}

// phaseOver handles an entry whose phase is over: see dueAt.
func (m *Machine) phaseOver(e *entry) {
	switch e.phase {
	case held:
		m.expire(e)
	case passing:
		m.passOn(e, nil)
	case waiting:
		m.waitOver(e)
	case releasing:
		m.sendRelease(e)
	}
}
