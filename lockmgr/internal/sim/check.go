package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// checkGrant looks at a new hold.
func (w *world) checkGrant(c *call) {
	h, n, l := c.hold, c.n, c.name
	w.checkRecord(h)
	w.checkExclusion(h)
	w.checkOrder(c)
	w.checkToken(c)
	w.checkTurn(c, &n.record[l.index])
	w.checkRun(n, l)
}

// checkExclusion: no two holds of one name are valid at one true time. Those
// from before a loss of data are exempt against those from after it.
func (w *world) checkExclusion(h *hold) {
	if !h.validAt(w.now) {
		return
	}
	for _, o := range h.name.holds {
		if o != h && o.validAt(w.now) && o.epoch == h.epoch {
			w.violated("mutual exclusion", "%s while %s", h, o)
		}
	}
}

// checkRecord: a valid hold rests on a record that is there, is one of its
// manager's, and lasts as long.
func (w *world) checkRecord(h *hold) {
	if !h.validAt(w.now) || h.epoch != h.name.epoch || w.ending && w.persisted {
		return
	}
	w.readClock()
	fields, until := w.server.Fields(h.name.key)
	if len(fields) == 0 {
		w.violated("until the record ends", "%s, but there is no record", h)
	}
	if len(fields) != 1 || !h.n.carries(fields[0].Name) {
		w.violated("until the record ends", "%s, but the record is %v", h, fields)
	}
	if h.until > until {
		w.violated("until the record ends", "%s, but the record ends at %v", h, until)
	}
}

// mayRelease: a release runs only when the manager has no valid hold.
func (c *command) mayRelease() {
	w := c.n.w
	fields, _ := w.server.Fields(c.name.key)
	if len(fields) == 0 || !slices.Contains(c.owners, fields[0].Name) {
		return
	}
	for _, h := range c.name.holds {
		if h.n == c.n && h.validAt(w.now) && h.epoch == c.name.epoch {
			w.violated("no release of a valid hold", "%s by %v", h, c.owners)
		}
	}
}

// mayBeRefused: a manager does not forget what it may have left behind.
func (c *command) mayBeRefused(ok bool) {
	w := c.n.w
	if ok || w.persisted || c.n.flight[c.name.index].id != c.id {
		return
	}
	fields, until := w.server.Fields(c.name.key)
	if len(fields) > 0 && c.n.carries(fields[0].Name) && !c.name.isStray(c.n, until) {
		w.violated("own record known", "%s: the try for %v is refused because of %v", c.n.label, c.owners, fields)
	}
}

// checkOrder: in a manager, those who wait for a name are served in the order
// in which they came.
func (w *world) checkOrder(c *call) {
	for _, o := range c.n.waiting {
		if o.name == c.name && o.seen < c.seen {
			w.violated("order", "%s granted before %s", c, o)
		}
	}
}

// checkToken: tokens rise in the order of the grants, whoever makes them.
func (w *world) checkToken(c *call) {
	r, l := c.req, c.name
	if !r.Fenced {
		return
	}
	if r.Hold.Token <= 0 {
		w.violated("tokens", "%s has no token", c)
	}
	rec := &c.n.record[l.index]
	for key, last := range l.tokens {
		if key[0] == rec.counterEpoch && key[1] <= rec.tokenEpoch && r.Hold.Token <= last {
			w.violated("tokens", "%s has token %d, but %d has been given", c, r.Hold.Token, last)
		}
	}
	l.tokens[[2]int{rec.counterEpoch, rec.tokenEpoch}] = r.Hold.Token
	w.cover.Tokens++
}

