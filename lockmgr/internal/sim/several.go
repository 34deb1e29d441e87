package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/luaserver"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/sim/agenda"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

var _ = register(core.Several, several{})

// several is the lock on several names at once. A set of names is a lockName without a record of
// its own: it has parts, and each part has the record. So most of what a kind knows is asked of the
// parts, each of which has a kind of its own.
type several struct{ kind }

func (several) entries() int                           { return 1 }
func (several) spared() Faults                         { return 0 }
func (several) never(string) bool                      { return false }
func (several) ask(*world, *core.Request)              {}
func (several) waitsFor(*call, *hold) bool             { return true }
func (several) beside(_, _ core.Side) bool             { return false }
func (several) run(c *command) (answer, error)         { return c.exec() }
func (several) holders(*world, *lockName) (_ []holder) { return nil }

// draw chooses how many sets there are, and of which names.
func (several) draw(s *settings, r *agenda.Rand) {
	s.names = max(2, s.names) + r.Below(2)
	s.sets = 1 + r.Below(5)
	s.whole = 10 + r.Below(80)
	if s.explicit == 0 && r.Percent(40) {
		s.explicit = 20 + r.Below(60) // owners of single names and of sets
	}
	if s.foreign && r.Percent(50) {
		s.others = r.Below(60)
	}
	mixed, all := r.Percent(40), r.Percent(50)
	for range s.names {
		s.readWrite = append(s.readWrite, mixed && r.Percent(50) || !mixed && all)
	}
	s.core.GatherTime = min(r.LogBetween(4*s.latency, time.Second), s.core.Lease)
}

// A part is a name of a set, and the side on which the set wants it.
type part struct {
	name *lockName
	side core.Side
}

// addSets makes the sets of a world: each has two or more of the names.
func (w *world) addSets() {
	if w.opt.Kind != core.Several {
		return
	}
	w.madeFor = map[string]*lockName{}
	for i := range w.set.sets {
		s := w.addName("s"+strconv.Itoa(i), core.Several)
		many, left := 2+w.load.Below(len(w.single)-1), len(w.single)
		for _, l := range w.single {
			if w.load.Below(left) < many-len(s.parts) {
				s.addPart(l, w.load.Percent(w.set.readers))
			}
			left--
		}
	}
	if w.tracing() {
		for _, s := range w.names[len(w.single):] {
			w.tracef("*", "set %s: %v", s.key, s.items())
		}
	}
}

// addPart adds a name to a set. The side is that of a reader if the name has readers.
func (l *lockName) addPart(of *lockName, reads bool) {
	p := part{of, core.Alone}
	if reads && of.kind == core.ReadWrite {
		p.side = core.Shared
	}
	l.parts = append(l.parts, p)
	of.sets = append(of.sets, l)
}

func (l *lockName) isSet() bool { return len(l.parts) > 0 }

// bases returns the single names of a set, or the name itself if it is one.
func (l *lockName) bases() []*lockName {
	if !l.isSet() {
		return l.alone[:]
	}
	out := make([]*lockName, len(l.parts))
	for i := range l.parts {
		out[i] = l.parts[i].name
	}
	return out
}

// place returns the position of a single name among those of a set or of the name itself, or -1.
func (l *lockName) place(of *lockName) int {
	if l == of {
		return 0
	}
	return slices.IndexFunc(l.parts, func(p part) bool { return p.name == of })
}

// shares reports whether two locks have a name in common.
func (l *lockName) shares(o *lockName) bool {
	for _, of := range o.bases() {
		if l.place(of) >= 0 {
			return true
		}
	}
	return false
}

// items returns the items of a set as the core has them.
func (l *lockName) items() (items []core.Item) {
	for _, p := range l.parts {
		items = append(items, core.Item{Name: p.name.key, Kind: p.name.kind, Side: p.side})
	}
	return items
}

