package sim

import (
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// foreigner acts as a client of another library: it takes a free lock for a while, and publishes a
// message when it releases it.
func (w *world) foreigner() {
	if w.ending {
		return
	}
	w.after(w.load.Between(0, 20*w.set.think), w.foreigner)
	l := w.single[w.load.Below(len(w.single))]
	w.readClock()
	lease := w.load.Between(50*ms, w.set.core.Lease)
	number := w.cover.Foreign
	owner := wire.HolderID(foreigners, number)
	rules := w.foreignKind(l)
	side, ok := rules.foreign(w, l, lease.Truncate(ms), number)
	if !ok {
		return
	}
	w.cover.Foreign++
	if w.tracing() {
		w.tracef("F", "foreign client holds %s for %v", l.key, lease)
	}
	w.foreignHold(l, owner, side, lease, func() { rules.leave(w, l, number) })
}

// foreigners is the first part of the holder IDs of clients of another library.
const foreigners = "foreign"

// foreignTakes runs an acquire of a client of another library, and reports whether it got the lock.
func (w *world) foreignTakes(op core.Op) bool {
	op.Verb = core.VerbAcquire
	r := w.server.Reply(foreigners, &op)
	return r.Ran == core.Yes && r.OK
}

// foreignLeaves runs its release.
func (w *world) foreignLeaves(op core.Op) {
	op.Verb = core.VerbRelease
	w.server.Reply(foreigners, &op)
}

// foreignHold notes a hold of a client of another library, and plans its end.
func (w *world) foreignHold(l *lockName, owner string, side core.Side, lease time.Duration, leave func()) {
	until := time.Duration(0)
	for _, h := range w.holders(l) {
		if h.name == owner {
			until = h.until
		}
	}
	h := &hold{name: l, epoch: l.epoch, until: until, using: 1, foreign: true, side: side}
	w.checkExclusion(h)
	l.holds = append(l.holds, h)
	w.watchRecord(l)
	w.after(min(lease, w.load.LogBetween(ms, lease*2)), func() {
		h.using, h.over = 0, true
		h.forgetIfOver()
		w.readClock()
		leave()
		w.watchRecord(l)
	})
}