// checkRun: a manager does not go on granting a lock to its own callers while
// another manager waits.
func (w *world) checkRun(n *node, l *lockName) {
	rec := &n.record[l.index]
	n.grantedAt[l.index] = w.now
	rec.run++
	if rec.knows {
		rec.known++
	}
	if l.runNode != n {
		l.runNode = n
		l.run = l.run[:0]
	}
	l.run = append(l.run, w.now)
	pass := 2 * w.set.core.PassCount // as many as after others had more than their share
	if rec.knows && rec.known > pass {
		w.violated("bounded run", "%s: %d grants of %s since it knows that others wait", n.label, rec.known, l.key)
	}
	if !rec.alone && rec.run > pass+1 { // the first of a quiet lock is not counted
		w.violated("bounded run", "%s: %d grants of %s in a run", n.label, rec.run, l.key)
	}
	if len(l.run) <= 9*pass+4 {
		return
	}
	if !w.set.undisturbed() {
		l.run = append(l.run[:0], l.run[len(l.run)/2:]...)
		return
	}
	for _, o := range w.nodes {
		if o != n && o.ready[l.index].since < l.run[0] {
			w.violated("bounded run", "%s: %d grants of %s while %s has been waiting since %v", n.label, len(l.run), l.key, o.label,
				o.ready[l.index].since)
		}
	}
	l.run = append(l.run[:0], l.run[1:]...)
}

// checkTurn: a manager whose run has ended for the sake of others lets them go
// first. That is so after a run of more than PassCount, and when it says
// so itself.
func (w *world) checkTurn(c *call, rec *record) {
	n, l, run := c.n, c.name, rec.lastRun
	stood := rec.stoodBack
	rec.stoodBack = rec.stoodBack && c.req.Passed
	if !w.set.undisturbed() || c.req.Passed || l.runNode != n || run < w.set.core.PassCount || run == w.set.core.PassCount && !stood || len(l.run) == 0 {
		return
	}
	ended := l.run[len(l.run)-1]
	for _, o := range w.nodes {
		// One that stands back itself, or has just begun to wait, may miss
		// its turn.
		if o != n && o.ready[l.index].since < ended-w.set.latency && o.grantedAt[l.index] < ended-4*w.set.core.BackTime {
			// Others may be slow, or take a message for another's once; they
			// are not time and again.
			if rec.first++; rec.first < 3 {
				return
			}
			w.violated("others first", "%s: %s again after a run of %d, and %s has been waiting since %v", n.label, c, run, o.label,
				o.ready[l.index].since)
		}
	}
}

// turnOf notes that the lock has come to a node, if only to be given back
// because nobody there wants it any more: whoever stood back has done so.
func (w *world) turnOf(n *node, l *lockName) {
	for _, o := range w.nodes {
		if o != n {
			o.record[l.index].stoodBack, o.record[l.index].lastRun, o.record[l.index].first = false, 0, 0
		}
	}
}

// learn notes what a reply tells of others.
func (n *node) learn(rec *record, name int, r *core.Reply, a answer) {
	if r.Op.Verb != core.VerbTransfer || !n.w.set.core.TrustSubscribers || a.subscribers < 0 {
		return
	}
	others := a.subscribers
	if n.pubsub.channels[name].wanted {
		others-- // one of them is us, or so it may seem
	}
	switch {
	case others <= 0:
		rec.knows, rec.known, rec.run = false, 0, 0
		rec.alone = true
	case !rec.knows:
		rec.knows, rec.known = true, 0
	}
}

// checkWork: an event causes one script for one name at most.
func (n *node) checkWork(ev core.Event, scripts int) {
	most := 1
	switch ev := ev.(type) {
	case core.Tick, core.Close:
		most = len(n.w.names)
	case *core.Replies:
		most = len(ev.Replies)
		if slices.ContainsFunc(ev.Replies, func(r core.Reply) bool { return r.Ran != core.Yes }) {
			most = len(n.w.names) // waits end elsewhere, too
		}
	}
	// A request that fails ends a wait elsewhere: a deadlock, say.
	if scripts > most && n.w.set.explicit == 0 && n.w.set.adopt == 0 {
		n.w.violated("bounded work", "%s: %d scripts at once after %T", n.label, scripts, ev)
	}
}

