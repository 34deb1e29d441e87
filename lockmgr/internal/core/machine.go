package core

import (
	"fmt"
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

// settle follows every change of a name: it does what is due, and forgets the
// name if it has no state left, else it sets its alarm.
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

// advance does what is due in the phase of a name. It returns when to call it
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
