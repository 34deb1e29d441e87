package clientsim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/luaserver"
)

// A trouble is a fault of one name, or of all. Errors that name it are true between from and to.
type trouble struct {
	kind kinds
	host *host  // nil: all
	name string // empty: all
	span
}

// planStrike plans the i-th disaster.
func (w *world) planStrike(i int) {
	r := w.rng(2000, i)
	set := w.set.kinds & disasters
	if set == 0 {
		return
	}
	kind := pick(r, set)
	at := time.Duration(r.Int64N(int64(w.set.life)))
	lasts := logBetween(r, 20*ms, w.set.silent)
	switch kind {
	case noPerm, badCounter, foreign, full:
		lasts = logBetween(r, 20*ms, 2*w.set.lease)
	case slowLog:
		lasts = logBetween(r, sec, w.set.life) // little is logged
	case late:
		// Long enough for the client to give the connection up.
		lasts = w.set.keepAlive + w.set.writeTimeout + logBetween(r, 100*ms, 20*sec)
		if r.IntN(4) == 0 {
			lasts = logBetween(r, ms, 20*sec)
		}
	}
	if w.set.kinds&closing != 0 && r.IntN(2) == 0 { // while it lasts
		m := w.machines[r.IntN(len(w.machines))]
		if then := at + logBetween(r, ms, lasts+ms); then < w.set.life {
			w.at(then, func() { m.restart(100 * ms) })
		}
	}
	w.after(at, func() { w.strike(r, kind, min(lasts, w.set.life+30*sec-at)) }) // last: it uses r, perhaps at once
}

