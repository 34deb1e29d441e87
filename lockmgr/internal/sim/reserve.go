package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// reserve notes that the name of a call must stay taken for its KeepFor, less what its manager's
// clock may be wrong by.
func (w *world) reserve(c *call) {
	l := c.name
	if c.req.Terms != nil && c.req.Terms.KeepFor > 0 {
		d := c.req.Terms.KeepFor
		l.mayKeepUntil = max(l.mayKeepUntil, w.now+d+d/50+w.set.core.Margin)
	}
	if c.req.Terms == nil || c.req.Terms.KeepFor == 0 || c.hold.epoch != l.epoch { // it holds what the server has lost
		return
	}
	if !slices.ContainsFunc(w.holders(l), func(h holder) bool { return c.n.carries(h.name) }) {
		return // the same
	}
	w.cover.Keeps++
	keep := c.req.Terms.KeepFor
	until := w.now + keep - keep/50 - w.set.core.Margin
	if l.reservedIn != l.epoch || until > l.reservedUntil {
		l.reservedUntil, l.reservedIn = until, l.epoch
	}
	l.keptFor = nil
}

// isReserved reports whether a name must stay taken. A server that has lost the record can't keep
// it. A record that has ended by itself is not the concern of the checks below: its manager may
// have died before it could prolong the record's life.
func (w *world) isReserved(l *lockName) bool {
	return w.now < l.reservedUntil && l.reservedIn == l.epoch && !w.persisted
}

// checkPassedOn checks that no call is granted in memory what is reserved by an earlier one.
func (w *world) checkPassedOn(c *call) {
	if c.req.Passed && w.isReserved(c.name) && c.hold.epoch == c.name.epoch {
		w.violated("kept", "%s is passed on, but %s is kept until %v", c, c.name.key, c.name.reservedUntil)
	}
}

// checkKept checks that a command neither removes a record that must stay, nor takes it over, nor
// shortens its life too much. before are its holders before the command.
func (c *command) checkKept(a *answer, before []holder) {
	w, l := c.n.w, c.name
	if len(before) == 0 && len(w.holders(l)) > 0 { // of this manager, or of the first one in the line
		l.reservedUntil = 0 // the record has ended by itself
	}
	if !a.OK || !w.isReserved(l) || len(before) == 0 {
		return
	}
	switch after := w.holders(l); {
	case c.verb == core.VerbAcquire && l.keptFor != nil && w.now >= l.backUntil:
		w.violated("kept", "%s takes %v by %v, but %s is kept until %v", c.n.label, before, c.owners, l.key, l.reservedUntil)
	case c.verb != core.VerbRelease:
	case c.reserveMs == 0:
		w.violated("kept", "%s releases %v, but %s is kept until %v", c.n.label, before, l.key, l.reservedUntil)
	case after[0].until < l.reservedUntil: // whether or not an earlier script has prolonged its life
		w.violated("kept", "%s leaves %v, but %s is kept until %v", c.n.label, after, l.key, l.reservedUntil)
	}
}

// reserved notes what a release leaves that does not remove the record. It is no longer its
// manager's.
func (c *command) reserved() {
	w, l := c.n.w, c.name
	if until := c.sentAt + time.Duration(c.reserveMs)*ms; until > l.mayKeepUntil && !c.n.closing {
		w.violated("kept", "%s keeps %s until %v, but nobody who had it has asked for more than %v", c.n.label, l.key, until, l.mayKeepUntil)
	}
	for _, h := range w.holders(l) {
		if !strings.HasSuffix(h.name, ":kept") { // the server was out of memory
			l.backUntil, l.reservedUntil = w.now+2*w.set.maxLease(), 0
		}
		l.strays[h.name] = max(l.strays[h.name], w.now+time.Duration(c.reserveMs+1)*ms)
	}
	l.keptFor = c
	l.keptUntil = max(l.keptUntil, w.now+time.Duration(c.reserveMs+1)*ms)
	w.cover.Reserved++
}

// notKept notes that a hold was lost, and with it what it reserves.
func (h *hold) notKept() {
	if !h.n.closing {
		h.name.reservedUntil = 0
	}
}
