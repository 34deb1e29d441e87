package sim

import (
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// checkGrant checks a new hold.
func (w *world) checkGrant(c *call) {
	h, n, l := c.hold, c.n, c.name
	w.checkRecord(h)
	w.checkExclusion(h)
	w.checkPassedOn(c)
	w.checkOrder(c)
	w.checkToken(c)
	w.checkArrival(c)
	if w.opt.Kind != core.Exclusive {
		return // readers share a turn, so grants don't measure it
	}
	w.checkTurn(c, &n.record[l.index])
	w.checkRun(n, l)
}

// checkExclusion checks that no other hold of the name, or of a name of the set, is valid at this
// true time. A hold from before a loss of data and one from after it may both be valid.
func (w *world) checkExclusion(h *hold) {
	if !h.validAt(w.now) {
		return
	}
	for _, l := range h.name.bases() {
		w.valid = w.valid[:0]
		for _, o := range l.holds {
			if o != h && o.validAt(w.now) && o.epochOn(l) == h.epochOn(l) {
				w.valid = append(w.valid, o)
			}
		}
		rules := l.rules
		if h.foreign && w.madeFor != nil {
			rules = kinds[core.ReadWrite] // it may have the name as another kind of lock: see foreignKind
		}
		if o := rules.conflict(l, h, w.valid); o != nil {
			w.violated("mutual exclusion", "%s while %s", h, o)
		}
	}
}

// checkRecord checks that a valid hold has a record of its manager, which lasts at least as long.
// That of a set has one for each name.
func (w *world) checkRecord(h *hold) {
	if !h.validAt(w.now) || w.ending && w.persisted {
		return
	}
	if h.name.isSet() {
		w.checkParts(h)
		return
	}
	if h.epoch != h.name.epoch {
		return
	}
	if h.name.kind == core.Permits {
		h.n.checkPermits(h.name)
		return
	}
	w.readClock()
	holders := w.holders(h.name)
	if len(holders) == 0 {
		w.violated("until the record ends", "%s, but there is no record", h)
	}
	covered := false
	for _, o := range holders {
		switch {
		case h.n.made(h.name, o.name):
			covered = covered || h.until <= o.until && o.side <= h.core.Request.Side
		case !h.name.rules.beside(o.side, h.core.Request.Side):
			w.violated("until the record ends", "%s, but the record is %v", h, holders)
		}
	}
	alone := h.core.Request.Side == core.Alone && h.name.rules.entries() == 1
	if !covered || alone && len(holders) != 1 {
		w.violated("until the record ends", "%s, but the record is %v", h, holders)
	}
}

// mayRelease checks that a release which runs now ends no valid hold.
func (c *command) mayRelease() {
	w := c.n.w
	if c.name.isSet() {
		c.mayReleaseParts()
		return
	}
	if c.name.kind == core.Permits {
		return // checked when it has run
	}
	removed, left := false, false
	for _, h := range c.n.of(c.name, w.holders(c.name)) {
		is := slices.Contains(c.owners, h.name)
		removed, left = removed || is, left || !is
	}
	if !removed || left { // what is left may be the hold's
		return
	}
	for _, h := range c.name.holds {
		if h.n == c.n && h.name == c.name && h.validAt(w.now) && h.epoch == c.name.epoch {
			w.violated("no release of a valid hold", "%s by %v", h, c.owners)
		}
	}
}

// mayBeRefused checks that an acquire is not refused because of a record of its own manager. ok
// reports whether it was not refused.
func (c *command) mayBeRefused(ok bool) {
	w := c.n.w
	if ok || w.persisted || !slices.Contains(c.n.flight[c.name.index], c.id) ||
		c.name.rules.entries() > 1 { // the one that it is refused for can be another of its own
		return
	}
	for _, l := range c.name.bases() {
		if w.now < max(l.backUntil, l.reservedUntil+2*w.set.maxLease()) {
			continue // a failover has brought back a record that was removed
		}
		for _, h := range c.n.of(c.name, w.holders(l)) {
			granted := l.kind == core.Fair && w.waitsAt(l, h.name) // by message, to a place behind
			if !granted && !l.isStray(c.n, h) && !(c.name.isSet() && slices.Contains(c.owners, h.name)) {
				w.violated("own record known", "%s: the try for %v is refused because of %v", c.n.label, c.owners, h)
			}
		}
	}
}

// checkOrder checks that a manager grants a name in the order of its requests.
func (w *world) checkOrder(c *call) {
	for _, h := range c.n.held {
		if h != c.hold && h.name == c.name && h.core.Request.Owner() == c.req.Owner() {
			return // it has the other side of the lock already
		}
	}
	for _, o := range c.n.waiting {
		joins := c.req.Once && c.req.Side == core.Shared && o.req.Side == core.Shared // it does not wait while nobody is admitted
		if o.name == c.name && o.seen < c.seen && !joins {
			w.violated("order", "%s granted before %s", c, o)
		}
	}
}

// checkToken checks that tokens rise in the order of the grants of all managers.
func (w *world) checkToken(c *call) {
	r, l := c.req, c.name
	if !r.Fenced {
		return
	}
	if r.Hold.Token <= 0 {
		w.violated("tokens", "%s has no token", c)
	}
	w.cover.Tokens++
	rec := &c.n.record[l.index]
	if l.isSet() {
		w.checkTokens(c, rec)
		return
	}
	l.checkRises(w, c, token{r.Hold.Token, r.Side, rec.counterEpoch, rec.tokenEpoch})
}

// A token is one that a request has got, with the epochs in which it was taken.
type token struct {
	number         int64
	side           core.Side
	counter, epoch int
}

// checkRises checks that a token of a single name is larger than earlier ones. Those that share the
// name have the same one.
func (l *lockName) checkRises(w *world, c *call, t token) {
	for key, last := range l.tokens {
		if key[0] == t.counter && key[1] <= t.epoch && (t.number < last || t.number == last && t.side == core.Alone) {
			w.violated("tokens", "%s has token %d of %s, but %d has been given", c, t.number, l.key, last)
		}
	}
	key := [2]int{t.counter, t.epoch}
	l.tokens[key] = max(l.tokens[key], t.number)
}

// checkRun checks that a manager makes only so many grants in a row while another manager waits.
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
	pass := 2 * w.set.core.PassCount // the longest run, after others have had more than their share
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
		if o != n && o.ready[l.index] < l.run[0] {
			w.violated("bounded run", "%s: %d grants of %s while %s has been waiting since %v", n.label, len(l.run), l.key, o.label,
				o.ready[l.index])
		}
	}
	l.run = append(l.run[:0], l.run[1:]...)
}

