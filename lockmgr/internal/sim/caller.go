package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A call is one LockAsync and its lock, as the caller sees them.
type call struct {
	n         *node
	name      *lockName
	req       *core.Request
	state     callState
	cancelled bool // the caller has left
	hold      *hold
	depth     int // how many re-entries deep
	// On the manager's clock: the last instant for which the lease of a granted call and its
	// extensions need the record, and, of what was confirmed, up to when the call was told that its
	// hold lasts.
	ends, extended, promised time.Duration
	hopeless                 bool    // its lease may be over before an answer comes
	tokens                   []int64 // those of the items of a set
	permits                  uint16  // how many it wants
	seen                     int     // the position of its Lock event among those of the manager
	since                    time.Duration
}

type callState uint8

const (
	posted    callState = iota // in the mailbox
	pending                    // the core has it
	granted                    // the caller holds the lock
	unlocking                  // the caller has called Unlock
	done
)

// adopt may give a request the owner of a present or former anonymous hold.
func (n *node) adopt(r *core.Request) {
	w := n.w
	if !w.load.Percent(w.set.adopt) {
		return
	}
	if len(n.held) > 0 && w.load.Percent(70) {
		if h := n.held[w.load.Below(len(n.held))]; !h.core.Request.Explicit {
			n.adopted = append(n.adopted, h.core.Request.Owner())
		}
	}
	if len(n.adopted) > 0 {
		last := n.adopted[max(0, len(n.adopted)-4):]
		r.As(last[w.load.Below(len(last))])
		w.cover.Adopted++
	}
}

// think makes requests of the manager's callers, again and again.
func (n *node) think() {
	w := n.w
	if w.ending || n.dead || n.closed {
		return
	}
	gap := 2 * w.set.think
	if s := w.shards[0]; !w.sharded() && w.silent(s) {
		gap = max(gap, (s.silentUntil-w.now)/8)
	}
	w.after(w.load.Between(0, gap), n.think)
	if len(n.waiting) >= 10 || n.pausedUntil > w.now {
		return
	}
	name := w.load.Below(len(w.names))
	for i := range max(1, w.set.together) {
		n.lock(w.names[(name+i)%len(w.names)], nil)
	}
}

// lock makes a request: a fresh one, or a re-entry of an owner that holds.
func (n *node) lock(l *lockName, again *call) {
	w := n.w
	r := &core.Request{Name: l.key, Kind: l.kind, ID: n.newID(), Asked: n.clock(w.now), Ends: core.Forever}
	c := &call{n: n, name: l, req: r}
	r.Tag = c
	switch {
	case again != nil:
		r.As(again.req.Owner())
		c.depth = again.depth + 1
	case w.load.Percent(w.set.explicit):
		r.As(n.owners[w.load.Below(len(n.owners))])
	case w.set.adopt > 0:
		n.adopt(r)
	}
	r.Fenced = w.load.Percent(w.set.fenced)
	l.rules.ask(w, r)
	if w.load.Percent(w.set.fixed) {
		r.Lease = w.load.Between(max(50*ms, w.set.core.Lease/2, 3*w.set.timeout), 2*w.set.core.Lease).Truncate(ms)
		if w.load.Percent(w.set.long) {
			r.Lease = w.load.Between(2*w.set.core.Lease, longest*w.set.core.Lease).Truncate(ms)
		}
	}
	if w.load.Percent(w.set.hopeless) {
		r.Lease = w.load.Between(2*w.set.core.Margin, 2*w.set.core.Margin+w.set.latency).Truncate(ms)
		c.hopeless = true
		w.cover.Hopeless++
	}
	if w.set.keeps > 0 && w.load.Percent(w.set.keeps) {
		if r.Terms == nil {
			r.Terms = new(core.Terms)
		}
		r.Terms.KeepFor = w.load.LogBetween(ms, 2*w.set.core.Lease).Truncate(ms)
	}
	cancelIn := never
	if w.load.Percent(w.set.impatient) {
		switch w.load.Below(3) {
		case 0:
			r.Once = true
		case 1:
			r.Ends = n.clock(w.now) + w.load.LogBetween(ms/10, 40*w.set.think)
		default:
			cancelIn = w.load.LogBetween(1, 40*w.set.think)
		}
	}
	w.calls = append(w.calls, c)
	switch {
	case l.isSet():
		n.post(core.LockSet{Request: r, Items: l.items()})
	case l.kind == core.Permits:
		c.permits = w.wantPermits()
		n.post(core.LockPermits{Request: r, Permits: c.permits, Limit: int64(l.limit)})
	default:
		n.post(core.Lock{Request: r})
	}
	if cancelIn != never {
		w.after(cancelIn, c.cancel)
	}
}

// cancel withdraws a request. The shell does not pass that on if the request has already ended.
func (c *call) cancel() {
	if c.state <= pending && !c.n.dead {
		c.cancelled = true
		c.n.post(core.Cancel{Request: c.req})
	}
}

// unlock gives the lock back.
func (c *call) unlock() {
	if c.state != granted || c.n.dead {
		return
	}
	c.giveBack()
	c.n.post(core.Unlock{Request: c.req})
}

