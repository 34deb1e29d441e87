package core

import (
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
	sets     setsOf           // all sets, by the keys of their items
	heldSets setsOf           // the sets that have a hold, likewise
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
	lastNumber uint64 // see newNumber
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
	search    []*Request // requests that may close a cycle by what happened in this step
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

// newNumber returns a number that no hold of this manager has had. A number is a part of a holder
// ID.
func (m *Machine) newNumber() uint64 {
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
