package sim

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A lateRun is a list of commands of one connection, in their order, that run after their manager
// was told that they had timed out. Nothing bounds how much later that is.
type lateRun struct {
	commands []*command
	done     bool // it has run, or never will
}

// atEnd is how many late runs at most happen after the end has begun.
const atEnd = 3

// maxLate returns how late at most a command runs before the end begins.
func (w *world) maxLate() time.Duration { return max(5*time.Minute, 40*w.set.core.Lease) }

// runLate plans when commands that have timed out run: after some time, or after some more grants
// of the first one's lock, or after the end has begun.
func (w *world) runLate(commands ...*command) {
	l := &lateRun{commands: commands}
	w.late = append(w.late, l)
	switch w.fate.Below(10) {
	case 0: // endLate decides
	case 1, 2, 3, 4:
		t := &lateTrigger{run: l, grants: 1 + w.fate.Below(3)}
		if w.fate.Percent(50) {
			t.by = commands[0].n
		}
		name := commands[0].name
		name.late = append(name.late, t)
	default:
		w.after(w.fate.Evenly(w.set.latency/4, w.maxLate()), func() { w.runNow(l) })
	}
}

// A lateTrigger runs late commands after a number of grants by a manager or, if by is nil, by any
// manager.
type lateTrigger struct {
	run    *lateRun
	grants int
	by     *node
}

// grantedLate runs the late commands that wait for this grant: at once, while the holder uses the
// lock, or a little later.
func (n *node) grantedLate(name *lockName) {
	w := n.w
	kept := name.late[:0]
	for _, t := range name.late {
		if t.by == nil || t.by == n {
			t.grants--
		}
		if t.grants > 0 {
			kept = append(kept, t)
			continue
		}
		d := w.fate.Between(0, w.set.latency)
		if w.fate.Percent(50) {
			d = w.fate.LogBetween(1, 4*w.set.hold)
		}
		w.after(d, func() { w.runNow(t.run) })
	}
	name.late = kept
}

// runNow runs commands whose time has come, unless endLate has dropped them.
func (w *world) runNow(l *lateRun) {
	if l.done {
		return
	}
	l.done = true
	w.nextLate(l.commands)
}

// nextLate runs the first of some commands, and the others soon after.
func (w *world) nextLate(commands []*command) {
	switch at := commands[0].at; {
	case at.down: // they are lost with their connection
	case w.silent(at):
		at.stopped = append(at.stopped, commands...)
	default:
		if c := commands[0]; c.name.shard == at { // else it is refused, and nobody sends it on
			a := c.run()
			if w.tracing() {
				w.tracef(c.n.label, "(server ran %s #%d %v late: %s)", c.verb, c.id, c.owners, &a)
			}
		}
		if commands = commands[1:]; len(commands) > 0 {
			w.after(w.fate.Between(0, w.set.latency/8), func() { w.nextLate(commands) })
		}
	}
}

// endLate decides when late commands run that have not run when the end begins. Most never run. A
// few run soon, at any time, or just before all must be over.
func (w *world) endLate() {
	left := 0
	for _, l := range w.late {
		if l.done {
			continue
		}
		if left++; left > atEnd {
			l.done = true
			continue
		}
		at := w.over - 1
		switch w.fate.Below(3) {
		case 0:
			at = w.now + w.fate.Between(0, w.set.core.Lease)
		case 1:
			at = w.now + w.fate.Evenly(w.set.latency, w.over-w.now)
		}
		w.queue.Put(at, func() { w.runNow(l) })
	}
}

// A backlog is a connection that holds a manager's commands back. The client gives it up after a
// time-out, and uses another.
type backlog struct{ commands []*command }

// holdBack begins to hold a manager's commands back.
func (n *node) holdBack(first *command) {
	w := n.w
	b := &backlog{commands: []*command{first}}
	n.backlog = b
	d := w.set.timeout
	if w.fate.Percent(30) {
		d = w.fate.Between(0, d)
	}
	w.after(d, func() {
		n.backlog = nil
		for _, c := range b.commands {
			c.answer(failure(core.Maybe, errTimeout))
		}
		w.runLate(b.commands...)
	})
}

