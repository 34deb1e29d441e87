package explore

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// valid reports whether the caller may rely on its hold now.
func (w *world) valid(c *call) bool {
	return c.state == granted && !c.lost && w.now < c.req.Hold.Until
}

// checkState checks the invariants that must hold in every state.
func (w *world) checkState() {
	var holder *core.Hold
	for i := range w.managers {
		n := &w.managers[i]
		for _, c := range n.calls {
			if !w.valid(c) || c.epoch != w.epoch {
				continue
			}
			h := c.req.Hold
			if holder != nil && holder != h {
				violated("mutual exclusion", "%s and another hold the lock", n.label)
			}
			holder = h
			w.checkRecord(n, h)
		}
	}
}

// checkRecord checks that a valid hold has a record of its manager, which lasts at
// least as long.
func (w *world) checkRecord(n *manager, h *core.Hold) {
	fields, until := w.server.Fields(lockKey)
	if len(fields) != 1 {
		violated("until the record ends", "%s holds until %v, and the record is %v", n.label, w.at(h.Until), fields)
	}
	if _, mine := n.number(fields[0].Name); !mine {
		violated("until the record ends", "%s holds until %v, and the record is %v", n.label, w.at(h.Until), fields)
	}
	if h.Until > until {
		violated("until the record ends", "%s holds until %v, and the record ends at %v", n.label, w.at(h.Until), w.at(until))
	}
}

func (w *world) granted(n *manager, c *call) {
	r := c.req
	if c.state != pending {
		violated("one answer", "%s: a request is granted that is not pending", n.label)
	}
	want := w.scene.Wants[n.index()][c.want]
	again := r.Hold.Request != r
	for _, o := range n.calls {
		if o.state == pending && o.order < c.order && !again {
			violated("order", "%s: request %d is granted before %d", n.label, c.order, o.order)
		}
	}
	c.state = granted
	if again {
		if !slices.ContainsFunc(n.calls, func(o *call) bool { return o.req == r.Hold.Request && !o.lost }) && r.Hold.Request.Owner() != r.Owner() {
			violated("re-entry", "%s: into a hold of another", n.label)
		}
	} else {
		if n.doubtful && r.Passed {
			violated("a message is looked into", "%s: passed on to request %d before a command has found the record", n.label, c.order)
		}
		n.refused, n.doubtful = false, false
		if slices.Contains(n.record.held, r.Hold.Number) {
			violated("a number is used once", "%s: two holds of number %d", n.label, r.Hold.Number)
		}
		n.record.held = append(n.record.held, r.Hold.Number)
		if want.Fenced {
			if w.epoch == 0 && r.Hold.Token <= w.lastToken {
				violated("tokens", "%s: token %d after %d", n.label, r.Hold.Token, w.lastToken)
			}
			w.lastToken = r.Hold.Token
		}
	}
	c.epoch = n.record.epoch
	if r.Hold.Until <= w.now {
		violated("a grant is valid", "%s: request %d is granted a hold that ended at %v", n.label, c.order, w.at(r.Hold.Until))
	}
	config := w.config()
	c.limit = core.Forever
	if want.Lease > 0 {
		c.limit = w.now + want.Lease - want.Lease/100 - config.Margin
	}
	if _, until := w.server.Fields(lockKey); !w.disturbed && !again && want.Owner == 0 && until > w.now+max(want.Lease, config.Lease)+ms {
		violated("a record is no longer than its lease", "%s: granted with a record until %v", n.label, w.at(until))
	}
	if want.Lease > 0 && want.Owner == 0 && r.Hold.Until > w.now+want.Lease {
		violated("until the lease ends", "%s: until %v, with a lease of %v", n.label, w.at(r.Hold.Until), want.Lease)
	}
}

// index returns the manager's index in world.managers.
func (n *manager) index() int { return int(n.label[0] - 'A') }