// meets reports whether a call for the lock and a hold of the same name, or of another one with a
// name in common, keep each other out. Of the same name they are said to.
func (l *lockName) meets(c *call, h *hold) bool {
	if h.name == l {
		return true
	}
	if !l.isSet() && !h.name.isSet() {
		return false
	}
	for _, of := range l.bases() {
		if h.name.place(of) < 0 {
			continue
		}
		side := c.req.Side
		if l.isSet() {
			side = l.parts[l.place(of)].side
		}
		if side == core.Alone || h.sideOn(of) == core.Alone {
			return true
		}
	}
	return false
}

// meetsItself reports whether the owner of a call has another lock that keeps it out.
func (n *node) meetsItself(c *call) bool {
	return slices.ContainsFunc(n.held, func(h *hold) bool {
		return h.name != c.name && h.core.Request.Owner() == c.req.Owner() && n.mayWaitFor(c, h)
	})
}

// areLocks reports whether the keys of all names are free or hashes.
func (w *world) areLocks(l *lockName) bool {
	return !slices.ContainsFunc(l.bases(), func(l *lockName) bool { return w.server.Exists(l.key) && w.server.Keyspace.Fields(l.key) == nil })
}

// partEpochs are the epochs of the records and of the token counters of a set's names.
type partEpochs [][2]int

func (l *lockName) partEpochs() (out partEpochs) {
	for _, p := range l.parts {
		out = append(out, [2]int{p.name.epoch, p.name.counterEpoch})
	}
	return out
}

// epochOn returns the epoch of the record of a single name on which a hold rests.
func (h *hold) epochOn(l *lockName) int {
	if h.name.isSet() {
		return h.ofParts[h.name.place(l)][0]
	}
	return h.epoch
}

// foreignKind chooses as what kind of lock a client of another library takes a name.
func (w *world) foreignKind(l *lockName) kind {
	if w.madeFor != nil && w.load.Percent(w.set.others) {
		return kinds[core.Exclusive+core.ReadWrite-l.kind]
	}
	return l.rules
}

// kindOfRecord returns the kind of lock whose record a name has.
func (w *world) kindOfRecord(l *lockName) kind {
	fields, _ := w.server.Fields(l.key)
	if slices.ContainsFunc(fields, func(f luaserver.Field) bool { return f.Name == wire.ModeField }) {
		return kinds[core.ReadWrite]
	}
	return kinds[core.Exclusive]
}

// noteMaker notes for whom a command may make a record.
func (n *node) noteMaker(c *command) {
	if c.verb == core.VerbAcquire || c.verb == core.VerbTransfer {
		n.w.madeFor[c.owners[0]] = c.name
	}
}

// field returns the field of a hold of a set in each of its records.
func (h *hold) field() string { return h.n.owner(h.core.Number) }

// recordIn returns what a record has of a holder.
func (w *world) recordIn(l *lockName, field string) (holder, bool) {
	for _, h := range w.holders(l) {
		if h.name == field {
			return h, true
		}
	}
	return holder{}, false
}

// checkParts checks that a valid hold of a set has a record for each of its names, with its number
// and its side, which lasts at least as long.
func (w *world) checkParts(h *hold) {
	for i, p := range h.name.parts {
		if h.ofParts[i][0] != p.name.epoch {
			continue // this one was lost
		}
		w.readClock()
		rec, is := w.recordIn(p.name, h.field())
		if !is || rec.side != p.side || rec.until < h.until {
			w.violated("until the record ends", "%s, but the record of %s is %v", h, p.name.key, w.holders(p.name))
		}
		for _, o := range w.holders(p.name) {
			if o.name != rec.name && !p.name.rules.beside(o.side, p.side) {
				w.violated("until the record ends", "%s, but the record of %s is %v", h, p.name.key, w.holders(p.name))
			}
		}
	}
}

