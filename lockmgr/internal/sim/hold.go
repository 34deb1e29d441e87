package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A hold is a lock that one or more calls of one owner have been granted.
type hold struct {
	n     *node
	name  *lockName
	core  *core.Hold
	token int64 // when it began
	epoch int   // that of the record on which it rests
	// ofParts are the epochs of the records of a set, by item.
	ofParts partEpochs
	// until is the true time at which the manager's clock shows the deadline that the callers have
	// been told.
	until time.Duration
	// using counts the calls that have not called Unlock, inCore those whose Unlock the core has
	// not seen.
	using, inCore int
	answers       int // calls whose Unlock is to be answered
	lost          bool
	unsure        bool // a reply has told the core that an entry of the name is gone
	refused       bool // a reply has told the core that the record is gone
	over          bool // ended for the core, or its process died
	// limit is the instant, on the manager's clock, at which the longest lease asked for ends;
	// Forever for a watched one.
	limit   time.Duration
	keeps   time.Duration // the instant, on the manager's clock, up to which its calls have reserved the name
	calls   []*call       // those that the core has not seen unlocked
	taken   bool          // an administrator gave its permits back
	fixed   bool          // its first request had a fixed lease
	foreign bool          // it belongs to a client of another library, and has a side
	side    core.Side
}

// validAt reports whether a caller may rely on the hold at a true time.
func (h *hold) validAt(t time.Duration) bool {
	return h.using > 0 && !h.lost && !h.taken && !(h.over && h.n != nil && h.n.dead) && t < h.until
}

func (h *hold) String() string {
	if h.foreign {
		return fmt.Sprintf("foreign hold of %s until %v", h.name.key, h.until)
	}
	return fmt.Sprintf("hold %s#%d of %s (owner %d, field %d, until %v, epoch %d)", h.n.label, h.core.Request.ID, h.name.key, h.core.Request.Owner(),
		h.core.Number, h.until, h.epoch)
}

// excused reports whether a hold may end badly in a calm world: an administrator removed its
// record, or its lease is shorter than a round trip.
func (h *hold) excused() bool {
	return h.taken || h.epoch != h.name.epoch || h.core.Request.Tag.(*call).hopeless
}

func (n *node) extended(h *hold) {
	w := n.w
	if h == nil || h.over || h.lost {
		w.violated("extended", "%s: a hold that is over: %v", n.label, h)
	}
	until := n.trueTime(h.core.Until)
	if until < h.until {
		w.cover.Shortened++
		h.checkShorter()
	}
	h.until = until
	h.epoch, h.ofParts = n.record[h.name.index].epoch, n.record[h.name.index].ofParts
	w.checkRecord(h)
	w.checkExclusion(h)
}

// begin notes that a call was granted a hold, and end that it is over.
func (h *hold) begin(c *call) {
	if c.ends = h.n.limit(c.req); h.limit == never {
		c.ends = never // a re-entry does not shorten a watched hold
	}
	if c.req.Terms != nil {
		h.keeps = max(h.keeps, h.n.clock(h.n.w.now)+c.req.Terms.KeepFor)
	}
	h.calls = append(h.calls, c)
	h.limit = h.needed(true)
}

func (h *hold) end(c *call) {
	h.calls = slices.DeleteFunc(h.calls, func(o *call) bool { return o == c })
	h.limit = h.needed(true)
}

// needed returns the last instant, on the manager's clock, for which the calls of a hold need the
// hold, or its record. That of a watched one is Forever, and its record is renewed for
// Config.Lease. What KeepFor reserves is of the record only, and stays when the call has unlocked.
func (h *hold) needed(hold bool) (until time.Duration) {
	for _, c := range h.calls {
		ends := c.ends
		if ends == never && !hold {
			ends = h.n.clock(h.n.w.now) + h.n.w.set.core.Lease
		}
		until = max(until, ends, c.extended)
	}
	if !hold {
		until = max(until, h.keeps)
	}
	return until
}

// checkShorter checks that the deadline of a hold moves back only as far as its calls need it. A
// watched one is good for Config.Lease from now on.
func (h *hold) checkShorter() {
	c, now := &h.n.w.set.core, h.n.clock(h.n.w.now)
	for _, o := range h.calls {
		if o.state != granted {
			continue
		}
		least := now + c.Lease - c.Lease/100 - c.Margin
		if o.ends != never {
			least = o.ends - o.req.Lease/100 - c.Margin
		}
		if least = max(least, o.promised); h.core.Until < least && least > now {
			h.n.w.violated("extended", "%s: %s moved back, to %v of its clock, and %s needs it until %v", h.n.label, h, h.core.Until, o, least)
		}
	}
}

