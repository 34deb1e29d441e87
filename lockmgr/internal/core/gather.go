package core

import (
	"slices"
	"time"
)

// A gathering is the state of a name whose tries may keep a part of what they want.
//
// A request for many items could wait for ever: each of them comes free often, but
// hardly all at the same instant. The same is true of a request for many permits, if
// others take one at a time. So a request that has waited for Config.GatherAfter
// gathers. Its tries then take what is free, and keep that for Config.GatherTime while
// they try to get the rest:
//
//	            has waited for GatherAfter
//	waiting ─────────────────────────────────▶ gathering ──▶ all of it: granted
//	   ▲                                           │
//	   └───────────────────────────────────────────┘
//	    GatherTime is over: gives back what it has, and
//	    does not gather for 2×GatherTime to 4×GatherTime
//
// Each time that it is in vain the next one is twice as long, up to 8×GatherTime or a
// third of Config.Lease. So a request gets names that others hold for seconds each. The
// pauses grow faster, up to 16 times, for those who could have the rest meanwhile: a
// request may wait for something that somebody keeps for minutes. Of the sets of a
// manager that exclude each other one gathers at a time. Of all requests for permits of a
// name, in all managers, one gathers at a time: the server sees to that.
//
// That time bounds how long a part is kept. So two requests of different managers that
// gather can't wait for each other for longer than that. Nor can such a request and a
// client of another library that keeps locks while it waits for more. What is kept ends by
// itself with that time. No caller is told of it.
type gathering struct {
	by        *entry        // the entry that gathers, or nil
	had       time.Duration // when the name last had all that it wanted
	until     time.Duration // while it gathers: until when
	notBefore time.Duration // when it may gather again
	vain      int           // how often in a row it has gathered without a grant
	kept      uint64        // the number under which its last try kept what was free, or zero
}

// on reports whether the name gathers. It is true from the first try that may keep a part
// until all is granted or given back.
func (g *gathering) on() bool { return g.by != nil }

// gathers returns the gathering of the entry's name, or nil if a try of the entry can't get
// a part, or if another entry of the name gathers.
func (e *entry) gathers() *gathering {
	g := e.of.gathering()
	if g == nil || g.by != e && (g.on() || !e.of.rules().parts(e)) {
		return nil
	}
	return g
}

// gathering returns the gathering of a name, or nil if its kind knows none.
func (n *name) gathering() *gathering {
	switch c := n.c; {
	case c.set != nil:
		return &c.set.gathering
	case c.pool != nil:
		return &c.pool.gathering
	}
	return nil
}

// mostVain is how often a time of gathering doubles that was in vain.
const mostVain = 3

// gather returns for how long a try of an entry keeps what is free: zero if it keeps
// nothing. It does not count how long the first request in the queue has waited for others
// of the same name.
func (m *Machine) gather(e *entry) time.Duration {
	g := e.gathers()
	if g == nil {
		return 0
	}
	if !g.on() {
		if m.cfg.GatherTime == 0 || m.now < g.notBefore || m.now-max(e.of.queue.head.asked, g.had) < m.cfg.GatherAfter || m.gathersBeside(e.of) {
			return 0
		}
		g.by, g.until = e, m.now+m.cfg.gatherTime(g.vain)
		if s := e.of.c.set; s != nil {
			m.gathering = append(m.gathering, s)
		}
	}
	return max(0, g.until-m.now).Truncate(time.Millisecond) // the server counts whole ones
}

// gatherTime returns for how long a name gathers that did so in vain before.
func (c *Config) gatherTime(vain int) time.Duration {
	return max(c.GatherTime, min(c.GatherTime<<min(vain, mostVain), c.Lease/3))
}

// gatherRefused handles the answer that others have a part of what is wanted.
func (m *Machine) gatherRefused(e *entry, r *Reply) {
	g := e.gathers()
	if g == nil || !g.on() {
		return
	}
	if !r.Gathered {
		if g.kept == 0 && r.Op.Gather > 0 && !r.OtherKind {
			m.gathersNoMore(e) // another manager gathers; a later try may
		}
		return
	}
	u := e.more()
	if g.kept == 0 {
		e.since = m.now // our turn begins
	}
	u.unknown.removedNumber(g.kept) // this try has taken that over
	g.kept = r.Op.Owner
	// A suspect, so that the next try and the release name it.
	u.unknown.add(suspect{owner: g.kept, until: m.suspectUntil(), stray: true})
}

// gatherAcquired handles the answer that an entry has got all that it wanted.
func (m *Machine) gatherAcquired(e *entry) {
	g := e.gathers()
	if g == nil {
		return
	}
	if g.kept != 0 {
		e.more().unknown.removedNumber(g.kept) // this try has taken that over
	}
	g.notBefore, g.vain, g.had = 0, 0, m.now
	m.gathersNoMore(e)
}

// gaveBack is called when an entry has given back what it had.
func (m *Machine) gaveBack(e *entry) {
	if g := e.gathers(); g != nil && g.on() {
		pause := 2 * m.cfg.GatherTime << min(g.vain, mostVain+1)
		g.notBefore = m.now + pause + m.jitter.upTo(pause)
		g.vain++
		m.gathersNoMore(e)
	}
}

// gathersNoMore ends the gathering of an entry, if it gathers.
func (m *Machine) gathersNoMore(e *entry) {
	g := e.gathers()
	if g == nil {
		return
	}
	g.by, g.until, g.kept = nil, 0, 0
	if s := e.of.c.set; s != nil {
		m.gathering = slices.DeleteFunc(m.gathering, func(o *set) bool { return o == s })
	}
}

// gatherEnd returns the instant at which an entry must give back what it has gathered, or
// Forever.
func (e *entry) gatherEnd() time.Duration {
	if g := e.gathers(); g != nil && g.on() {
		return g.until
	}
	return Forever
}