// checkTurn checks that a manager which has ended a run to let others go first does so. It has, if
// the run was longer than PassCount grants or it reported so.
func (w *world) checkTurn(c *call, rec *record) {
	n, l, run := c.n, c.name, rec.lastRun
	stood := rec.stoodBack
	rec.stoodBack = rec.stoodBack && c.req.Passed
	if !w.set.undisturbed() || c.req.Passed || l.runNode != n || run < w.set.core.PassCount || run == w.set.core.PassCount && !stood || len(l.run) == 0 {
		return
	}
	ended := l.run[len(l.run)-1]
	for _, o := range w.nodes {
		// A manager that stands back itself, or has just begun to wait, may miss its turn.
		if o != n && o.ready[l.index] < ended-w.set.latency && o.grantedAt[l.index] < ended-4*w.set.core.BackTime {
			// Another manager may be late once or twice, or take the message for that of another
			// release, but not three times in a row.
			if rec.first++; rec.first < 3 {
				return
			}
			w.violated("others first", "%s: %s again after a run of %d, and %s has been waiting since %v", n.label, c, run, o.label,
				o.ready[l.index])
		}
	}
}

// turnOf notes that a manager has acquired the lock, even if nobody there wants it any more. So the
// others have stood back for long enough.
func (w *world) turnOf(n *node, l *lockName) {
	for _, o := range w.nodes {
		if o != n {
			o.record[l.index].stoodBack, o.record[l.index].lastRun, o.record[l.index].first = false, 0, 0
		}
	}
}