// checkLife checks, in a calm world, that a record does not live for much longer than those need it
// who hold it now. A manager may take a while to shorten its life.
func (w *world) checkLife(l *lockName) {
	longer := false
	for _, n := range w.nodes {
		needed, some := time.Duration(0), false
		for _, h := range n.held {
			if h.name == l {
				needed, some = max(needed, n.trueTime(h.needed(false))), true
			}
		}
		for _, o := range n.of(l, w.holders(l)) {
			longer = longer || some && o.until > max(needed, w.now+w.set.core.Lease)+w.set.core.Lease*2/5 && len(n.flight[l.index]) == 0
		}
	}
	switch slack := w.slack() + 16*w.set.core.RecordEvery; {
	case !longer || l.isSet() || l.kind == core.Permits || len(l.sets) > 0:
		l.longSince = never
	case l.longSince == never:
		l.longSince = w.now
	case l.longSince < w.now-slack:
		w.violated("no longer than needed", "since %v the record of %s lives for longer than those need it who hold it: %v", l.longSince, l.key, w.holders(l))
	}
}

func (n *node) lost(h *hold, err error) {
	if h == nil || h.lost || h.over && h.answers == 0 {
		n.w.violated("lost once", "%s: %v", n.label, h)
	}
	if h.over { // its Unlock has found the loss
		if n.w.calmAt(h.name) && !n.closing && !h.excused() {
			n.w.violated("one answer", "%s: the Unlock of %s failed in a calm world: %v", n.label, h, err)
		}
		h.lost = true
		return
	}
	now := n.clock(n.w.now)
	// A lease counts from the send, and 1 % and the margin are subtracted.
	c := &n.w.set.core
	h.calls = slices.DeleteFunc(h.calls, func(o *call) bool { return o.state != granted }) // what this unlock has ended
	h.limit = h.needed(true)
	if soon := h.limit - n.w.set.timeout - n.w.set.maxLease()/100 - c.Margin; n.w.calmAt(h.name) && soon > now && !n.closing && !h.excused() {
		n.w.violated("lost too soon", "%s: %s in a calm world, and the lease lasts until %v of its clock, which shows %v", n.label, h, h.limit, now)
	}
	if h.core.Until > now && !h.refused && !h.unsure && !n.closing {
		n.w.violated("lost too soon", "%s: %s, and no script said so (%v)", n.label, h, err)
	}
	n.checkRenewed(h, now)
	h.lost = true
	h.notKept()
	n.drop(h)
}

// limit returns the instant on the manager's clock up to which a request's lease can last if it is
// granted now.
func (n *node) limit(r *core.Request) time.Duration {
	if r.Lease == 0 {
		return never
	}
	return n.clock(n.w.now) + r.Lease
}

// checkLimit checks that a hold does not outlast the leases that were asked for.
func (h *hold) checkLimit() {
	if h.core.Until > h.limit {
		h.n.w.violated("until the lease ends", "%s until %v of its clock, which is past %v", h, h.core.Until, h.limit)
	}
}

// drop forgets a hold that is over for the core.
func (n *node) drop(h *hold) {
	h.over = true
	if i := slices.Index(n.held, h); i >= 0 {
		n.held = slices.Delete(n.held, i, i+1)
	}
	h.forgetIfOver()
}

// list adds a hold to the lists of the names that it is of.
func (h *hold) list() {
	if h.name.isSet() {
		h.name.holds = append(h.name.holds, h)
	}
	for _, l := range h.name.bases() {
		l.holds = append(l.holds, h)
	}
}

// forgetIfOver removes a hold that can't be valid again from the lists of its names.
func (h *hold) forgetIfOver() {
	if !h.over && !h.lost {
		return
	}
	h.name.unlist(h)
	for _, l := range h.name.bases() {
		l.unlist(h)
	}
}

func (l *lockName) unlist(h *hold) {
	if i := slices.Index(l.holds, h); i >= 0 {
		l.holds = slices.Delete(l.holds, i, i+1)
	}
}