// strike makes something go wrong for a time.
func (w *world) strike(r *rand.Rand, kind kinds, lasts time.Duration) {
	w.mu.Lock()
	h := w.hosts[r.IntN(len(w.hosts))]
	name := w.names[r.IntN(len(w.names))]
	now := time.Now()
	if kind == kill {
		w.mu.Unlock()
		w.machines[r.IntN(len(w.machines))].die(r)
		return
	}
	defer w.mu.Unlock()
	keys, counter := w.keysOf(name), w.keysOf(counterOf(name)).Get(counterOf(name))
	switch { // it would do nothing, or not what it is for
	case w.over,
		kind&(badKey|badCounter) != 0 && w.moving[slotOf(name)] != nil,
		kind == late && len(h.conns) == 0,
		kind&(badKey|foreign) != 0 && (w.kindOf(name) != plain || keys.Get(name) != nil),
		kind == foreign && w.set.kinds&clustered != 0,
		kind == flush && w.set.replicas > 0, // see failOver
		kind == badCounter && (w.kindOf(name) == permits || counter != nil && counter.Kind != luaserver.Text):
		return
	}
	w.seen[kind.String()]++
	w.tracef("FAULT %v: host %d, %q, for %v", kind, h.index, name, lasts)
	ends := func(end func()) {
		w.afterwards(lasts, func() {
			w.tracef("fault ends: %v of host %d, %q", kind, h.index, name)
			end()
		})
	}
	switch kind {
	case late:
		c := h.conns[r.IntN(len(h.conns))]
		w.tracef("%s holds what it carries to the server", c)
		c.up.hold = later(c.up.hold, now.Add(lasts))
		h.excuse(min(lasts, w.set.keepAlive+w.set.writeTimeout))
	case stall:
		w.note(cutOff, h, "", lasts)
		h.stall(now.Add(lasts))
		h.excuse(lasts)
	case cut:
		w.cutAll(h, r.IntN(2) == 0)
		h.excuse(0)
	case partition:
		w.note(cutOff, h, "", lasts)
		h.stall(now.Add(lasts))
		h.blackh++
		h.fallSilent()
		h.excuse(lasts)
		ends(func() {
			h.blackh--
			h.speak()
			h.open()
		})
	case refuse:
		h.down++
		h.fallSilent()
		h.excuse(lasts)
		w.cutAll(h, r.IntN(2) == 0)
		ends(func() {
			h.down--
			h.speak()
		})
	case stop:
		if i := r.IntN(2 * len(w.servers)); i < len(w.servers) && len(w.servers) > 1 {
			w.stopOne(w.servers[i], lasts)
		} else {
			w.stopServers(lasts)
		}
	case restart:
		for _, s := range w.servers {
			clear(s.known)
		}
		for _, h := range w.hosts {
			w.cutAll(h, false)
			h.excuse(0)
		}
	case flush:
		for _, name := range w.names {
			if w.kindOf(name) != permits { // nobody would set the limit again
				w.forget(name)
			}
		}
	case fail:
		if r.IntN(3) == 0 {
			w.cutReplica(r, lasts)
		} else {
			w.failOver(r)
		}
	case move:
		w.moveSlot(r, name, lasts)
	case noPerm:
		h.refused[name]++
		w.trouble(kind, h, name, lasts)
		ends(func() { h.refused[name]-- })
	case full:
		w.note(noMemory, nil, "", lasts)
		w.trouble(kind, nil, "", lasts)
		w.fill(1)
		ends(func() { w.fill(-1) })
	case badKey, foreign:
		if kind == badKey {
			keys.Values[name] = &value{Kind: luaserver.Text, Text: "no lock"}
		} else {
			keys.setHash(name, time.Minute, "mode", "read", "another:1", "1")
		}
		put := keys.Values[name]
		w.trouble(kind, nil, name, lasts)
		ends(func() {
			srv := w.serverOf(name) // its slot may have moved, with a copy of the value
			if now := srv.keys.Values[name]; now == put || now != nil && now.Equal(put) {
				srv.plain([]string{"DEL", name}) // without a message
				srv.replicate(nil)               // else a failover brings the value back
			}
		})
	case badCounter:
		key := counterOf(name)
		mark := lasts.String()
		keys.Values[key] = &value{Kind: luaserver.List, List: []string{mark}}
		w.trouble(kind, nil, name, lasts)
		ends(func() {
			keys := w.keysOf(key) // its slot may have moved
			if now := keys.Values[key]; now == nil || now.Kind != luaserver.List || now.List[0] != mark {
				return // lost, brought back by a failover, or broken once more
			}
			if delete(keys.Values, key); counter != nil {
				keys.Values[key] = counter
			}
		})
	case slowLog, slowObserver:
		nap := &h.nap[0]
		if kind == slowObserver {
			nap = &h.nap[1]
		}
		nap.Store(r.Int64N(int64(3 * sec)))
		w.tracef("host %d takes %v for a call", h.index, time.Duration(nap.Load()))
		ends(func() { nap.Store(0) })
	}
}

// fill changes by how many faults the servers are full. w.mu is held.
func (w *world) fill(by int) {
	for _, s := range w.servers {
		s.filled += by
		s.memory.Full = s.filled > 0
	}
}

// stopServers stops all servers for a time. w.mu is held.
func (w *world) stopServers(lasts time.Duration) {
	w.tracef("the servers stop for %v", lasts)
	w.note(frozen, nil, "", lasts)
	w.halted++
	for _, s := range w.servers {
		s.stop()
	}
	for _, h := range w.hosts {
		h.fallSilent()
		h.excuse(lasts)
	}
	w.afterwards(lasts, func() {
		w.halted--
		for _, h := range w.hosts {
			h.speak()
		}
		for _, s := range w.servers {
			s.resume()
		}
	})
}

// stopOne stops one of the masters of a cluster for a time. w.mu is held.
func (w *world) stopOne(s *server, lasts time.Duration) {
	w.tracef("server %d stops for %v", s.index, lasts)
	w.seen["one stops"]++
	s.stop()
	for _, name := range w.names {
		if w.ownerOf(slotOf(name)) == s {
			w.note(frozen, nil, name, lasts)
		}
	}
	for _, h := range w.hosts {
		h.excuse(lasts)
		h.excuses[len(h.excuses)-1].of = s
	}
	w.afterwards(lasts, s.resume)
}