// checkDeadlock: a request that fails for a deadlock was the youngest in one.
func (w *world) checkDeadlock(n *node, c *call, e *core.DeadlockError) {
	if len(e.Cycle) == 0 {
		w.violated("deadlock", "%s: no cycle", n.label)
	}
	for i, edge := range e.Cycle {
		if edge.Owner == edge.Holder {
			w.violated("re-entry", "%s: owner %d waits for itself", n.label, edge.Owner)
		}
		if edge.Request > c.req.ID {
			w.violated("deadlock", "%s: %s failed, but %d is younger", n.label, c, edge.Request)
		}
		next := e.Cycle[(i+1)%len(e.Cycle)]
		if next.Owner != edge.Holder {
			w.violated("deadlock", "%s: no cycle: %v", n.label, e)
		}
		waits := slices.ContainsFunc(n.waiting, func(o *call) bool {
			return o.req.ID == edge.Request && o.req.Owner == edge.Owner && o.req.Name == edge.Name
		})
		holds := slices.ContainsFunc(n.held, func(h *hold) bool { return h.core.Request.Owner == edge.Holder && h.core.Request.Name == edge.Name })
		if !waits || !holds {
			w.violated("deadlock", "%s: not so: %v", n.label, e)
		}
	}
}

// checkOwners: no owner waits for what it holds, and no cycle of owners stays.
func (n *node) checkOwners() {
	for _, h := range n.held {
		for _, c := range n.waiting {
			if h.name == c.name && h.core.Request.Owner == c.req.Owner && h.core.Until > n.clock(n.w.now) {
				n.w.violated("re-entry", "%s: %s waits for %s", n.label, c, h)
			}
		}
	}
	if len(n.held) < 2 || len(n.waiting) < 2 {
		return
	}
	// Holds are few: follow the edges as often as there are holds. Whether a
	// holder was named at first does not matter: others may name it later.
	for _, first := range n.held {
		start := first.core.Request.Owner
		reached := map[uint64]bool{start: true}
		for range n.held {
			for _, c := range n.waiting {
				if !c.req.Explicit || !reached[c.req.Owner] {
					continue
				}
				for _, h := range n.held {
					if h.name != c.name || h.inCore == 0 {
						continue
					}
					if h.core.Request.Owner == start && c.req.Owner != start {
						n.w.violated("deadlock", "%s: owner %d waits for %s in a circle", n.label, c.req.Owner, h)
					}
					reached[h.core.Request.Owner] = true
				}
			}
		}
	}
}

// checkReason: a request does not fail because of another one's trouble.
func (w *world) checkReason(c *call, err error) {
	switch {
	case errors.Is(err, errCounter):
		w.cover.CounterFailed++
		if !c.req.Fenced {
			w.violated("trouble stays where it is", "%s asks for no token, and failed: %v", c, err)
		}
	case errors.Is(err, core.ErrTooLate) && !c.hopeless && w.set.faults&(Pause|Slow) == 0:
		w.violated("trouble stays where it is", "%s has a lease that is long enough, and failed: %v", c, err)
	}
}

// watchRecord notes since when a lock has had no record.
func (w *world) watchRecord(l *lockName) {
	if !w.set.calm {
		return
	}
	fields, _ := w.server.Fields(l.key)
	switch {
	case len(fields) > 0:
		l.freeSince = never
	case l.freeSince == never:
		l.freeSince = w.now
	}
}

// checkCalm: where nothing goes wrong, a free lock is taken soon by those who
// wait, and a record that nobody wants is removed soon.
func (w *world) checkCalm() {
	slack := w.slack()
	if w.live() {
		w.after(slack/2, w.checkCalm)
	}
	w.readClock()
	for _, l := range w.names {
		w.watchRecord(l)
		waits, good := false, false
		wanted := len(l.holds) > 0
		for _, n := range slices.Concat(w.nodes, w.gone) {
			if n.believes(l) {
				n.believed[l.index] = w.now
			}
			for _, c := range n.waiting {
				waits = waits || c.name == l && max(c.since, n.believed[l.index]) < w.now-slack && !c.hopeless
				good = good || c.name == l && c.since < w.now-4*slack && !c.hopeless
			}
			wanted = wanted || n.flight[l.index].id != 0 && !n.dead
		}
		if waits && len(l.holds) == 0 && l.freeSince < w.now-slack {
			w.violated("no lost wake-up", "%s has been free since %v, and someone waits", l.key, l.freeSince)
		}
		if slices.ContainsFunc(l.holds, func(h *hold) bool { return h.validAt(w.now) }) {
			l.heldAt = w.now
		}
		if good && l.heldAt < w.now-4*slack {
			w.violated("trouble stays where it is", "nobody holds %s since %v, and someone waits whose lease is long enough", l.key, l.heldAt)
		}
		if wanted || l.freeSince != never {
			l.leakSince = never
		} else if l.leakSince == never {
			l.leakSince = w.now
		} else if l.leakSince < w.now-slack {
			w.violated("nothing left", "%s has a record that nobody has wanted since %v", l.key, l.leakSince)
		}
	}
}

