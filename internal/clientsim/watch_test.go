package clientsim

import (
	"slices"
	"strings"
	"time"
)

// often is the time between two checks.
const often = 200 * ms

// watch checks what must hold at every instant, until the world ends.
func (b *book) watch() {
	for b.w.pause(often + 137*time.Nanosecond) {
		b.mu.Lock()
		now := time.Now()
		for name, p := range b.names {
			for _, h := range p.holds {
				b.watchHold(h, now)
			}
			b.watchRequests(p, now)
			b.watchFree(name, p, now)
		}
		b.settleDoubts()
		b.watchRecords(now)
		b.mu.Unlock()
	}
}

func (b *book) watchHold(h *hold, now time.Time) {
	if h.over {
		return
	}
	b.recorded(h)
	valid, told := h.lock.Valid(), isClosed(h.lock.Lost())
	switch {
	case valid && told && h.lock.Valid():
		b.w.fail("lost in time", "#%d of machine %d has %q, and its Lost is closed", h.seq, h.m.index, h.name)
	case !valid && !told:
		if h.late++; h.late > 2 {
			b.w.fail("lost in time", "#%d of machine %d has not been told for %v that it has lost %q", h.seq, h.m.index, 2*often, h.name)
		}
	case valid && !h.heard.IsZero() && now.Sub(h.heard) > b.w.set.timeout+12*b.w.slowest()+2*often && !b.w.disturbedSince(h.m.host, h.heard):
		b.w.fail("who hears of a loss looks", "#%d of machine %d was lost to a forced unlock %v ago, its manager was subscribed, and it is valid for "+
			"another %v", h.seq, h.m.index, now.Sub(h.heard), h.lock.Remaining())
	case told && !h.lost:
		h.lost = true
		b.w.tracef("machine %d: #%d has lost %q: %v", h.m.index, h.seq, h.name, h.lock.Err())
		if !b.mayLose(h, now) {
			b.w.fail("lost for a reason", "#%d of machine %d has lost %q: %v", h.seq, h.m.index, h.name, h.lock.Err())
		}
	}
}

// mayLose reports whether anything explains a loss.
func (b *book) mayLose(h *hold, now time.Time) bool {
	w := b.w
	w.mu.Lock()
	defer w.mu.Unlock()
	in := span{now.Add(-w.set.lease - sec), now}
	return h.exempt || h.lease > 0 || h.owner != nil && w.set.kinds&(fixed|long|hopeless) != 0 || b.managers[h.mgr].closing ||
		h.m.host.disturbed(in) || w.troubled(noPerm|badKey, h.m.host, h.name, in)
}

func (b *book) watchRequests(p *pages, now time.Time) {
	w := b.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range p.requests {
		b.watchSilence(p, q, now)
		b.watchSubscribed(p, q, now)
		if q.m.host.disturbed(span{q.issued, now}) || w.set.kinds&(far|closing) != 0 && q.m.index != 0 {
			continue
		}
		// Nobody starves: not while others are granted the name many times.
		since := p.without(q)
		if now.Sub(since) < 10*sec+40*w.slowest() || w.troubled(noPerm|badKey|badCounter|foreign, nil, q.name, span{q.issued, now}) || q.hopeless() {
			continue
		}
		if n := b.grantsSince(p, q); n > 100 {
			w.fail("nobody starves", "#%d of machine %d waits for %q for %v, while others got it %d times", q.seq, q.m.index, q.name, now.Sub(q.issued), n)
		}
	}
}

// without returns since when the manager of a request waits for a name and has
// not held it.
func (p *pages) without(q *request) time.Time {
	if slices.ContainsFunc(p.holds, func(h *hold) bool { return h.mgr == q.mgr }) {
		return time.Now()
	}
	return later(later(q.issued, p.last[q.mgr]), p.ended[q.mgr])
}

// grantsSince counts the grants of other managers since the last one of a
// request's own.
func (b *book) grantsSince(p *pages, q *request) int {
	n := 0
	for id, c := range p.counts {
		if id != q.mgr {
			n += c
		}
	}
	return n - p.before(q, n)
}

// before remembers how many there were when a request was first looked at, or
// when its manager was last granted the name.
func (p *pages) before(q *request, n int) int {
	if q.base == 0 || q.baseAt.Before(p.last[q.mgr]) {
		q.base, q.baseAt = n+1, time.Now()
	}
	return q.base - 1
}

