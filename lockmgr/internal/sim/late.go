package sim

import (
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A lateRun is a list of commands of one connection, in their order, that run
// after their manager was told that they had timed out. Nothing bounds how much
// later that is.
type lateRun struct {
	commands []*command
	done     bool // it has run, or never will
}

// atEnd is how many late runs at most are left for the time after the end.
const atEnd = 3

// maxLate is the latest that a command runs.
func (w *world) maxLate() time.Duration { return max(5*time.Minute, 40*w.set.core.Lease) }

// runLate plans when commands that have timed out run: after a time, or after
// some more grants of the first one's lock, or after the end has begun.
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

// A lateTrigger lets commands run that many grants from now, by one manager or,
// if by is nil, by any.
type lateTrigger struct {
	run    *lateRun
	grants int
	by     *node
}

// grantedLate lets those commands run that have waited for a grant: at once,
// or while the holder uses the lock, or a little later.
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
	switch {
	case w.server.down: // the connection is gone, and they with it
	case w.silent():
		w.stopped = append(w.stopped, commands...)
	default:
		c := commands[0]
		a := c.run()
		if w.tracing() {
			w.tracef(c.n.label, "(server ran %s #%d %v late: %s)", c.verb, c.id, c.owners, &a)
		}
		if commands = commands[1:]; len(commands) > 0 {
			w.after(w.fate.Between(0, w.set.latency/8), func() { w.nextLate(commands) })
		}
	}
}

// endLate decides what becomes of commands that have not run when the end
// begins. Most never do. Some run soon, some at any time, some just before all
// must be over.
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

// A backlog is a connection that keeps a manager's commands back. The client
// gives it up after a time, and uses another.
type backlog struct{ commands []*command }

// holdBack begins to keep a manager's commands back.
func (n *node) holdBack() {
	w := n.w
	b := &backlog{}
	n.backlog = b
	d := w.set.timeout
	if w.fate.Percent(30) {
		d = w.fate.Between(0, d)
	}
	w.after(d, func() {
		n.backlog = nil
		for _, c := range b.commands {
			c.answer(answer{ran: core.Maybe, err: errTimeout})
		}
		w.runLate(b.commands...)
	})
}

// A stray is what is known of a record that a late acquire has made.
type stray struct {
	n     *node
	until time.Duration // its lease is over then, by the contract
}

// ranLate looks at the record that a late command leaves. The record ended at
// before when the command began; 0 means that there was none. ok reports whether
// the command did what it was sent for.
func (c *command) ranLate(l *lockName, ok bool, before time.Duration) {
	w := c.n.w
	fields, until := w.server.Fields(l.key)
	if !ok || len(fields) == 0 || !c.n.carries(fields[0].Name) {
		return
	}
	w.cover.LateRuns++
	most := w.now + w.set.core.Lease + 2*ms
	switch {
	case c.verb == core.VerbAcquire:
		l.stray = &stray{c.n, most}
		w.cover.Strays++
	case c.verb == core.VerbTransfer && l.stray != nil && l.stray.n == c.n:
		l.stray.until = most
	}
	if until <= before || until <= most || w.persisted || c.n.holds(l) {
		return
	}
	if c.verb == core.VerbRenew {
		field := fields[0].Name
		w.queue.Put(most+1, func() { c.n.checkCost(l, field, until) })
		return
	}
	w.violated("a late command costs at most Lease", "%s: %s #%d leaves %v until %v", c.n.label, c.verb, c.id, fields, until)
}

// checkCost is called Config.Lease after a late renewal, and looks whether the
// lease that it set has outlived the hold. A manager that is still sending
// releases, or tries that fail, may go on, and one whose process is paused can't
// send any. One that has died or closed with a long lease may leave it behind.
func (n *node) checkCost(l *lockName, field string, until time.Duration) {
	w := n.w
	fields, still := w.server.Fields(l.key)
	if len(fields) == 0 || fields[0].Name != field || still != until || until <= w.now || n.holds(l) || n.dead || n.closing || w.persisted {
		return
	}
	trying := n.m.Phase(l.key) == "releasing" || n.m.Phase(l.key) == "waiting" && w.now-n.trouble[l.index] < w.set.core.Lease
	if n.flight[l.index].id != 0 || trying || n.pausedUntil > w.now {
		w.after(w.set.core.Lease, func() { n.checkCost(l, field, until) })
		return
	}
	w.violated("a late command costs at most Lease", "%s: a late renewal has left %s of %s until %v", n.label, field, l.key, until)
}

// holds reports whether the manager has a valid hold of a lock.
func (n *node) holds(l *lockName) bool {
	for _, h := range l.holds {
		if h.n == n && h.validAt(n.w.now) && h.epoch == l.epoch {
			return true
		}
	}
	return false
}

// isStray reports whether a lock's record was made by a manager's late
// acquire, and is within the time that such a one may cost.
func (l *lockName) isStray(n *node, until time.Duration) bool {
	return l.stray != nil && l.stray.n == n && until <= l.stray.until
}