// mayReleaseParts checks that a release of a set which runs now ends no valid hold.
func (c *command) mayReleaseParts() {
	w := c.n.w
	for _, h := range c.name.holds {
		if h.n != c.n || !h.validAt(w.now) || !slices.Contains(c.owners, h.field()) {
			continue
		}
		for _, l := range c.name.bases() {
			if _, is := w.recordIn(l, h.field()); is && h.epochOn(l) == l.epoch {
				w.violated("no release of a valid hold", "%s by %v, with its record of %s", h, c.owners, l.key)
			}
		}
	}
}

// checkTokens checks that the token of each name of a set is larger than earlier ones.
func (w *world) checkTokens(c *call, rec *record) {
	if !slices.Equal(c.tokens, rec.tokens) {
		w.violated("tokens", "%s has tokens %v, but took %v", c, c.tokens, rec.tokens)
	}
	for i, p := range c.name.parts {
		p.name.checkRises(w, c, token{c.tokens[i], p.side, rec.ofTokens[i][1], rec.ofTokens[i][0]})
	}
}

// watchParts notes since when each name of a set has had no record. The set is free since all of
// them are.
func (w *world) watchParts(l *lockName) {
	l.freeSince = 0
	for _, of := range l.bases() {
		w.watchRecord(of)
		l.freeSince = max(l.freeSince, of.freeSince)
	}
}

// gathered reports whether a set that waits, or a command of it that is in flight, may have the
// record of a name, or one that waits for several permits may have some.
func (w *world) gathered(l *lockName) bool {
	for _, n := range w.nodes {
		if l.kind == core.Permits && !n.dead && slices.ContainsFunc(n.waiting, func(c *call) bool { return c.name == l }) {
			return true
		}
		for _, s := range l.sets {
			if !n.dead && (len(n.flight[s.index]) > 0 || slices.ContainsFunc(n.waiting, func(c *call) bool { return c.name == s })) {
				return true
			}
		}
	}
	return false
}

// A gathering is what the checks know of a set that keeps names while it waits.
type gathering struct {
	since time.Duration // on the manager's clock: when the first try of it was sent, or when it got its newest item
	got   int           // how many items of a set it has got
	first uint64        // the ID of that try
	on    bool
}

// checkGather checks that a set keeps nothing for longer than a time of gathering before it has
// given that back. A try without an answer may keep it, too.
func (n *node) checkGather(c *command) {
	const rule = "gathers for GatherTime at most"
	w, g, op := n.w, &n.gathers[c.name.index], c.op
	most := max(w.set.core.GatherTime, min(8*w.set.core.GatherTime, w.set.core.Lease/3)) // after some in vain
	if c.name.isSet() {
		most = w.set.core.GatherTime << 10
	}
	c.gatherMs = int64(op.Gather / ms)
	switch {
	case op.Verb != core.VerbAcquire:
		if op.Gather != 0 {
			w.violated(rule, "%s: %s #%d of %s gathers", n.label, op.Verb, op.ID, c.name.key)
		}
		if op.Verb == core.VerbRelease {
			g.on = false
		}
		return
	case op.Gather == 0:
		return
	case !g.on:
		g.on, g.since, g.first, g.got = true, op.Sent, op.ID, 0
	default:
		c.tried = true
	}
	if end := op.Sent + op.Gather; op.Gather < 0 || end > g.since+most {
		w.violated(rule, "%s: acquire #%d of %s keeps until %v what it gathers since %v", n.label, op.ID, c.name.key, end, g.since)
	}
}

// answeredSet notes the answer to a command for a set.
func (n *node) answeredSet(name int, r *core.Reply, a *answer) {
	if g := &n.gathers[name]; r.Op.Verb == core.VerbAcquire {
		if g.answered(r.ID, a); a.Ran == core.Yes && !a.Gathered && g.got == 0 {
			g.on = false // it has nothing to keep
		}
	}
	n.gives[name].answered(r.Op.Verb, a)
}