// watchSilence checks that those who wait for a silent server are told.
func (b *book) watchSilence(p *pages, q *request, now time.Time) {
	w, host := b.w, q.m.host
	if host.silent == 0 || b.managers[q.mgr].closing {
		return
	}
	// A request behind a holder of the same manager may still get its lock.
	if slices.ContainsFunc(p.holds, func(h *hold) bool { return h.mgr == q.mgr && !h.over && h.lock.Valid() }) {
		p.held[q.mgr] = now
		return
	}
	// A command waits for a dial without regard to its time-out.
	limit := w.set.retry + w.set.timeout + dialTimeout + 6*w.slowest() + 300*ms + often
	if w.cheat == hasty {
		limit /= 4
	}
	if !q.alone || q.issued.Before(host.silentFrom) {
		// It may wait for a message or a poll: the silence has to be noticed.
		limit += w.set.keepAlive + w.set.writeTimeout + sec + w.set.timeout
	}
	since := later(later(q.issued, host.silentFrom), p.held[q.mgr])
	if now.Sub(since) > limit {
		w.fail("told in time", "#%d of machine %d waits for %q for %v, the server is silent for %v, the limit is %v; %d wait for the name", q.seq,
			q.m.index, q.name, now.Sub(q.issued), now.Sub(host.silentFrom), limit, len(p.requests))
	}
}

// watchSubscribed checks that a manager which waits for others is subscribed
// after a while.
func (b *book) watchSubscribed(p *pages, q *request, now time.Time) {
	w := b.w
	limit := 10*sec + 40*w.slowest()
	since := p.without(q)
	if q.m.host.mute || now.Sub(since) < limit || q.m.host.disturbed(span{now.Add(-limit), now}) || w.set.kinds&shared != 0 ||
		w.crowded.After(now) || w.troubled(noPerm|badKey|badCounter, nil, q.name, span{now.Add(-limit), now}) || b.managers[q.mgr].closing {
		return
	}
	if w.server.keys.get(q.name) != nil && !w.recorded(q.name, q.mgr) && !w.listens(q.m.host, q.name) {
		w.fail("who waits is subscribed", "#%d of machine %d waits for %q for %v, and its host is not subscribed", q.seq, q.m.index, q.name, now.Sub(q.issued))
	}
}

// watchFree checks that a free lock finds its next holder.
func (b *book) watchFree(name string, p *pages, now time.Time) {
	w := b.w
	w.mu.Lock()
	defer w.mu.Unlock()
	limit := 3*sec + 12*w.slowest() + 2*w.set.timeout
	waiting := slices.ContainsFunc(p.requests, func(q *request) bool {
		return !q.m.host.disturbed(span{now.Add(-limit), now}) && !q.hopeless() && q.m.host.latency < w.set.timeout/5 && !b.managers[q.mgr].closing
	})
	held := slices.ContainsFunc(p.holds, func(h *hold) bool { return h.lock.Valid() })
	if !waiting || held || w.server.keys.get(name) != nil || w.crowded.After(now) ||
		w.troubled(noPerm|badKey|badCounter, nil, name, span{now.Add(-limit), now}) {
		p.free = time.Time{}
		return
	}
	if p.free.IsZero() {
		p.free = now
	}
	if now.Sub(p.free) > limit {
		w.fail("a free lock is taken", "%q is free for %v, and %d wait for it, #%d of machine %d first", name, now.Sub(p.free), len(p.requests),
			p.requests[0].seq, p.requests[0].m.index)
	}
}

// settleDoubts checks the order of waiters, at a later instant: within one
// instant callers may get their results in any order.
func (b *book) settleDoubts() {
	for _, d := range b.doubts {
		if d.first.told.IsZero() || d.first.granted && d.first.told.After(d.at) {
			b.w.fail("first come first served", "#%d of machine %d has got %q before #%d, which had come %v before", d.second.seq, d.second.m.index,
				d.second.name, d.first.seq, d.second.issued.Sub(d.first.issued))
		}
	}
	b.doubts = b.doubts[:0]
}

// watchRecords checks that no record without an owner outlives a lease.
func (b *book) watchRecords(now time.Time) {
	w := b.w
	w.mu.Lock()
	defer w.mu.Unlock()
	limit := w.set.lease + w.set.lease/8 + 2*w.set.timeout + sec
	for key := range b.records {
		if w.server.keys.get(key) == nil {
			delete(b.records, key)
		}
	}
	for key := range w.server.keys {
		v := w.server.keys.get(key)
		if v == nil || v.kind != hashKind {
			delete(b.records, key)
			continue
		}
		field := v.fields[len(v.fields)-1]
		id, _, _ := strings.Cut(field, ":")
		e := b.managers[id]
		if e == nil || e.excused || b.wanted(key, id) || e.m.host.disturbed(span{now.Add(-often), now}) ||
			w.troubled(noPerm, e.m.host, key, span{now.Add(-w.recovery), now}) {
			delete(b.records, key)
			continue
		}
		s := b.records[key]
		if s == nil || s.field != field {
			b.records[key] = &sighting{field, now}
			continue
		}
		if now.Sub(s.since) > limit {
			w.fail("no orphans", "nobody wants %q, and its record %q is there for %v and lives for another %v", key, v.fields, now.Sub(s.since),
				w.server.keys.life(key))
		}
	}
}

// wanted reports whether a caller of a manager has a name. One that waits for
// it does not want a record that is never granted to it.
func (b *book) wanted(name, id string) bool {
	p := b.names[name]
	return p != nil && slices.ContainsFunc(p.holds, func(h *hold) bool { return h.mgr == id })
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
