package core

import (
	"fmt"
	"slices"
	"time"
)

// An Item is one name of a set, and how a request wants it. Kind is Exclusive or
// ReadWrite.
type Item struct {
	Name string
	Kind Kind
	Side Side
}

// A set is the state that only a name of kind Several has. The name keeps it for as long
// as the machine knows the name.
//
// # Gathering
//
// A request for many items could wait for ever: each of them comes free often, but
// hardly all at the same instant. So a set that has waited for Config.GatherAfter
// gathers. Its tries then take the items that are free, and keep them for
// Config.GatherTime while it tries to get the rest:
//
//	            has waited for GatherAfter
//	waiting ─────────────────────────────────▶ gathering ──▶ all items: granted
//	   ▲                                           │
//	   └───────────────────────────────────────────┘
//	    GatherTime is over: gives back what it has, and
//	    does not gather for 2×GatherTime to 4×GatherTime
//
// Each time that it is in vain the next one is twice as long, up to 8×GatherTime or a
// third of Config.Lease. So a set gets names that others hold for seconds each. The pauses
// grow faster, up to 16 times, for those who could have the other names meanwhile: a set
// may wait for a name that somebody keeps for minutes. Of the sets of a manager that
// exclude each other one gathers at a time.
//
// That time bounds how long a set keeps a part. So two sets of different managers that
// gather can't wait for each other for longer than that. Nor can a set and a client of
// another library that keeps locks while it waits for more. The records of a set that
// gathers end by themselves with that time. No caller is told of them.
type set struct {
	items []Item // sorted by name; each name once

	delivered   []bool // by item: its messages are delivered
	undelivered int    // items whose messages are not delivered
	refusedBy   int    // the position of the item for which the last try was refused, from 1, or 0
	signalled   []bool // by item: a message or a confirmation came while a try was in flight

	had             time.Duration // when it last had all its items
	gatherUntil     time.Duration // while it gathers: until when
	gatherNotBefore time.Duration // when it may gather again
	vain            int           // how often in a row it has gathered without a grant
	keptNumber      uint64        // under which its last try kept what was free, or zero

	uncontended contention // of the name while it has no contention of its own
}

// gathering reports whether the set gathers. It is true from the first try that may keep
// items until all are granted or given back.
func (s *set) gathering() bool { return s.gatherUntil > 0 }

// mostVain is how often a time of gathering doubles that was in vain.
const mostVain = 3

// gather returns for how long a try of the set keeps the items that are free: zero if
// it keeps none. asked is when the first request in the queue was made. It does not
// count how long that one has waited for others of the same set.
func (m *Machine) gather(s *set, asked time.Duration) time.Duration {
	if !s.gathering() {
		if m.cfg.GatherTime == 0 || m.now < s.gatherNotBefore || m.now-max(asked, s.had) < m.cfg.GatherAfter || m.gathersBeside(s) {
			return 0
		}
		s.gatherUntil = m.now + m.cfg.gatherTime(s.vain)
		m.gathering = append(m.gathering, s)
	}
	return max(0, s.gatherUntil-m.now).Truncate(time.Millisecond) // the server counts whole ones
}

// gatherTime returns for how long a set gathers that did so in vain before.
func (c *Config) gatherTime(vain int) time.Duration {
	return max(c.GatherTime, min(c.GatherTime<<min(vain, mostVain), c.Lease/3))
}

// gaveBack is called when the set has given back what it had.
func (m *Machine) gaveBack(s *set) {
	if s.gathering() {
		pause := 2 * m.cfg.GatherTime << min(s.vain, mostVain+1)
		s.gatherNotBefore = m.now + pause + m.jitter.upTo(pause)
		s.vain++
		m.gathersNoMore(s)
	}
}

// gathersNoMore ends the gathering of a set, if it gathers.
func (m *Machine) gathersNoMore(s *set) {
	s.gatherUntil, s.keptNumber = 0, 0
	if i := slices.Index(m.gathering, s); i >= 0 {
		m.gathering = slices.Delete(m.gathering, i, i+1)
	}
}

// hears notes whether the messages of an item are delivered. item counts from 1.
func (s *set) hears(item int, on bool) {
	if i := item - 1; s.delivered[i] != on {
		s.delivered[i] = on
		if on {
			s.undelivered--
		} else {
			s.undelivered++
		}
	}
}

// items returns the items of a set, or nil for a single name.
func (n *name) items() []Item {
	if s := n.c.set; s != nil {
		return s.items
	}
	return nil
}

// signal notes an event that comes while a try is in flight. item counts from 1.
func (s *set) signal(item int, all bool) {
	for i := range s.signalled {
		s.signalled[i] = s.signalled[i] || all || i == item-1
	}
}

// worthTrying reports whether a message may mean that a try succeeds now. Of the
// messages for a set, one of the item for which its last try was refused may, and any
// while it gathers.
func (n *name) worthTrying(ev Wake) bool {
	s := n.c.set
	return ev.Message && (s == nil || s.refusedBy == 0 || s.refusedBy == ev.Item || s.gathering())
}

// keptSome reports whether a refused try of a set has kept the items that were free.
func (r *Reply) keptSome() bool { return r.Item > 0 && r.Op.Gather > 0 && !r.OtherKind }

// setRefused handles the answer that others have an item of a set.
func (m *Machine) setRefused(e *entry, r *Reply) {
	s, u := e.of.c.set, e.more()
	s.refusedBy = r.Item
	e.woken = e.woken && (s.gathering() || r.Item > 0 && s.signalled[r.Item-1])
	if r.keptSome() {
		if s.keptNumber == 0 {
			e.since = m.now // our turn begins
		}
		u.unknown.removedNumber(s.keptNumber) // this try has taken that over
		s.keptNumber = r.Op.Owner
		// A suspect, so that the next try and the release name it.
		u.unknown.add(suspect{owner: s.keptNumber, until: m.suspectUntil(), stray: true})
	}
}

// about returns err with the item of a set for which the last try was refused.
func (n *name) about(err error) error {
	if s := n.c.set; s != nil && s.refusedBy > 0 {
		return fmt.Errorf("%w: %q", err, s.items[s.refusedBy-1].Name)
	}
	return err
}

// setAcquired handles the answer that a set has got all its items.
func (m *Machine) setAcquired(e *entry) {
	s := e.of.c.set
	if s.keptNumber != 0 {
		e.more().unknown.removedNumber(s.keptNumber) // this try has taken that over
	}
	s.refusedBy, s.gatherNotBefore, s.vain, s.had = 0, 0, 0, m.now
	m.gathersNoMore(s)
}

// gatherEnd returns the instant at which the name must give back what it has gathered,
// or Forever.
func (n *name) gatherEnd() time.Duration {
	if s := n.c.set; s != nil && s.gathering() {
		return s.gatherUntil
	}
	return Forever
}