// answered notes the answer to a try. One that has got all names, or has changed nothing, keeps
// nothing.
func (g *gathering) answered(id uint64, a *answer) {
	if a.OK || id == g.first && (a.Ran == core.No || a.OtherKind) {
		g.on = false
	}
}

// checkWhole checks that a command of a set has got all names, or keeps none, or keeps what is free
// for as long as it gathers.
func (c *command) checkWhole(a *answer, err error) {
	const rule = "all or nothing"
	w, cover := c.n.w, &c.n.w.cover.Sets
	if c.verb == core.VerbRenew && err == nil && !a.OK {
		cover.lost(c)
	}
	if c.verb == core.VerbRelease && a.Partly {
		cover.PartReleases++
	}
	if a.OtherKind {
		cover.OtherKinds++
	}
	if c.verb != core.VerbAcquire {
		return
	}
	got, last := 0, time.Duration(0)
	for _, l := range c.name.bases() {
		if rec, is := w.recordIn(l, c.owners[0]); is {
			got, last = got+1, max(last, rec.until)
		}
	}
	switch {
	case err != nil:
		if got > 0 {
			w.violated(rule, "%s: the try for %v has got %d names and failed: %v", c.n.label, c.owners, got, err)
		}
	case a.OK:
		if got < len(c.name.parts) {
			w.violated(rule, "%s: the try for %v has got %d names of %d", c.n.label, c.owners, got, len(c.name.parts))
		}
		if c.gatherMs > 0 && c.tried {
			cover.GatheredGrants++
		}
	case got > 0 && (c.gatherMs == 0 || last > w.server.Now+time.Duration(c.gatherMs)*ms):
		w.violated(rule, "%s: the try for %v was refused, and has got %d names until %v", c.n.label, c.owners, got, last)
	default:
		if a.Item > 1 {
			cover.RefusedLater++
		}
		if got > 0 {
			cover.Gathers++
		}
	}
}

// A giveBack is what the checks know of the releases of a set since it was acquired.
type giveBack struct {
	unsure bool // one got no answer, so a later one may find less
	partly bool // the core is being told that the first one has found some names only
}

// answered notes the answer to a command for a set.
func (g *giveBack) answered(verb core.Verb, a *answer) {
	switch {
	case verb == core.VerbAcquire:
		*g = giveBack{}
	case verb == core.VerbRelease:
		g.partly = a.Ran == core.Yes && a.Partly && !g.unsure
		g.unsure = g.unsure || a.Ran != core.Yes
	}
}

// checkVerified checks that a manager which is to look for the record of a name looks for those of
// the sets that have it, too.
func (n *node) checkVerified(l *lockName) {
	for _, s := range l.sets {
		if n.w.set.calm && n.m.Phase(s.key) == "held" && n.inFlight(s) == 0 {
			n.w.violated("a message is looked into", "%s: holds %s, is to look for %s, and sends nothing", n.label, s.key, l.key)
		}
	}
}

// SetCoverage counts what has happened to sets.
type SetCoverage struct {
	Grants         uint64 `counts:"set granted"`
	Gathers        uint64 `counts:"set gathers"`                  // tries that were refused and kept something
	GatheredGrants uint64 `counts:"set granted after gathering"`  // tries that were granted while the set gathered
	RefusedLater   uint64 `counts:"set refused for a later item"` // tries that were refused for another name than the first one
	PartLosses     uint64 `counts:"set lost for some items"`      // renewals that were refused although a name was still there
	PartReleases   uint64 `counts:"set released in part"`         // releases that found some names only
	OtherKinds     uint64 `counts:"set refused for the kind"`     // tries that were refused because a name is of another kind
	OwnMeetings    uint64 `counts:"owner has an item"`            // requests that failed because their owner has a name of a set
}

func (c *SetCoverage) lost(of *command) {
	for _, l := range of.name.bases() {
		if _, is := of.n.w.recordIn(l, of.owners[0]); is {
			c.PartLosses++
			return
		}
	}
}