func (w *world) extended(n *manager, h *core.Hold) {
	some := false
	for _, c := range n.calls {
		if c.req != nil && c.req.Hold == h && c.state >= granted {
			some = true
			c.epoch = n.record.epoch
			if c.lost {
				violated("extended", "%s: a hold that was lost", n.label)
			}
		}
	}
	if !some {
		violated("extended", "%s: a hold that is over", n.label)
	}
}

func (w *world) lost(n *manager, h *core.Hold, err error) {
	some, limit := false, time.Duration(0)
	for _, c := range n.calls {
		if c.req != nil && c.req.Hold == h && c.state >= granted {
			limit = max(limit, c.limit)
			if c.lost {
				violated("lost once", "%s: %v", n.label, err)
			}
			some, c.lost = true, true
		}
	}
	if !some {
		violated("lost once", "%s: nobody holds it (%v)", n.label, err)
	}
	if h.Until > w.now && !n.refused && !n.closing {
		violated("lost too soon", "%s: good until %v, and no script said otherwise (%v)", n.label, w.at(h.Until), err)
	}
	if w.now < limit && !w.disturbed && !w.slowed && !n.closing {
		violated("lost too soon", "%s: asked for until %v, and nothing went wrong (%v)", n.label, w.at(limit), err)
	}
}

// checkTick checks that nothing is due after a Tick.
func (w *world) checkTick(n *manager) {
	if next := n.m.Next(); next <= w.now {
		violated("bounded work", "%s: after a Tick, Next is still %v", n.label, w.at(next))
	}
	for _, c := range n.calls {
		if c.state == granted && !c.lost && c.req.Hold.Until <= w.now {
			violated("lost in time", "%s: good until %v, and nobody was told", n.label, w.at(c.req.Hold.Until))
		}
	}
}

// checkNumbers checks that a number is the owner of one acquire only, and of no
// command after one that removes it.
func (w *world) checkNumbers(n *manager, op *core.Op) {
	const rule = "a number is used once"
	r := &n.record
	if op.Number != 0 && op.Verb != core.VerbRenew && slices.Contains(r.spent, op.Number) {
		violated(rule, "%s: %v makes %d the owner, and an earlier command removes it", n.label, op.Verb, op.Number)
	}
	if op.Verb == core.VerbAcquire {
		if slices.Contains(r.acquired, op.Number) {
			violated(rule, "%s: two acquires for %d", n.label, op.Number)
		}
		r.acquired = append(r.acquired, op.Number)
	}
	for _, o := range op.OtherNumbers {
		if !slices.Contains(r.spent, o) {
			r.spent = append(r.spent, o)
		}
	}
	if op.Verb == core.VerbAcquire && op.Lease > w.config().Lease {
		violated("an acquire asks for Lease at most", "%s: %v asks for %v", n.label, op.Verb, op.Lease)
	}
}

func (w *world) config() core.Config { return w.scene.config() }

// checkRefusal checks that an acquire is not refused because of a record of its own
// manager, unless a late acquire has made that record.
func (w *world) checkRefusal(i int, c *command, ok bool) {
	if ok || c.state == given {
		return
	}
	n := &w.managers[i]
	fields, until := w.server.Fields(lockKey)
	if len(fields) == 0 {
		return
	}
	if _, mine := n.number(fields[0].Name); mine && !w.isStray(i, until) {
		violated("own record known", "%s: the acquire of %v is refused because of %v", n.label, c.owners, fields)
	}
}

// isStray reports whether the record was made by a late acquire of a manager, and ends
// no later than such a record may.
func (w *world) isStray(i int, until time.Duration) bool {
	return w.stray.until != 0 && w.stray.of == i && until <= w.stray.until
}