// live tells whether anything is still going on.
func (w *world) live() bool {
	if !w.ending {
		return true
	}
	for _, n := range slices.Concat(w.nodes, w.gone) {
		if !n.dead && (n.m.Next() != never || len(n.inbox) > 0 || n.m.Stats().Names > 0) {
			return true
		}
	}
	return false
}

// checkEnd: when all is over, everybody has had an answer and nothing is left.
func (w *world) checkEnd() {
	for _, c := range w.calls {
		if c.n.dead || c.state == done {
			continue
		}
		switch {
		case c.state == unlocking:
			w.violated("one answer", "%s: Unlock has not been answered", c)
		case c.state == granted:
			w.violated("one answer", "%s: never unlocked: the simulation is at fault", c)
		default:
			w.violated("nobody waits for ever", "%s has waited since %v", c, c.since)
		}
	}
	for _, n := range slices.Concat(w.nodes, w.gone) {
		if !n.dead {
			n.checkLeftovers()
		}
	}
	w.server.Now = max(w.server.Now, w.now)
	for _, l := range w.names {
		if fields, until := w.server.Fields(l.key); len(fields) > 0 && !w.orphan(l, fields[0].Name, until) {
			w.violated("nothing left", "%s: %v until %v", l.key, fields, until)
		}
		for _, n := range slices.Concat(w.nodes, w.gone) {
			if w.server.Subscribed(l.channel, n.pubsub.id) {
				w.violated("nothing left", "%s: subscribed to %s", n.label, l.key)
			}
		}
	}
}

// orphan tells whether a record is one that its manager could not remove.
func (w *world) orphan(l *lockName, field string, until time.Duration) bool {
	for _, n := range slices.Concat(w.nodes, w.gone) {
		if n.carries(field) && l.isStray(n, until) {
			return true
		}
	}
	for _, n := range w.gone {
		if n.carries(field) && (n.dead || n.aborted || !w.set.calm) {
			return true
		}
	}
	for _, n := range w.nodes {
		if n.carries(field) && w.persisted && n.m.Stats().Unreleased > 0 {
			return true // its lease was over, if not its record
		}
	}
	return field[0] == 'f'
}

func (n *node) checkLeftovers() {
	w := n.w
	s := n.m.Stats()
	if s.Names != 0 || s.Waiting != 0 || s.Held != 0 || s.Watched != 0 || s.Subscriptions != 0 {
		w.violated("nothing left", "%s: %+v", n.label, s)
	}
	if next := n.m.Next(); next != never {
		w.violated("nothing left", "%s: an alarm at %v", n.label, next)
	}
	for i, ch := range n.pubsub.channels {
		if ch.wanted {
			w.violated("nothing left", "%s: subscribed to %s", n.label, w.names[i].key)
		}
	}
	for _, f := range n.flight {
		if f.id != 0 {
			w.violated("nothing left", "%s: command %d in flight", n.label, f.id)
		}
	}
	if n.closing != n.closed {
		w.violated("close", "%s: closing, but not Closed", n.label)
	}
}

// believes reports whether a manager has a holder of a lock, even one whose
// record was lost meanwhile: those who wait behind it wait until it knows.
func (n *node) believes(l *lockName) bool {
	return slices.ContainsFunc(n.held, func(h *hold) bool { return h.name == l })
}
