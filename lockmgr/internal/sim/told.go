package sim

import (
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// health is what a manager has heard from a shard. Times are true ones.
type health struct {
	// lastGood is when it last heard the answer to a script that ran, or a final failure.
	lastGood time.Duration
	// silentFrom is when the first command that has failed since then was sent, or never.
	silentFrom time.Duration
	watched    bool // checkTold is planned
}

// lag returns how late a manager may end its requests: its clock runs at a speed of its own, it
// looks into its mailbox late, and it looks for requests that must end once in RetryTime/64.
func (w *world) lag() time.Duration {
	return 20*w.set.latency + 20*ms + (w.set.core.RetryTime+2*w.set.timeout)/50 + w.set.core.RetryTime/64
}

// waitsAt notes that the core knows that an operation about a name waits at a shard, or came from
// there.
func (n *node) waitsAt(l *lockName, shard int) {
	if n.heardOf[l.index] != shard {
		n.heardOf[l.index], n.heardSince[l.index] = shard, n.w.now
	}
}

// heardServer notes, when the core gets an answer about a name, whether the shard can serve it.
func (n *node) heardServer(name int, a *answer) {
	h, now := &n.health[a.shard], n.w.now
	n.waitsAt(n.w.names[name], a.shard)
	if a.Ran == core.Yes || a.Final {
		h.lastGood, h.silentFrom = now, never
		return
	}
	if h.silentFrom == never {
		h.silentFrom = max(a.sentAt, h.lastGood)
	}
	if !h.watched {
		h.watched = true
		n.checkTold(a.shard)
	}
}

// checkTold checks that no request waits for too long while no command to a shard succeeds. It is
// called again until a command succeeds.
func (n *node) checkTold(shard int) {
	h, w := &n.health[shard], n.w
	if n.dead || n.closed || h.silentFrom == never {
		h.watched = false
		return
	}
	bound := max(w.set.core.RetryTime, w.set.timeout) + w.set.timeout + w.lag()
	from := max(h.silentFrom, n.pausedUntil)
	for _, c := range n.waiting {
		if n.heardOf[c.name.index] != shard {
			continue
		}
		if since := max(from, c.since, n.heardSince[c.name.index]); w.now-since > bound {
			w.violated("told in time", "%s waits since %v, the server has been silent since %v, and nobody was told in %v", c, c.since,
				h.silentFrom, bound)
		}
	}
	if len(n.waiting) > 0 {
		w.cover.WaitedInSilence++
	}
	w.after(bound/8, func() { n.checkTold(shard) })
}

// lastGood returns when the shard that a name is on, or was on, last answered. Without a name, or
// if the name has moved, it is when any did.
func (n *node) lastGood(l *lockName) time.Duration {
	if l != nil && !l.moved {
		return n.health[l.shard.index].lastGood
	}
	last := time.Duration(0)
	for i := range n.health {
		last = max(last, n.health[i].lastGood)
	}
	return last
}

// checkOnce checks that a request for one try ends within the time-out of one command. The time
// counts from the server's last answer.
func (c *call) checkOnce() {
	n, w := c.n, c.n.w
	if c.state != pending || n.dead {
		return
	}
	bound := w.set.timeout + w.lag() + 2*w.set.core.BackTime // it may stand back
	last := n.lastGood(c.name)
	from := max(c.since, last, n.pausedUntil)
	if w.now-from >= bound {
		w.violated("told in time", "%s asks for one try, and has waited since %v (the server last spoke at %v)", c, c.since, last)
	}
	w.queue.Put(max(from+bound, w.now+w.set.latency), c.checkOnce)
}

// checkClosing checks that Close does not wait for a silent server for too long.
func (n *node) checkClosing(asked time.Duration) {
	w := n.w
	if n.closed || n.dead || n.aborted {
		return
	}
	// A pause before the next try may have begun before.
	bound := w.set.core.RetryTime + w.set.timeout + w.lag() + min(2*time.Second, w.set.core.Lease/8)
	last := n.lastGood(nil)
	from := max(asked, last, n.pausedUntil)
	if w.now-from >= bound {
		w.violated("told in time", "%s was closed at %v, the server last spoke at %v, and no Closed has come", n.label, asked, last)
	}
	w.queue.Put(max(from+bound, w.now+w.set.latency), func() { n.checkClosing(asked) })
}

// checkRenewed checks that a watched hold ends at its deadline only if a command for its own lock
// has failed.
func (n *node) checkRenewed(h *hold, now time.Duration) {
	w := n.w
	if h.limit != never || h.fixed || h.refused || h.core.Request.Tag.(*call).hopeless || n.closing || now < h.core.Until || w.set.faults&(Pause|Slow) != 0 {
		return
	}
	if (w.silent(h.name.shard) || w.set.faults&SlowCommand != 0) && n.inFlight(h.name) != 0 {
		return // a re-entry shortly before the end of a fixed lease made it a watched one
	}
	if w.set.told && n.inFlight(h.name) != 0 {
		return // the lease of a grant by message may be over before its first renewal has failed
	}
	if since := h.until - w.set.core.Lease; n.trouble[h.name.index] < since {
		w.violated("trouble stays where it is", "%s: %s has run out, and no command for it has failed since %v", n.label, h, since)
	}
}