// ran checks what a command has done. before is when the record ended before the
// command ran; zero means that there was none.
func (w *world) ran(i int, c *command, a answer, before time.Duration) {
	n := &w.managers[i]
	fields, until := w.server.Fields(lockKey)
	if !a.ok || len(fields) == 0 || c.verb == core.VerbLook {
		if len(fields) == 0 {
			w.stray = stray{}
		}
		return
	}
	if c.state != given {
		if c.verb == core.VerbAcquire || c.verb == core.VerbTransfer {
			w.stray = stray{}
		}
		return
	}
	most := w.now + w.config().Lease + 2*ms
	switch {
	case c.verb == core.VerbAcquire:
		// After a forced unlock, the manager may still believe that it holds the
		// lock, and then does not look for a stray.
		w.stray = stray{i, most, w.epoch == 0 && w.now < c.told+w.config().SuspectTime}
	case c.verb == core.VerbTransfer && w.stray.until != 0 && w.stray.of == i:
		w.stray.until = most
	}
	held := slices.ContainsFunc(n.calls, func(c *call) bool { return w.valid(c) })
	longer := c.verb == core.VerbRenew || c.verb == core.VerbTransfer && c.lease > w.config().Lease
	if until > most && until > before && !held && !longer {
		violated("a late command costs at most Lease", "%s: %v leaves %v until %v", n.label, c.verb, fields, w.at(until))
	}
}

// accept notes what a manager learns from an answer.
func (w *world) accept(n *manager, c *command, a answer) {
	if a.ran != core.Yes {
		return
	}
	n.doubtful = n.doubtful && c.before
	if !a.ok {
		if c.verb != core.VerbAcquire && c.verb != core.VerbLook {
			n.refused = true
		}
		return
	}
	switch c.verb {
	case core.VerbAcquire, core.VerbTransfer, core.VerbRenew:
		// A transfer sets the deadline anew, as an acquire does.
		if until := c.sent + c.lease - c.lease/100; c.verb != core.VerbRenew || until >= n.record.until {
			n.record.epoch, n.record.until = a.epoch, until
		}
	}
}

// checkPassing checks, when nothing is under way and nothing is due, that time may
// pass until to: nobody waits for a free lock, and no record is left to expire.
func (w *world) checkPassing(to time.Duration) {
	fields, until := w.server.Fields(lockKey)
	if len(fields) == 0 {
		w.checkFree(to)
		return
	}
	if to <= until || w.excused {
		return
	}
	for i := range w.managers {
		n := &w.managers[i]
		if _, mine := n.number(fields[0].Name); mine && (!w.isStray(i, until) || w.stray.sought) {
			violated("removed, not left to expire", "%s leaves %v, and nothing is under way", n.label, fields)
		}
	}
}

// soon is how long a lock may be free while somebody waits, if no fault has happened.
const soon = 200 * ms

// checkFree checks that a waiter takes a free lock soon.
func (w *world) checkFree(to time.Duration) {
	if w.disturbed || w.slowed {
		return
	}
	for i := range w.managers {
		n := &w.managers[i]
		if !n.closing && to > w.now+soon && slices.ContainsFunc(n.calls, func(c *call) bool { return c.state == pending }) {
			violated("no lost wake-up", "%s waits, the lock is free, and nothing happens before %v", n.label, w.at(to))
		}
	}
}

// checkOver checks that nothing is left when nothing can happen any more.
func (w *world) checkOver() {
	for i := range w.managers {
		n := &w.managers[i]
		for _, c := range n.calls {
			switch c.state {
			case pending:
				violated("nobody waits for ever", "%s: request %d is never answered", n.label, c.order)
			case unlocking:
				violated("one answer", "%s: the Unlock of request %d is never answered", n.label, c.order)
			}
		}
		if s := n.m.Stats(); s.Names != 0 || s.Waiting != 0 || s.Held != 0 || s.Watched != 0 || s.Subscriptions != 0 {
			violated("nothing left", "%s: %+v", n.label, s)
		}
		if n.wanted || w.server.Subscribed(channelKey, i) {
			violated("nothing left", "%s: subscribed", n.label)
		}
		if n.closing != n.closed {
			violated("close", "%s: closing, and never Closed", n.label)
		}
	}
	if fields, _ := w.server.Fields(lockKey); len(fields) > 0 {
		violated("nothing left", "the record %v", fields)
	}
}