func (c *call) giveBack() {
	c.state = unlocking
	c.hold.using--
	c.hold.answers++
	for _, l := range c.name.bases() {
		l.heldAt = c.n.w.now
	}
	if c.hold.using == 0 {
		c.hold.forgetIfOver()
	}
}

// planHold decides what a caller does with a lock that it was granted.
func (c *call) planHold() {
	w, n := c.n.w, c.n
	d := w.load.LogBetween(1, 4*w.set.hold)
	if w.load.Percent(15) {
		d = 0
	}
	if w.ending {
		d = w.load.Between(0, w.set.latency)
	}
	w.after(d, c.unlock)
	if w.ending {
		return
	}
	if c.req.Explicit && c.depth < 3 && w.load.Percent(30) {
		w.after(w.load.Between(0, d+d/8+1), func() {
			if !n.dead && !n.closed && !w.ending {
				n.lock(c.name, c)
			}
		})
	}
	if w.load.Percent(3) {
		w.after(w.load.Between(0, d), func() { n.verify(c.name) })
	}
	if w.load.Percent(w.set.extends) {
		w.after(w.load.Between(0, d), c.extend)
	}
}

// extend keeps the lock for longer.
func (c *call) extend() {
	w, n := c.n.w, c.n
	if c.state != granted || n.dead || n.closed {
		return
	}
	lease := w.load.Between(w.set.core.Lease/2, w.set.maxLease()).Truncate(ms)
	asked := n.clock(w.now)
	n.post(&core.Prolongation{Request: c.req, Lease: lease, Tag: &extension{c, asked + lease - lease/100 - w.set.core.Margin, lease}})
}

// extends notes what a call has asked for when its manager handles that, which may be late.
func (x *extension) extends(now time.Duration) {
	if h := x.c.hold; slices.Contains(h.calls, x.c) {
		x.c.extended = max(x.c.extended, now+x.lease)
		h.limit = h.needed(true)
	}
}

// An extension is what a call has asked for: its hold is to last until promised.
type extension struct {
	c        *call
	promised time.Duration
	lease    time.Duration
}

func (n *node) prolonged(p *core.Prolongation, err error) {
	n.w.cover.Extensions++
	x := p.Tag.(*extension)
	if err == nil && x.c.state == granted {
		x.c.promised = max(x.c.promised, x.promised)
	}
}

func (n *node) granted(c *call) {
	w := n.w
	if c.state != pending {
		w.violated("one answer", "%s: granted %s, which is %d", n.label, c, c.state)
	}
	r := c.req
	n.noLongerWaiting(c)
	c.state = granted
	if c.name.isSet() {
		w.cover.Sets.Grants++
	}
	if w.sharded() {
		w.noteBeside(c.name)
	}
	for _, l := range c.name.bases() {
		l.leakSince = never // checkCalm might never see a hold, if it looks between two each time
	}
	if r.Hold.Request == r {
		n.grantedByMessage(c)
		c.hold = &hold{n: n, name: c.name, core: r.Hold, token: r.Hold.Token, epoch: n.record[c.name.index].epoch, ofParts: n.record[c.name.index].ofParts, until: n.trueTime(r.Hold.Until), using: 1, inCore: 1}
		for _, h := range n.held {
			if h.name == c.name && h.core.Request.Owner() == r.Owner() { // it has the other side, on the same record
				c.hopeless = c.hopeless || h.core.Request.Tag.(*call).hopeless
			}
		}
		c.hold.fixed = r.Lease > 0
		c.hold.noteTainted()
		c.hold.begin(c)
		n.checkHolder(c.hold)
		n.checkPassed(c)
		for _, l := range c.name.bases() {
			l.heldAt = w.now
		}
		n.grantedLate(c.name)
		n.held = append(n.held, c.hold)
		c.hold.list()
		w.checkGrant(c)
	} else {
		h := r.Hold.Request.Tag.(*call).hold
		if h == nil || h.over || h.lost || h.inCore == 0 {
			w.violated("re-entry", "%s: %s enters a hold that is over", n.label, c)
		}
		if first := r.Hold.Request; h.core != r.Hold || h.token != r.Hold.Token || first.Owner() != r.Owner() || first.Name != r.Name || r.Fenced && r.Hold.Token == 0 {
			w.violated("re-entry", "%s: %s enters %s with token %d", n.label, c, h, r.Hold.Token)
		}
		c.hold = h
		h.begin(c)
		h.using++
		h.inCore++
		if h.using == 1 { // all earlier calls of the hold were unlocked meanwhile
			w.checkExclusion(h)
			if !slices.Contains(c.name.holds, h) {
				h.list()
			}
		}
		n.w.cover.Reentries++
	}
	if now := n.clock(w.now); r.Hold.Until <= now {
		w.violated("lost in time", "%s: %s granted when it was over, at %v of %v", n.label, c, now, r.Hold.Until)
	}
	if c.cancelled {
		// The caller has left.
		w.cover.GrantedToNobody++
		c.giveBack()
		n.urgent = append(n.urgent, core.Untaken{Request: r})
		return
	}
	w.reserve(c)
	c.planHold()
}