// learn notes what a reply says of other subscribers.
func (n *node) learn(rec *record, name int, r *core.Reply, a answer) {
	if r.Op.Verb != core.VerbTransfer || !n.w.set.core.TrustSubscribers || a.Subscribers < 0 {
		return
	}
	others := a.Subscribers
	if n.pubsub.wants(n.w.names[name]) {
		others-- // one is this manager; it counts itself even before the server does
	}
	switch {
	case others <= 0:
		rec.knows, rec.known, rec.run = false, 0, 0
		rec.alone = true
	case !rec.knows:
		rec.knows, rec.known = true, 0
	}
}

// checkWork checks that an event causes at most one script for a name.
func (n *node) checkWork(ev core.Event, scripts int) {
	most := 1
	switch ev := ev.(type) {
	case core.Tick, core.Close:
		most = len(n.w.names)
	case core.Verify:
		most = 1 + len(n.w.named(ev.Name).sets)
	case *heard:
		for range n.beside(ev) {
			most++
		}
	case *core.Replies:
		most = len(ev.Replies)
		if slices.ContainsFunc(ev.Replies, func(r core.Reply) bool { return r.Ran != core.Yes }) {
			most = len(n.w.names) // waits end elsewhere, too
		}
	}
	// With named owners, a request that fails may end a wait for another name, for instance in a
	// deadlock.
	if scripts > most*n.w.single[0].rules.entries() && n.w.set.explicit == 0 && n.w.set.adopt == 0 {
		n.w.violated("bounded work", "%s: %d scripts at once after %T", n.label, scripts, ev)
	}
}

// checkDeadlock checks that a request which fails with a deadlock was the youngest in a real
// circle.
func (w *world) checkDeadlock(n *node, c *call, e *core.DeadlockError) {
	if len(e.Cycle) == 0 {
		w.violated("deadlock", "%s: no cycle", n.label)
	}
	if len(e.Cycle) == 1 && n.readsItself(c) {
		return
	}
	if len(e.Cycle) == 1 && n.meetsItself(c) {
		w.cover.Sets.OwnMeetings++
		return
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
			return o.req.ID == edge.Request && o.req.Owner() == edge.Owner && o.req.Name == edge.Name
		})
		holds := slices.ContainsFunc(n.held, func(h *hold) bool {
			r := h.core.Request
			return r.Owner() == edge.Holder && slices.ContainsFunc(n.waiting, func(o *call) bool {
				return o.req.ID == edge.Request && n.mayWaitFor(o, h)
			})
		})
		if !waits || !holds {
			w.violated("deadlock", "%s: not so: %v", n.label, e)
		}
	}
}

// checkOwners checks that no owner waits for a lock that it holds, and that no circle of owners
// lasts.
func (n *node) checkOwners() {
	for _, h := range n.held {
		for _, c := range n.waiting {
			if h.name == c.name && !c.name.meets(c, h) || h.name != c.name && !n.waitsFor(c, h) || h.core.Request.Owner() != c.req.Owner() || h.core.Until <= n.clock(n.w.now) || n.upgrading(c) {
				continue
			}
			if h.name == c.name {
				n.w.violated("re-entry", "%s: %s waits for %s", n.label, c, h)
			} else if c.req.Explicit {
				n.w.violated("deadlock", "%s: %s waits for %s of its own owner", n.label, c, h)
			}
		}
	}
	if len(n.held) < 2 || len(n.waiting) < 2 {
		return
	}
	// Holds are few: follow the edges as often as there are holds. Owners of anonymous holds count,
	// because later requests may name them.
	for _, first := range n.held {
		start := first.core.Request.Owner()
		reached := map[uint64]bool{start: true}
		for range n.held {
			for _, c := range n.waiting {
				if !c.req.Explicit || !reached[c.req.Owner()] || n.upgrading(c) {
					continue
				}
				for _, h := range n.held {
					if h.inCore == 0 || !n.waitsFor(c, h) {
						continue
					}
					if h.core.Request.Owner() == start && c.req.Owner() != start {
						n.w.violated("deadlock", "%s: owner %d waits for %s in a circle", n.label, c.req.Owner(), h)
					}
					reached[h.core.Request.Owner()] = true
				}
			}
		}
	}
}