func (w *world) cutAll(h *host, arrives bool) {
	w.note(cutOff, h, "", 0)
	for _, c := range h.conns {
		c.cut(arrives)
	}
}

// trouble notes a fault of one name. w.mu is held.
func (w *world) trouble(kind kinds, h *host, name string, lasts time.Duration) {
	now := time.Now()
	w.troubles = append(w.troubles, trouble{kind, h, name, span{now, now.Add(lasts)}})
}

// troubled reports whether a name had a fault of some kinds in a span, or so shortly before it that
// its effects remain. w.mu is held.
func (w *world) troubled(set kinds, h *host, name string, in span) bool {
	return slices.ContainsFunc(w.troubles, func(t trouble) bool {
		return t.kind&set != 0 && (t.name == "" || t.name == name) && (t.host == nil || h == nil || t.host == h) && t.overlaps(in)
	})
}

func (s span) overlaps(o span) bool { return !s.from.After(o.to) && !s.to.Before(o.from) }

// excuse notes that a host is disturbed from now on for a time, and for as long as it may then take
// to recover. w.mu is held.
func (h *host) excuse(lasts time.Duration) {
	now := time.Now()
	h.excuses = append(h.excuses, excuse{span: span{now, now.Add(lasts + h.w.recovery)}})
}

// An excuse is a time in which a host is disturbed: for what one server has, or, if that is nil,
// for all.
type excuse struct {
	span
	of *server
}

// disturbed reports whether a host was disturbed in a span. w.mu is held.
func (h *host) disturbed(in span) bool {
	return slices.ContainsFunc(h.excuses, func(e excuse) bool { return e.overlaps(in) })
}

// disturbed reports whether the host of a request was disturbed in a span, for a name that it is
// about. w.mu is held.
func (q *request) disturbed(in span) bool {
	w, is := q.m.w, false
	q.parts(func(name string, _ feature) {
		is = is || slices.ContainsFunc(q.host.excuses, func(e excuse) bool {
			return e.overlaps(in) && (e.of == nil || e.of == w.ownerOf(slotOf(name)) || w.movedSince(name, e.from))
		})
	})
	return is
}

// troubledSince reports whether a name had a fault of its own between an instant and now. w.mu is
// held.
func (w *world) troubledSince(name string, at time.Time) bool {
	return w.troubled(ofNames, nil, name, span{at, time.Now()})
}

// A met is a trouble that requests can meet: at a host or at all, and of a name or of all.
type met struct {
	feature
	host *host
	name string
	span
}

// note notes a trouble for the table of features. w.mu is held.
func (w *world) note(f feature, h *host, name string, lasts time.Duration) {
	now := time.Now()
	w.mets = append(w.mets, met{f, h, name, span{now, now.Add(lasts)}})
}

// onTheWay is how long commands that were under way when a process died may still run.
func (w *world) onTheWay() time.Duration { return w.set.timeout + 6*w.slowest() }

// disturbedSince reports whether a host was disturbed between an instant and now. w.mu is held.
func (h *host) disturbedSince(at time.Time) bool {
	return h.disturbed(span{at, time.Now()})
}

// stall holds what the connections of a host carry.
func (h *host) stall(until time.Time) {
	for _, c := range h.conns {
		c.up.hold, c.down.hold = later(c.up.hold, until), later(c.down.hold, until)
	}
}

// open lets dials through, unless a partition lasts.
func (h *host) open() {
	if h.blackh == 0 && h.opened != nil {
		close(h.opened)
		h.opened = nil
	}
}

func (h *host) fallSilent() {
	if h.silent++; h.silent == 1 {
		h.silentFrom = time.Now()
	}
}

func (h *host) speak() {
	if h.silent--; h.silent == 0 {
		h.silentFrom = time.Time{}
	}
}

// block returns when a handler of a host may go on.
func (h *host) block(which int) {
	if d := h.nap[which].Load(); d > 0 {
		h.w.pause(time.Duration(d))
	}
}

func counterOf(name string) string { return fmt.Sprintf("redisson_lock_token:{%s}", name) }

func sooner(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
