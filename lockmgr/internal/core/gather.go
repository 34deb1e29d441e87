package core

import "time"

// A gathering is the state of a name whose tries may keep a part of what they want.
//
// A request for many items could wait for ever: each item comes free often, but hardly all items at
// the same instant. The same is true of a request for many permits beside clients that join no
// line. So such a request gathers: its tries keep a part while trying to get the rest.
//
//	            a set: after the first refusal. permits: after GatherAfter
//	waiting ─────────────────────────────────────────────────────▶ gathering ──▶ all of it: granted
//	   ▲                                                                │
//	   └────────────────────────────────────────────────────────────────┘
//	    the time is over: gives back what it has, and does not
//	    gather for as long, or up to twice as long
//
// A set keeps the items before the first that it can't have, and stands in the line of that one.
// All sets want their items in the same order, so no two wait for each other. The time of a set
// begins anew with each further item.
//
// Permits keep what is free. Of the managers that wait for permits of a name, only the first of the
// line gathers: see permits_acquire.lua.
//
// An owner may have an item for which a set waits, and wait for an item that the set keeps: a
// caller who takes single locks in another order, or a multi lock of Redisson. Only the end of the
// time lets such an owner go on. So the time is short at first. The time of a set grows with its
// wait, and that of permits with each failed attempt, so a request also gets names that others hold
// for seconds: see gatherTime. If somebody keeps a name for minutes, others can use the rest in the
// pauses. The kept records expire when the time is over. No caller is told.
type gathering struct {
	by        *entry        // the entry that gathers, or nil
	lastHad   time.Duration // when an entry last had, or began to release, all that it wanted
	until     time.Duration // while an entry gathers: when it must give back
	notBefore time.Duration // when an entry may gather again
	vain      int           // attempts for permits since the last grant
	kept      uint64        // the number of the last try that kept a part, or zero
	got       int           // the most items that tries of this attempt have kept
	ends      time.Duration // when the records of the last try that kept a part end
}

// active reports whether an entry of the name gathers. active is true from the first try that may
// keep a part until all is granted or given back.
func (g *gathering) active() bool { return g.by != nil }

// gatheringOf returns the gathering of the name if the entry gathers, or could begin to: no other
// entry of the name gathers, and the entry has parts. Otherwise gatheringOf returns nil.
func (e *entry) gatheringOf() *gathering {
	g := e.of.details.gathering
	if g == nil || g.by != e && (g.active() || !e.of.rules().parts(e)) {
		return nil
	}
	return g
}

// gathers returns the gathering of the name if the entry gathers, or nil.
func (e *entry) gathers() *gathering {
	if g := e.of.details.gathering; g != nil && g.by == e {
		return g
	}
	return nil
}

// gatherFor returns for how long a try of an entry keeps a part, or zero. If it is time to gather,
// gatherFor begins.
func (m *Machine) gatherFor(e *entry) time.Duration {
	g := e.gatheringOf()
	if g == nil {
		return 0
	}
	if !g.active() {
		if m.cfg.GatherTime == 0 || m.now < g.notBefore || !m.mayGather(e.of, g) {
			return 0
		}
		g.by, g.until = e, m.now+m.gatherTime(e.of, g)
	}
	life := max(0, g.until-m.now)
	if e.of.isSet() {
		life = min(life, m.keptFor()) // the next try keeps the part for longer
	}
	return life.Truncate(time.Millisecond) // the server counts whole ones
}

// waited returns for how long the first request has waited. Time in which an earlier request was
// served does not count.
func (m *Machine) waited(n *name, g *gathering) time.Duration {
	if r := n.queue.head; r != nil {
		return m.now - max(r.Asked, g.lastHad)
	}
	return 0
}

// keptFor returns for how long a try of a set keeps a part at most. A process that dies leaves the
// part for as long.
func (m *Machine) keptFor() time.Duration { return min(m.remembered(), m.cfg.Lease) }

// mayGather reports whether the first request has waited for long enough to gather. A set gathers
// from the first try after it has subscribed.
func (m *Machine) mayGather(n *name, g *gathering) bool {
	if n.isSet() {
		return n.sub != subNone && !n.queue.head.Once
	}
	return m.waited(n, g) >= m.cfg.GatherAfter
}

// gatherTime returns for how long a name gathers if an attempt begins now. A set gathers for half
// the time that it has waited: at least a 64th of GatherTime, at most 1024 times GatherTime.
// Permits are kept for GatherTime at first, and for twice as long after each failed attempt, up to
// eight times GatherTime and a third of Config.Lease.
func (m *Machine) gatherTime(n *name, g *gathering) time.Duration {
	t := m.cfg.GatherTime
	if n.isSet() {
		return min(max(t>>6, m.waited(n, g)/2), t<<10)
	}
	return max(t, min(t<<min(g.vain, 3), m.cfg.Lease/3))
}

// gatherRefused handles the answer that others have a part of what is wanted.
func (m *Machine) gatherRefused(e *entry, r *Reply) {
	g := e.gathers()
	if g == nil {
		return
	}
	if !r.Gathered {
		if g.kept == 0 && r.Op.Gather > 0 && !r.OtherKind {
			g.stop() // nothing was kept; a later try may gather
		}
		return
	}
	u := e.makeUpkeep()
	if r.Got >= g.got || e.of.set() == nil {
		u.unknown.removedNumber(g.kept) // this try has taken the kept part over
	}
	g.kept = r.Op.Number
	// Add a suspect, so that the next try and the release name the number.
	u.unknown.add(suspect{number: g.kept, until: m.suspectUntil(), stray: true, answered: true})
	g.ends = r.Op.Sent + r.Op.Gather
	if r.Got > g.got {
		g.got, g.until = r.Got, m.now+m.gatherTime(e.of, g)
	}
}

// gatherAcquired handles the answer that an entry has got everything wanted.
func (m *Machine) gatherAcquired(e *entry) {
	g := e.gatheringOf()
	if g == nil {
		return
	}
	if g.kept != 0 {
		e.makeUpkeep().unknown.foundAll()
	}
	g.notBefore, g.vain, g.lastHad = 0, 0, m.now
	g.stop()
}

// gatherReleased is called when an entry has given back what it had.
func (m *Machine) gatherReleased(e *entry) {
	if g := e.gathers(); g != nil {
		pause := m.gatherTime(e.of, g)
		g.notBefore = m.now + pause + m.jitter.upTo(pause)
		g.vain++
		g.stop()
	}
}

// stop ends the gathering, if an entry gathers.
func (g *gathering) stop() { g.by, g.until, g.kept, g.got = nil, 0, 0, 0 }

// gatherEnd returns the instant at which an entry must give back what it has gathered, or Forever.
func (e *entry) gatherEnd() time.Duration {
	if g := e.gathers(); g != nil {
		return g.until
	}
	return Forever
}