// waitsFor reports whether a call must wait until a hold has ended: one of its name or of a set
// that it meets, or one for which an earlier call for its name must wait. A call re-enters as soon
// as an earlier one of its owner for the same side is granted. One that only tries waits for none.
func (n *node) waitsFor(c *call, h *hold) bool {
	switch {
	case c.req.Once:
		return false
	case h.name != c.name && !c.name.meets(c, h):
		// One that shares waits with the one for the side alone before it, also for a set.
		return !c.name.isSet() && h.name.isSet() && h.name.place(c.name) >= 0 && n.behindAlone(c)
	case h.name != c.name:
		return true
	}
	return h.name.rules.waitsFor(c, h)
}

// mayWaitFor is waitsFor, also if a writer elsewhere may wait for the hold, and comes before the call.
func (n *node) mayWaitFor(c *call, h *hold) bool {
	return n.waitsFor(c, h) || slices.ContainsFunc(c.name.bases(), func(l *lockName) bool { return l.kind == core.ReadWrite && h.name.place(l) >= 0 })
}

// behindAlone reports whether a call waits behind one for the side alone. One that re-enters as
// soon as an earlier call is granted does not count.
func (n *node) behindAlone(c *call) bool {
	behind := false
	for _, o := range n.waiting {
		if o.name != c.name || o.req.ID >= c.req.ID || o.req.Once {
			continue
		}
		if o.req.Owner() == c.req.Owner() && o.req.Side == c.req.Side {
			return false
		}
		behind = behind || o.req.Side == core.Alone && !n.upgrading(o)
	}
	return behind
}

// checkReason checks that a request does not fail because of the bad token counter or the short
// lease of another.
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

// watchRecord notes since when a lock, or each name of a set, has had no record.
func (w *world) watchRecord(l *lockName) {
	if !w.set.calm {
		return
	}
	if l.isSet() {
		w.watchParts(l)
		return
	}
	switch {
	case !l.rules.free(w.holders(l)):
		l.freeSince = never
	case l.freeSince == never:
		l.freeSince = w.now
	}
}