// A stray is a record that a late acquire has made.
type stray struct {
	n     *node
	until time.Duration // it must have ended then
}

// ranLate checks the record that a late command leaves. before is when the record ended before the
// command ran; zero means that there was none. ok reports whether the command succeeded.
func (c *command) ranLate(l *lockName, ok bool, before time.Duration) {
	w := c.n.w
	left := c.left(l)
	if !ok || left.name == "" {
		return
	}
	until := left.until
	w.cover.LateRuns++
	most := w.now + w.set.core.Lease + 2*ms
	switch {
	case c.verb == core.VerbAcquire:
		if !c.name.isSet() {
			l.stray = &stray{c.n, most}
		}
		if left.side == core.Shared || l.rules.entries() > 1 || w.madeFor != nil { // others may be added to the record
			l.strays[left.name] = most
		}
		w.cover.Strays++
	case c.verb == core.VerbTransfer && l.stray != nil && l.stray.n == c.n:
		if w.now <= l.stray.until { // two late copies in a row cost the lease of the second
			most = max(most, w.now+time.Duration(c.leaseMs)*ms+2*ms)
		}
		l.stray.until = most
	}
	if w.set.faults&Failover != 0 && c.verb == core.VerbTransfer && slices.ContainsFunc(c.owners, func(o string) bool { return l.strays[o] > 0 }) {
		l.strays[left.name] = most // of a record that a failover has brought back
	}
	if until <= before || until <= most || w.persisted || c.n.holds(c.name) {
		return
	}
	if c.verb == core.VerbRenew || c.verb == core.VerbTransfer && c.leaseMs > int64(w.set.core.Lease/ms) {
		w.queue.Put(most+1, func() { c.n.checkCost(c.name, l, left) })
		return
	}
	if w.now < l.backUntil || c.reserveMs > 0 { // what is kept lasts for longer by as much as the release was late
		return
	}
	w.violated("a late command costs at most Lease", "%s: %s #%d leaves %v until %v", c.n.label, c.verb, c.id, left, until)
}

// left returns what the record of a single name says of the holder that a command made, or of
// another one of its manager. Its name is empty if it says nothing.
func (c *command) left(l *lockName) (last holder) {
	for _, h := range c.n.of(c.name, c.n.w.holders(l)) {
		if len(c.owners) > 0 && h.name == c.owners[0] {
			return h
		}
		if k := c.name.rules; !c.name.isSet() && k.entries() == 1 && !k.beside(core.Shared, core.Shared) {
			last = h
		}
	}
	return last
}

// checkCost is called Config.Lease after a late renewal, or a late transfer with a longer lease. It
// checks that the lease that it set has not outlived the hold. It is called again later if the
// manager is still sending releases or tries that fail, or its process is paused. A manager that
// died or was closed may leave the lease behind. l is what was renewed, and of the single name
// whose record is left.
func (n *node) checkCost(l, of *lockName, left holder) {
	w := n.w
	if !slices.Contains(w.holders(of), left) || left.until <= w.now || n.holds(l) || n.dead || n.closing || w.persisted || w.now < of.backUntil {
		return
	}
	phase, troubled := n.m.Phase(l.key), w.now-n.trouble[l.index] < w.set.core.Lease
	trying := phase == "releasing" || troubled && (phase == "waiting" || l.rules.entries() > 1) // Phase is that of the first entry
	if n.inFlight(l) != 0 || trying || n.pausedUntil > w.now {
		w.after(w.set.core.Lease, func() { n.checkCost(l, of, left) })
		return
	}
	w.violated("a late command costs at most Lease", "%s: a late renewal has left %v of %s", n.label, left, of.key)
}

// holds reports whether the manager has a valid hold of a lock.
func (n *node) holds(l *lockName) bool {
	for _, h := range l.holds {
		if h.n == n && h.name == l && h.validAt(n.w.now) && h.epoch == l.epoch {
			return true
		}
	}
	return false
}

// isStray reports whether a lock's record was made by a late acquire of a manager, and ends no
// later than such a record may.
func (l *lockName) isStray(n *node, h holder) bool {
	return l.stray != nil && l.stray.n == n && n.made(l, h.name) && h.until <= l.stray.until || h.until <= l.strays[h.name]
}
