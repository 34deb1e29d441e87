package sim

import "fmt"

// foreigner is another library's client: it takes the lock if there is none,
// for a while, and says so when it gives it back.
func (w *world) foreigner() {
	if w.ending {
		return
	}
	w.after(w.load.Between(0, 20*w.set.think), w.foreigner)
	l := w.names[w.load.Below(len(w.names))]
	w.readClock()
	lease := w.load.Between(50*ms, w.set.core.Lease)
	owner := fmt.Sprintf("foreign:%d", w.cover.Foreign)
	a, err := w.server.Acquire(l.key, l.counter, int64(lease/ms), 0, owner)
	if err != nil || !a.OK {
		return
	}
	w.cover.Foreign++
	if w.tracing() {
		w.tracef("F", "foreign client holds %s for %v", l.key, lease)
	}
	_, until := w.server.Fields(l.key)
	h := &hold{name: l, epoch: l.epoch, until: until, using: 1, foreign: true}
	w.checkExclusion(h)
	l.holds = append(l.holds, h)
	w.watchRecord(l)
	w.after(min(lease, w.load.LogBetween(ms, lease*2)), func() {
		h.using, h.over = 0, true
		h.forgetIfOver()
		w.readClock()
		_, _ = w.server.Release(l.key, l.channel, owner)
		w.watchRecord(l)
	})
}
