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
		b.w.mu.Lock()
		now := time.Now()
		for name, p := range b.names {
			for _, h := range p.holds {
				b.watchHold(h, now)
			}
			b.watchRequests(p, now)
			b.promise7b(name, p, now)
			b.promise11b(name, p, now)
			b.promise14a(name, p, now)
		}
		b.promise14b()
		b.promise7a(now)
		b.promise8b(now)
		b.w.mu.Unlock()
	}
}

func (b *book) watchHold(h *hold, now time.Time) {
	if h.over {
		return
	}
	b.promise3a(h)
	b.promise6a(h)
	b.promise12b(h)
	valid, told := h.lock.Valid(), isClosed(h.lock.Lost())
	switch {
	case valid:
		b.promise2a(h, now)
	case told && !h.lost:
		h.lost = true
		h.met.add(lost)
		b.w.tracef("%v has lost %q: %v", h, h.name, h.lock.Err())
		b.promise3b(h, now)
	}
}

// mayLose reports whether anything explains a loss. Before the deadline, neither the network nor a
// lease does.
func (b *book) mayLose(h *hold, now time.Time) bool {
	w := b.w
	in := span{now.Add(-w.set.lease - sec), now}
	troubled := false
	h.parts(func(name string, _ feature) {
		troubled = troubled || w.troubled(noPerm|badKey, h.host, name, in) || w.serverOf(name).tooFew(in)
	})
	if h.exempt || b.managers[h.mgr].closing || troubled ||
		w.set.acks > 0 && w.set.lease < h.leastLease() ||
		w.set.acks > 0 && h.m.shared != nil { // the other manager may keep the only connection of the pool
		return true
	}
	early := now.Before(h.deadline)
	return !early && (h.lease > 0 || h.bound > 0 || (h.owner != nil || h.kind == reader) && w.set.kinds&(fixed|long|hopeless|bounded) != 0 || h.host.disturbed(in))
}

func (b *book) watchRequests(p *pages, now time.Time) {
	for _, q := range p.requests {
		b.promise9a(q, now)
		b.promise14c(p, q, now)
		b.promise14e(p, q, now)
	}
}

// promise14c: nobody starves: nobody waits while others are granted the name many times.
func (b *book) promise14c(p *pages, q *request, now time.Time) {
	w := b.w
	if q.kind != plain || q.host.disturbed(span{q.issued, now}) || w.set.kinds&(far|closing|kill) != 0 && q.m.index != 0 {
		return
	}
	b.look("promise14c", q)
	since := later(p.without(q), p.keptMost) // while the name is kept, nobody is served
	if now.Sub(since) < 10*sec+40*w.slowest() || w.troubled(ofNames, nil, q.name, span{q.issued, now}) || q.hopeless() {
		return
	}
	if n := b.grantsSince(p, q); n > 100 {
		w.fail("promise14c", "%v waits for %q for %v, while others got it %d times", q, q.name, now.Sub(q.issued), n)
	}
}

// without returns since when the manager of a request waits for a name and has not held it.
func (p *pages) without(q *request) time.Time {
	if slices.ContainsFunc(p.holds, func(h *hold) bool { return h.mgr == q.mgr }) {
		return time.Now()
	}
	return later(later(q.issued, p.of(q.mgr).granted), p.of(q.mgr).ended)
}

// grantsSince counts the grants of other managers since the last one of a request's own.
func (b *book) grantsSince(p *pages, q *request) int {
	n := 0
	for id, s := range p.shares {
		if id != q.mgr {
			n += s.grants
		}
	}
	return n - p.before(q, n)
}

// before remembers how many there were when a request was first looked at, or when its manager was
// last granted the name.
func (p *pages) before(q *request, n int) int {
	if q.base == 0 || q.baseAt.Before(p.of(q.mgr).granted) {
		q.base, q.baseAt = n+1, time.Now()
	}
	return q.base - 1
}

// promise14d: nobody waits for ever. It is called when somebody does.
func (b *book) promise14d(format string, args ...any) { b.w.fail("promise14d", format, args...) }

// collected reports whether the lock of a request may be in the request's future, and may be over:
// of an All the observer may tell late. A request of an Any may have been refused without a word.
func (b *book) collected(q *request) bool {
	return q.observed || q.joined && b.w.set.kinds&(slowObserver|scarce) != 0
}

// promise14e: a manager which waits for others is subscribed after a while.
func (b *book) promise14e(p *pages, q *request, now time.Time) {
	w := b.w
	limit := 10*sec + 40*w.slowest()
	since := p.without(q)
	if q.kind != plain {
		return
	}
	b.look("promise14e", q)
	if q.host.mute || b.collected(q) || now.Sub(since) < limit || q.host.disturbed(span{now.Add(-limit), now}) || w.set.kinds&shared != 0 ||
		w.crowded.After(now) || w.troubled(ofNames&^foreign, nil, q.name, span{now.Add(-limit), now}) || b.managers[q.mgr].closing {
		return
	}
	fields := w.keysOf(q.name).names(q.name)
	ours := slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, q.mgr+":") })
	if len(fields) > 0 && !ours && !w.listens(q.host, q.name) {
		w.fail("promise14e", "%v waits for %q for %v, and its host is not subscribed", q, q.name, now.Sub(q.issued))
	}
}

// promise14a: a free lock is granted soon to somebody who waits.
func (b *book) promise14a(name string, p *pages, now time.Time) {
	w := b.w
	limit := 3*sec + 12*w.slowest() + 2*w.set.timeout + 4*w.set.ackTime
	if w.kindOf(name) == fair {
		limit += 10 * sec // the places of a process that has died, and those of others
	}
	for _, e := range b.managers {
		if !e.killed.IsZero() && now.Sub(e.killed) < 10*sec {
			limit += 2 * sec // its turn
		}
	}
	waiting := slices.ContainsFunc(p.requests, func(q *request) bool {
		b.look("promise14a", q)
		return q.kind != set && !b.collected(q) && !q.disturbed(span{now.Add(-limit), now}) && !q.hopeless() && q.host.latency < w.set.timeout/5 && !b.managers[q.mgr].closing
	})
	held := slices.ContainsFunc(p.holds, func(h *hold) bool { return h.lock.Valid() })
	state := "free"
	if !waiting || held || w.keysOf(name).Get(name) != nil || w.crowded.After(now) ||
		w.troubled(ofNames&^foreign, nil, name, span{now.Add(-limit), now}) {
		state = ""
	}
	if d := b.lasts("promise14a", name, state, now); d > limit {
		w.fail("promise14a", "%q is free for %v, and %d wait for it, %v first", name, d, len(p.requests), p.requests[0])
	}
}

// promise14b: within a manager, requests are granted in order. It looks at a later instant: within
// one instant callers may get their results in any order.
func (b *book) promise14b() {
	for _, d := range b.doubts {
		b.look("promise14b", d.second)
		if d.first.told.IsZero() || d.first.granted && d.first.told.After(d.at) {
			b.w.fail("promise14b", "%v has got %q before %v, which had come %v before", d.second, d.second.name, d.first, d.second.issued.Sub(d.first.issued))
		}
	}
	b.doubts = b.doubts[:0]
}

// wanted reports whether a caller of a manager has a name. One that waits for it does not want a
// record that is never granted to it.
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
