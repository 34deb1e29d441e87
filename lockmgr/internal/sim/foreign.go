package sim

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// foreigner acts as a client of another library: it takes a free lock for a while,
// and publishes a message when it releases it.
func (w *world) foreigner() {
	if w.ending {
		return
	}
	w.after(w.load.Between(0, 20*w.set.think), w.foreigner)
	l := w.single[w.load.Below(len(w.single))]
	w.readClock()
	lease := w.load.Between(50*ms, w.set.core.Lease)
	owner := fmt.Sprintf("foreign:%d", w.cover.Foreign)
	rules := w.foreignKind(l)
	side, ok := rules.foreign(w, l, int64(lease/ms), owner)
	if !ok {
		return
	}
	w.cover.Foreign++
	if w.tracing() {
		w.tracef("F", "foreign client holds %s for %v", l.key, lease)
	}
	w.foreignHold(l, owner, side, lease, func() { rules.leave(&w.server, l, owner) })
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