// checkCalm checks that, where nothing goes wrong, waiters take a free lock soon, and a record that
// nobody wants is removed soon.
func (w *world) checkCalm() {
	slack := w.slack()
	if w.live() {
		w.after(slack/2, w.checkCalm)
	}
	w.readClock()
	for _, l := range w.names {
		if !w.calmAt(l) {
			continue
		}
		w.watchRecord(l)
		if l.kind == core.Permits {
			w.checkFree(l)
		}
		if w.now < max(l.reservedUntil, l.keptUntil)+slack {
			l.heldAt, l.leakSince, l.longSince = w.now, never, never
		} else {
			w.checkLife(l)
		}
		waits, good := false, false
		wanted := len(l.holds) > 0 || w.gathered(l)
		for _, n := range slices.Concat(w.nodes, w.gone) {
			if n.believes(l) {
				n.believed[l.index] = w.now
			}
			for _, c := range n.waiting {
				waits = waits || c.name == l && max(c.since, n.believed[l.index]) < w.now-slack && !c.hopeless
				// A set or several permits may take long.
				good = good || c.name == l && c.since < w.now-4*slack && !c.hopeless && !l.isSet() && l.kind != core.Permits
			}
			wanted = wanted || len(n.flight[l.index]) > 0 && !n.dead
		}
		if len(l.sets) > 0 && l.freeSince == never {
			l.heldAt = w.now // a set may have gathered it
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
		if wanted || l.freeSince != never || l.isSet() {
			l.leakSince = never
		} else if l.leakSince == never {
			l.leakSince = w.now
		} else if l.leakSince < w.now-slack {
			w.violated("nothing left", "%s has a record that nobody has wanted since %v", l.key, l.leakSince)
		}
	}
}

// live reports whether a manager still has something to do.
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

// checkEnd checks that at the end every call has had its answer and nothing is left.
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
	for _, l := range w.single {
		for _, h := range w.holders(l) {
			if !w.orphan(l, h) {
				w.violated("nothing left", "%s: %v", l.key, h)
			}
		}
		w.checkPlacesLeft(l)
		for _, n := range slices.Concat(w.nodes, w.gone) {
			if w.server.Subscribed(n.pubsub.at(n.pubsub.channels[l.index]), n.pubsub.channels[l.index].line.id) {
				w.violated("nothing left", "%s: subscribed to %s", n.label, l.key)
			}
		}
	}
}

// orphan reports whether a record may be left at the end because its manager could not remove it.
func (w *world) orphan(l *lockName, h holder) bool {
	field := h.name
	for _, n := range slices.Concat(w.nodes, w.gone) {
		if n.carries(field) && (l.isStray(n, h) || w.persisted && (l.stray != nil && l.stray.n == n && n.made(l, field) || l.strays[field] > 0)) {
			return true // once it has lost its TTL, it ends a lease after the next try of somebody else
		}
	}
	for _, n := range w.gone {
		if n.carries(field) && (n.dead || n.aborted || !w.calmAt(l)) {
			return true
		}
	}
	for _, n := range w.nodes {
		if n.carries(field) && w.persisted && n.m.Stats().Unreleased > 0 {
			return true // the manager gave up when the lease ended; the record had no TTL
		}
	}
	return field[0] == 'f' || strings.HasSuffix(field, ":kept") || w.now < l.backUntil // of the foreign client; left by a release
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
	for _, ch := range n.pubsub.channels {
		if len(ch.listeners) > 0 {
			w.violated("nothing left", "%s: subscribed to %s", n.label, n.pubsub.at(ch))
		}
	}
	for _, f := range n.flight {
		if len(f) > 0 {
			w.violated("nothing left", "%s: commands %v in flight", n.label, f)
		}
	}
	if n.closing != n.closed {
		w.violated("close", "%s: closing, but not Closed", n.label)
	}
}

// believes reports whether a manager takes one of its holds of a lock for valid, even if the record
// is lost: its waiters wait until it knows.
func (n *node) believes(l *lockName) bool {
	return slices.ContainsFunc(n.held, func(h *hold) bool { return h.name.shares(l) })
}

// readsItself reports whether a request for a lock alone is of an owner that shares it.
func (n *node) readsItself(c *call) bool {
	return c.req.Side == core.Alone && slices.ContainsFunc(n.held, func(h *hold) bool {
		return h.name == c.name && h.core.Request.Owner() == c.req.Owner() && h.core.Request.Side == core.Shared
	})
}

// upgrading reports whether a call upgrades a hold of its owner. It fails if others share the name,
// and does not wait for them.
func (n *node) upgrading(c *call) bool {
	return slices.ContainsFunc(n.held, func(h *hold) bool {
		return h.core.Request.Owner() == c.req.Owner() && c.upgrades(h)
	})
}

// upgrades reports whether a request tries to make the hold of its owner, which others may share,
// one that nobody shares.
func (c *call) upgrades(h *hold) bool {
	return h.name == c.name && c.req.Once && c.req.Side == core.Alone && h.sideOf() == core.Shared
}
