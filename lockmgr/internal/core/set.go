package core

import (
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

// meets reports whether two that have or want these items of one name keep each other
// out.
func (it *Item) meets(other *Item) bool {
	return it.Name == other.Name && (it.Side == Alone || other.Side == Alone)
}

// A set is what the machine knows of a name of kind Several beside the state of all
// names. The name keeps it for as long as the machine knows the name.
//
// # Gathering
//
// A request for many items could wait for ever: each of them comes free often, but
// hardly all at the same instant. So a set that has waited for Config.GatherAfter
// gathers. Its tries then take the items that are free, and keep them for
// Config.GatherTime at most while it tries to get the rest:
//
//	            has waited for GatherAfter
//	waiting ─────────────────────────────────▶ gathering ──▶ all items: granted
//	   ▲                                           │
//	   └───────────────────────────────────────────┘
//	    GatherTime is over: gives back what it has, and
//	    does not gather for GatherTime to 4×GatherTime,
//	    up to 16 times as long if it was in vain before
//
// The longer pauses are for the names that others could have meanwhile: a set may wait
// for one that somebody keeps for minutes.
//
// Time bounds what a set keeps while it waits, so two sets that gather, or a set and a
// client of another library that keeps some locks while it waits for others, can't wait
// for each other for longer than that. The records of a set that gathers end by
// themselves with GatherTime. Nobody is told that they hold anything.
type set struct {
	items []Item // sorted by name; each name once

	heard   []bool // by item: its messages are delivered
	unheard int    // items whose messages are not delivered
	blocker int    // the position of the item for which the last try was refused, from 1, or 0
	rang    []bool // by item: a message or a confirmation came while a try was in flight

	had      time.Duration // when it last had all its items
	gathers  time.Duration // while it gathers: until when
	nextTime time.Duration // when it may gather again
	vain     int           // how often in a row it has gathered without a grant
	number   uint64        // under which its last try kept what was free, or zero

	rest contention // of the name while it has no contention of its own
}

// gathering reports whether the set keeps what it can get. It does until the instant
// gathers, and until it has given that back.
func (s *set) gathering() bool { return s.gathers > 0 }

// gather returns for how long a try of the set keeps the items that are free: zero if
// it keeps none. asked is when the first request in the queue was made. It does not
// count how long that one has waited for others of the same set.
func (s *set) gather(now, asked time.Duration, cfg *Config) time.Duration {
	if !s.gathering() {
		if cfg.GatherTime == 0 || now < s.nextTime || now-max(asked, s.had) < cfg.GatherAfter {
			return 0
		}
		s.gathers = now + cfg.GatherTime
	}
	return max(0, s.gathers-now).Truncate(time.Millisecond) // the server counts whole ones
}

// mostVain is how often the pause after gathering in vain doubles.
const mostVain = 4

// gaveBack is called when the set has given back what it had.
func (s *set) gaveBack(now time.Duration, cfg *Config, j *jitter) {
	if s.gathering() {
		pause := cfg.GatherTime << min(s.vain, mostVain)
		s.gathers, s.nextTime, s.number = 0, now+pause+j.upTo(3*pause), 0
		s.vain++
	}
}

// hears notes whether the messages of an item are delivered. item counts from 1.
func (s *set) hears(item int, on bool) {
	if i := item - 1; s.heard[i] != on {
		s.heard[i] = on
		if on {
			s.unheard--
		} else {
			s.unheard++
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

// newSet makes a name that was just created the name of a set.
func (m *Machine) newSet(n *name, items []Item) {
	flags := make([]bool, 2*len(items))
	s := &set{items: items, heard: flags[:len(items)], rang: flags[len(items):], unheard: len(items)}
	s.rest = contention{set: s}
	n.kind, n.c = Several, &s.rest
	for i := range items {
		m.setsOf[items[i].Name] = append(m.setsOf[items[i].Name], n)
	}
}

// dropSet is called when the name of a set is forgotten.
func (m *Machine) dropSet(n *name) {
	for _, it := range n.items() {
		some := slices.DeleteFunc(slices.Clone(m.setsOf[it.Name]), func(o *name) bool { return o == n })
		if len(some) == 0 {
			delete(m.setsOf, it.Name)
		} else {
			m.setsOf[it.Name] = some
		}
	}
}

// A meeting is a name of this manager that has an item in common with another one.
type meeting struct {
	name        *name
	mine, other Item // of the name itself, and of the other one
}

// meetings calls yield for the names of this manager that have an item in common with
// n: sets, and for a set also single names. It may yield a name several times.
func (m *Machine) meetings(n *name, yield func(meeting) bool) {
	if len(m.setsOf) == 0 {
		return
	}
	if n.c.set == nil {
		m.meetingsOf(n, Item{Name: n.name, Kind: n.kind}, yield)
		return
	}
	for _, it := range n.items() {
		if !m.meetingsOf(n, it, yield) {
			return
		}
		if o := m.names[it.Name]; o != nil && !yield(meeting{o, Item{Name: o.name, Kind: o.kind}, it}) {
			return
		}
	}
}

// meetingsOf yields the sets other than n that have an item of the same name.
func (m *Machine) meetingsOf(n *name, it Item, yield func(meeting) bool) bool {
	for _, o := range m.setsOf[it.Name] {
		if o == n {
			continue
		}
		for _, mine := range o.items() {
			if mine.Name == it.Name && !yield(meeting{o, mine, it}) {
				return false
			}
		}
	}
	return true
}

// blocks reports whether a request that wants one name must wait for a hold of the
// other name of a meeting.
func (t *meeting) blocks(r *Request, h *Hold) bool {
	mine, other := t.mine, t.other
	if t.name.c.set == nil {
		mine.Side = h.Request.Side // a single name: its holds tell
	}
	if r.entry.of.c.set == nil {
		other.Side = r.Side
	}
	return mine.meets(&other)
}

// mostRivals is the most that rivals returns.
const mostRivals = 8

// rivals returns how many other names of this manager wait for something that n has,
// and whether one of them is subscribed to a channel of n. They share the connection of
// this manager, so the server's count of subscribers does not show them.
func (m *Machine) rivals(n *name) (count int64, subscribed bool) {
	for t := range m.eachMeeting(n) {
		if t.name.queue.head != nil && !t.name.held() {
			count++
			subscribed = subscribed || t.name.sub == subOn
		}
		if count == mostRivals {
			break
		}
	}
	return count, subscribed
}

// eachMeeting is meetings as a function to range over.
func (m *Machine) eachMeeting(n *name) func(func(meeting) bool) {
	return func(yield func(meeting) bool) { m.meetings(n, yield) }
}

// ring notes an event that comes while a try is in flight. item counts from 1.
func (s *set) ring(item int, all bool) {
	for i := range s.rang {
		s.rang[i] = s.rang[i] || all || i == item-1
	}
}

// worthTrying reports whether a message may mean that a try succeeds now. Of the
// messages for a set, one of the item for which its last try was refused may, and any
// while it gathers.
func (n *name) worthTrying(ev Wake) bool {
	s := n.c.set
	return ev.Message && (s == nil || s.blocker == 0 || s.blocker == ev.Item || s.gathering())
}

// setRefused handles the answer that others have an item of a set.
func (m *Machine) setRefused(e *entry, r *Reply) {
	s, u := e.of.c.set, e.more()
	s.blocker = r.Item
	e.woken = e.woken && (s.gathering() || r.Item > 0 && s.rang[r.Item-1])
	if r.Op.Gather > 0 && !r.OtherKind {
		if s.number == 0 {
			e.since = m.now // our turn begins
		}
		u.unknown.removedNumber(s.number) // this try has taken that over
		s.number = r.Op.Owner
		u.unknown.add(suspect{owner: s.number, until: m.suspectUntil(), stray: true})
	}
}

// setAcquired handles the answer that a set has got all its items.
func (m *Machine) setAcquired(e *entry) {
	s := e.of.c.set
	if s.number != 0 {
		e.more().unknown.removedNumber(s.number) // this try has taken that over
	}
	s.blocker, s.gathers, s.number = 0, 0, 0
	s.nextTime, s.vain, s.had = 0, 0, m.now
}

// gatherEnd returns the instant at which the name must give back what it has gathered,
// or Forever.
func (n *name) gatherEnd() time.Duration {
	if s := n.c.set; s != nil && s.gathering() {
		return s.gathers
	}
	return Forever
}