func (n *node) failed(c *call, err error) {
	w := n.w
	if c.state != pending {
		w.violated("one answer", "%s: failed %s, which is %d", n.label, c, c.state)
	}
	if err == nil {
		w.violated("one answer", "%s: failed %s without an error", n.label, c)
	}
	var dead *core.DeadlockError
	if errors.As(err, &dead) {
		w.checkDeadlock(n, c, dead)
	}
	w.checkReason(c, err)
	w.checkShard(c, err)
	n.noLongerWaiting(c)
	c.state = done
	n.chain[c.name.index] = 0 // each request that fails may cause a script
	switch {
	case errors.Is(err, core.ErrDeadlock):
		w.cover.Ends[endDeadlock]++
	case errors.Is(err, core.ErrWaitTimeout):
		w.cover.Ends[endTimeout]++
		if r := c.req; r.Ends > n.clock(w.now) {
			w.violated("one answer", "%s: %s timed out before its time", n.label, c)
		}
	case errors.Is(err, core.ErrNotAcquired):
		w.cover.Ends[endOnce]++
	case errors.Is(err, core.ErrClosed):
		w.cover.Ends[endClosed]++
	case errors.Is(err, core.ErrOverloaded):
		w.cover.Ends[endOverloaded]++
	case errors.Is(err, core.ErrNotFenced):
		w.cover.Ends[endNotFenced]++
	case c.cancelled:
		w.cover.Ends[endCancelled]++
	default:
		w.cover.Ends[endError]++
		if w.calmAt(c.name) && !c.hopeless {
			w.violated("one answer", "%s: %s failed in a calm world: %v", n.label, c, err)
		}
	}
}

func (n *node) unlocked(c *call, err error) {
	w := n.w
	if c.state != unlocking {
		w.violated("one answer", "%s: answered an Unlock of %s, which is %d", n.label, c, c.state)
	}
	c.state = done
	h := c.hold
	h.answers--
	if loss := errors.Is(err, core.ErrLeaseLost) || errors.Is(err, core.ErrClosed); loss != h.lost {
		w.violated("a loss is told", "%s: %s was lost: %t, and its Unlock says %v", n.label, h, h.lost, err)
	}
	if err == nil && c.name.isSet() && n.gives[c.name.index].partly {
		w.violated("one answer", "%s: a name of %s was lost, but its Unlock succeeded", n.label, h)
	}
	if err != nil && w.calmAt(c.name) && !h.lost && !h.excused() {
		w.violated("one answer", "%s: Unlock of %s failed in a calm world: %v", n.label, c, err)
	}
}

// afterStep does the bookkeeping for an event after its effects.
func (n *node) afterStep(ev core.Event, out []core.Effect) {
	w := n.w
	switch ev := ev.(type) {
	case core.Verify:
		n.checkVerified(w.named(ev.Name))
	case core.Unlock:
		n.afterUnlock(ev.Request.Tag.(*call))
	case core.Untaken:
		n.afterUnlock(ev.Request.Tag.(*call))
	}
	for _, h := range n.held {
		h.checkLimit()
		if h.refused {
			w.violated("a refusal is a loss", "%s: %s goes on", n.label, h)
		}
	}
	scripts := 0
	for _, e := range out {
		switch e.(type) {
		case core.Run:
			scripts++
		}
	}
	if scripts > 1 {
		n.checkWork(ev, scripts)
	}
	if w.set.explicit > 0 || w.set.adopt > 0 {
		n.checkOwners()
	}
}

func (n *node) afterUnlock(c *call) {
	c.hold.inCore--
	c.hold.end(c)
	if c.hold.inCore == 0 && !c.hold.over {
		n.drop(c.hold)
	}
}

func (n *node) noLongerWaiting(c *call) {
	i := slices.Index(n.waiting, c)
	n.waiting = slices.Delete(n.waiting, i, i+1)
	n.readiness(c.name)
}

// readiness notes since when the manager has been both waiting for a lock and subscribed to its
// channel, so that other managers can know that it waits.
func (n *node) readiness(l *lockName) {
	if n.w.opt.Kind == core.Several || n.w.opt.Kind == core.Fair {
		return // one connection serves several waits; who is next is not checked
	}
	ready := &n.ready[l.index]
	is := n.w.server.Subscribed(l.channel, n.pubsub.channels[l.index].line.id) && slices.ContainsFunc(n.waiting, func(c *call) bool {
		return c.name == l && !c.req.Once
	})
	switch {
	case !is:
		*ready = never
	case *ready == never:
		*ready = n.w.now
	}
}

func (c *call) String() string {
	r := c.req
	s := fmt.Sprintf("%s#%d %s", c.n.label, r.ID, r.Name)
	if r.Explicit {
		s += fmt.Sprintf(" as %d", r.Owner())
	}
	if r.Fenced {
		s += " fenced"
	}
	if r.Once {
		s += " once"
	}
	if r.Lease > 0 {
		s += fmt.Sprintf(" for %v", r.Lease)
	}
	return s
}
