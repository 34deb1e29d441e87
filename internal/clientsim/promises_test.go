package clientsim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/luaserver"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// look notes that an oracle looks at a request, for the table of features.
func (b *book) look(oracle string, q *request) { q.looked |= 1 << slices.Index(oracles, oracle) }

// oracles are the names of all oracles. promise6a checks a part of the sixth promise of
// docs/guarantees.md. A violation has the name of its oracle.
var oracles = []string{
	"promise1", "promise2a", "promise2b", "promise3a", "promise3b", "promise4", "promise5", "promise6a", "promise6b", "promise6c", "promise7a", "promise7b",
	"promise8a", "promise8b", "promise8c", "promise9a", "promise9b", "promise10", "promise11a", "promise11b", "promise12a", "promise12b",
	"promise13a", "promise13b", "promise14a", "promise14b", "promise14c", "promise14d", "promise14e",
}

// promise1: at most one owner is valid, or readers, or as many permits as the limit. h has just
// been granted.
func (b *book) promise1(h *hold) {
	w := b.w
	b.look("promise1", h.request)
	h.parts(func(name string, kind feature) {
		taken, most := h.n, 0
		if kind == permits {
			key := takenOf(name)
			taken += permitsOf(w.keysOf(key), name, permitPrefix(strangerID))
			since := h.issued
			if t := w.trailOf(name, h.lock.HolderID()); t == nil || t.acquires == 0 { // passed on: it had been there before
				since = sooner(since, h.told.Add(-sec-8*w.slowest()))
				if w.set.passTime > 0 || h.host.disturbed(span{since, h.told}) {
					since = w.began
				}
			}
			if _, most = b.limitsIn(name, span{since, h.told}); taken > most {
				w.fail("promise1", "%v has %d permits of %q, with those of strangers %d of %d", h, h.n, name, taken, most)
			}
		}
		for _, o := range b.of(name).holds {
			same := o.mgr == h.mgr && o.lock.Owner() == h.lock.Owner()
			if o == h || o.over || o.exempt || h.exempt || kind != permits && same || kind == reader && o.part(name) == reader || !o.lock.Valid() {
				continue
			}
			if taken += o.n; kind == permits && taken <= most {
				continue
			}
			w.fail("promise1", "%v and %v both have %q, as %s and %s, for another %v and %v", o, h, name, o.lock.HolderID(), h.lock.HolderID(), o.lock.Remaining(), h.lock.Remaining())
		}
		for _, f := range w.keysOf(name).names(name) {
			if strings.HasPrefix(f, strangerID) && !h.exempt && !(kind == reader && !strings.HasSuffix(f, ":write")) {
				w.fail("promise1", "%v has %q, and %s has it too", h, name, f)
			}
		}
	})
}

// promise2a: a forced unlock ends a hold by the next renewal at the latest.
func (b *book) promise2a(h *hold, now time.Time) {
	w := b.w
	if h.struckAt.IsZero() {
		return
	}
	b.look("promise2a", h.request)
	slack := w.set.timeout + 12*w.slowest() + 2*often
	forbidden := false
	h.parts(func(name string, _ feature) {
		forbidden = forbidden || w.troubled(noPerm, h.host, name, span{h.struckAt.Add(-slack), now}) // nobody can look for the record
		if h.goneAt.IsZero() && !w.recorded(name, h.mgr) {
			h.goneAt = now // the forced unlock may have run late, or another one may have removed the record
		}
	})
	if forbidden {
		return
	}
	if !h.heard.IsZero() && now.Sub(h.heard) > slack && !h.host.disturbedSince(h.heard) {
		w.fail("promise2a", "%v was lost to a forced unlock %v ago, its manager was subscribed, and it is valid for another %v", h, now.Sub(h.heard), h.lock.Remaining())
	}
	renewed := w.set.lease*2/5 + slack + sec
	gone := !h.goneAt.IsZero() && h.kind != permits
	if gone && now.Sub(h.goneAt) > renewed && h.lease == 0 && h.extends.IsZero() && h.owner == nil && !h.host.disturbedSince(h.struckAt) {
		w.fail("promise2a", "%v was lost to a forced unlock %v ago, and is valid for another %v", h, now.Sub(h.goneAt), h.lock.Remaining())
	}
}

// promise2b: a lock whose record a forced unlock has removed is passed on for a moment only, and
// not at all to a fenced request. h has just been granted. own is set if its owner had the name
// already.
func (b *book) promise2b(h *hold, own bool) {
	w := b.w
	if own || h.joined || w.set.kinds&(slowCallback|slowObserver) != 0 { // its caller may be told late
		return
	}
	trip := 2 * (h.host.latency*4/3 + ms)
	if w.set.acks > 0 {
		trip += trip + w.set.ackTime // WAIT
	}
	b.look("promise2b", h.request)
	h.parts(func(name string, kind feature) {
		p := b.of(name)
		gone, is := w.gone[record{name, h.mgr}]
		var sought time.Time // the record, at the earliest
		if kind != reader && h.passed && (h.fenced || b.handsFirst(p, h)) {
			sought = p.of(h.mgr).gave
		}
		if h.fenced {
			sought = later(sought, h.issued)
		}
		switch ago := h.told.Sub(gone); {
		case !is:
		case gone.Before(sought):
			w.fail("promise2b", "%v has got %q, whose record was gone %v before it had to be looked for", h, name, sought.Sub(gone))
		case ago > 24*ms+2*trip+ms && !h.host.disturbed(span{gone.Add(-w.set.lease), h.told}):
			w.fail("promise2b", "%v has got %q, and its record has been gone for %v", h, name, ago)
		}
	})
}

// handsFirst reports whether the lock of a hold, which was just passed on in memory, was passed on
// for the first time since its manager has it. w.mu is held.
func (b *book) handsFirst(p *pages, h *hold) bool {
	before := p.of(h.mgr).newest
	if before == nil {
		return false
	}
	t := b.w.trailOf(h.name, before.lock.HolderID())
	return t != nil && t.transfers == 0
}

// promise3a: nobody else releases a lock: a valid one has a record that lives at least as long.
func (b *book) promise3a(h *hold) {
	w := b.w
	if h.exempt || h.over {
		return
	}
	left := h.lock.Remaining()
	if left <= 0 {
		return
	}
	b.look("promise3a", h.request)
	h.parts(func(name string, kind feature) {
		keys := w.keysOf(name)
		life := keys.life(name)
		switch {
		case !w.recorded(name, h.mgr):
			w.fail("promise3a", "%v has %q as %s for another %v, the record has %q", h, name, h.lock.HolderID(), left, keys.names(name))
		case life >= 0 && life < left && kind != permits:
			w.fail("promise3a", "%v has %q for another %v, the record lives for %v", h, name, left, life)
		}
	})
}

// inspected checks that Inspect has found the managers of the holds that there were before, and
// still are.
func (b *book) inspected(name string, before []*hold, found []lockmgr.Holder) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	for _, h := range before {
		is := func(o lockmgr.Holder) bool { return managerOf(o.Owner) == h.mgr }
		if !h.exempt && !h.over && h.lock.Valid() && !slices.ContainsFunc(found, is) {
			b.w.fail("promise3a", "%v has %q as %s, and Inspect has found %v", h, name, h.lock.HolderID(), found)
		}
	}
}

// promise3b: a lock is lost for a reason only.
func (b *book) promise3b(h *hold, now time.Time) {
	b.look("promise3b", h.request)
	if !b.mayLose(h, now) {
		b.w.fail("promise3b", "%v has lost %q: %v", h, h.name, h.lock.Err())
	}
}

// promise4: no later hold has the ID of an earlier one.
func (b *book) promise4(h *hold, re bool) {
	b.look("promise4", h.request)
	id := h.lock.HolderID()
	before := b.ids[id]
	if b.ids[id] = h; before == nil || re || before.lock.Owner() == h.lock.Owner() && before.name == h.name {
		return
	}
	side := featuresOf(reader, writer)
	if side.has(before.kind) && side.has(h.kind) && before.name == h.name && (h.kind == reader || h.owner != nil) {
		return // readers of a manager share an ID, and an owner that has both sides has one for both
	}
	if h.owner != nil && before.name == h.name {
		return // a named owner may re-enter a hold that its caller gives back unseen
	}
	b.w.fail("promise4", "%v has %q as %s, which %v had for %q", h, h.name, id, before, before.name)
}

// promise5: tokens rise.
func (b *book) promise5(h *hold, re bool) {
	if !h.fenced || re {
		return
	}
	b.look("promise5", h.request)
	h.parts(func(name string, kind feature) {
		p := b.of(name)
		t := h.lock.TokenOf(b.w.says(name))
		if slices.ContainsFunc(p.holds, func(o *hold) bool { // a writer that also reads has one token for both
			return kind == reader && o.part(name) == writer && o.mgr == h.mgr && o.lock.Owner() == h.lock.Owner() && o.lock.TokenOf(b.w.says(name)) == t
		}) {
			return
		}
		// A forced unlock may run while the reply to an acquire is under way.
		first := b.w.set.kinds&hopeless != 0 // a request whose lease was too short may have been the first to get it
		way := b.w.slowest()
		if b.w.set.acks > 0 {
			way = 3*way + b.w.set.ackTime // WAIT
		}
		onItsWay := !h.passed || first || time.Since(p.weakened) < way
		if h.exempt && onItsWay && (p.forces > 0 || h.early.Before(p.weakened)) { // its call may not have ended yet
			return
		}
		if p.tokenAt.Before(h.told) { // within one instant callers may get their results in any order
			p.token, p.tokenAt = p.newToken, h.told
		}
		// A named owner may re-enter a hold that its caller gives back unseen.
		if t < p.token || t == p.token && h.owner == nil && kind != reader {
			b.w.fail("promise5", "%v has %d for %q, after %d", h, t, name, p.token)
		}
		p.newToken = max(t, p.newToken)
	})
}

// promise6a: Lost is closed soon after the deadline, never before.
func (b *book) promise6a(h *hold) {
	b.look("promise6a", h.request)
	valid, told := h.lock.Valid(), isClosed(h.lock.Lost())
	switch {
	case !valid && h.ctx != nil && h.ctx.Err() == nil:
		b.w.fail("promise6a", "%v has lost %q, and the Err of its context is nil", h, h.name)
	case valid && told && h.lock.Valid():
		b.w.fail("promise6a", "%v has %q, and its Lost is closed", h, h.name)
	case !valid && !told:
		if h.late++; h.late > 2 {
			b.w.fail("promise6a", "%v has not been told for %v that it has lost %q", h, 2*often, h.name)
		}
	}
}

// promise6b: Unlock ends a hold, and tells a loss.
func (b *book) promise6b(h *hold, valid bool, err error) {
	b.look("promise6b", h.request)
	if !valid && err == nil {
		b.w.fail("promise6b", "%v had lost %q, and Unlock returned nil", h, h.name)
	}
	if h.lock.Valid() {
		b.w.fail("promise6b", "%v has %q after Unlock", h, h.name)
	}
}

// promise6c: Close ends all holds.
func (b *book) promise6c(h *hold) {
	b.look("promise6c", h.request)
	if h.lock.Valid() {
		b.w.fail("promise6c", "%v has %q after Close", h, h.name)
	}
}

// promise7a: what a dead process had is free when its lease ends.
func (b *book) promise7a(now time.Time) {
	w := b.w
	for id, e := range b.managers {
		if e.killed.IsZero() {
			continue
		}
		for name := range b.names {
			// A late command may take a lock, or prolong a lease once more.
			most := max(w.set.lease, e.until[name].Sub(e.killed))
			until := later(later(e.until[name], e.until[""]), e.host.ran.Add(most))
			if now.Sub(until) > 2*sec+w.onTheWay() && w.holdsOn(name, id) {
				w.fail("promise7a", "the process of machine %d died %v ago, its lease of %q was over %v ago, and the record %q lives for another %v",
					e.m.index, now.Sub(e.killed), name, now.Sub(until), w.keysOf(name).names(name), w.keysOf(name).life(name))
			}
		}
	}
}

// promise7b: a record lives no longer than those who hold it want.
func (b *book) promise7b(name string, p *pages, now time.Time) {
	w := b.w
	want := later(now.Add(w.set.lease), p.keptMost)
	for _, h := range p.holds {
		b.look("promise7b", h.request)
		want = later(want, b.ends(h, now))
	}
	for _, q := range p.requests {
		if q.observed || q.joined || w.set.kinds&slowObserver != 0 { // its lock is in its future
			want = later(want, now.Add(max(q.lease, q.keepFor)))
		}
	}
	keys := w.keysOf(name)
	life := keys.life(name)
	state := "longer"
	if life <= w.onServers(want.Sub(now))+w.spare()+sec || w.kindOf(name) == permits || keys.Get(name) == nil || !b.calm(name, now) {
		state = ""
	}
	if b.lasts("promise7b", name, state, now) > sec+2*w.set.timeout {
		w.fail("promise7b", "the record %q of %q lives for another %v, and %d that hold it want no more than %v", keys.names(name), name, life,
			len(p.holds), want.Sub(now))
	}
}

// lasts returns for how long an oracle has found a name in one state, at each look. An empty state
// is none.
func (b *book) lasts(oracle, name, state string, now time.Time) time.Duration {
	key := oracle + " of " + name
	before, seen := b.states[key]
	switch {
	case state == "":
		delete(b.states, key)
	case seen && before.state == state:
		return now.Sub(before.since)
	default:
		b.states[key] = sighting{state, now}
	}
	return 0
}

// calm reports whether a record that lives for too long can't be explained. w.mu is held.
func (b *book) calm(name string, now time.Time) bool {
	w := b.w
	if w.set.acks > 0 && w.set.kinds&shared != 0 {
		return false // the other manager may keep the only connection of the pool, and no release can be confirmed
	}
	for _, h := range w.hosts {
		if h.disturbed(span{now.Add(-often), now}) {
			return false
		}
	}
	for id, e := range b.managers { // one that may not touch its record can't release it
		if w.recorded(name, id) && w.troubled(noPerm, e.host, name, span{now.Add(-w.recovery), now}) {
			return false
		}
	}
	stranger := slices.ContainsFunc(w.keysOf(name).names(name), func(f string) bool { return strings.HasPrefix(f, strangerID) || strings.HasPrefix(f, "another") })
	return !stranger && !w.hasRevived(name) && !b.leftBehind(name)
}

// spare is how much longer a record may live than its holders need it. A manager shortens no life
// for less than a third of the lease.
func (w *world) spare() time.Duration { return w.set.lease * 2 / 5 }

// onServers returns how long d may take by the clocks of servers.
func (w *world) onServers(d time.Duration) time.Duration {
	return time.Duration(float64(d) / min(w.set.rate, 1))
}

// leftBehind reports whether a manager that Close has excused, or that was killed, has a record of
// a name. w.mu is held.
func (b *book) leftBehind(name string) bool {
	for id, e := range b.managers {
		if e.excused && b.w.recorded(name, id) {
			return true
		}
	}
	return false
}

// promise8a: no wait outlives its context.
func (b *book) promise8a(q *request) {
	w := b.w
	b.look("promise8a", q)
	took := q.told.Sub(q.issued)
	if d := q.wait; d >= 0 && took-d > 200*ms && !q.granted {
		w.fail("promise8a", "%v waited %v of %v", q, took, d)
	}
	if d := q.patience; d > 0 && took-d > 200*ms {
		w.fail("promise8a", "%v waited %v, its context lasted %v", q, took, d)
	}
}

// promise8b: a record that no caller wants ends within its lease.
func (b *book) promise8b(now time.Time) {
	w := b.w
	limit := w.set.lease + w.set.lease/8 + 2*w.set.timeout + sec
	for name := range b.names {
		if d := b.lasts("promise8b", name, b.unwanted(name, now), now); d > limit {
			keys := w.keysOf(name)
			w.fail("promise8b", "nobody wants %q, and its record %q is there for %v and lives for another %v", name, keys.Get(name).Fields, d,
				keys.life(name))
		}
	}
}

// unwanted returns the newest field of a record that no caller wants, or "". w.mu is held.
func (b *book) unwanted(name string, now time.Time) string {
	w := b.w
	v := w.keysOf(name).Get(name)
	if v == nil || v.Kind != luaserver.Hash || w.hasRevived(name) {
		return ""
	}
	// Another reader may share the record. What a late command has left there ends with the record.
	if slices.ContainsFunc(v.Fields, func(f luaserver.Field) bool { return b.wanted(name, managerOf(f.Name)) }) {
		return ""
	}
	field := v.Fields[len(v.Fields)-1].Name
	e := b.managers[managerOf(field)]
	if e == nil || e.excused || strings.HasSuffix(field, ":kept") || now.Before(b.of(name).keptMost.Add(sec)) ||
		e.host.disturbed(span{now.Add(-often), now}) || w.troubled(noPerm, e.host, name, span{now.Add(-w.recovery), now}) {
		return ""
	}
	return field
}

// promise8c: nothing is left but the counters of tokens and of free permits, once late commands
// have run and leases have ended.
func (b *book) promise8c() {
	w := b.w
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	for _, q := range b.all {
		b.look("promise8c", q)
	}
	for _, s := range w.servers {
		for key := range s.keys.Values {
			v := s.keys.Get(key)
			if v == nil || b.mayStay(key, v) {
				continue
			}
			w.fail("promise8c", "%q with %q %q lives for another %v", key, v.Fields, v.Text, s.keys.life(key))
		}
		for channel, subs := range s.subscribers {
			w.fail("promise8c", "%d subscriptions of %q", len(subs), channel)
		}
	}
	for _, h := range w.hosts {
		if h == w.machines[0].host && w.machines[0].shared != nil {
			continue // rueidis keeps a connection that was dialled while the world closed the client
		}
		for _, c := range h.conns {
			w.fail("promise8c", "%s is open", c)
		}
	}
}

// idle checks that no manager counts a request or a hold once all are answered and given back.
func (b *book) idle() bool {
	w := b.w
	for end := time.Now().Add(w.recovery + 2*w.set.lease); ; {
		m, s := w.busy()
		switch {
		case m == nil:
			return true
		case time.Now().After(end):
			w.fail("promise8c", "all is given back, and machine %d has %+v", m.index, s)
			return false
		case !w.pause(sec):
			return false
		}
	}
}

// busy returns a machine whose manager counts a request or a hold, or nil.
func (w *world) busy() (*machine, lockmgr.Stats) {
	for _, m := range w.machines {
		if mgr := m.current(); mgr != nil {
			if s := mgr.Stats(); s.Pending+s.Waiting+s.Held+s.Watched > 0 {
				return m, s
			}
		}
	}
	return nil, lockmgr.Stats{}
}

// mayStay reports whether a key may be there at the end.
func (b *book) mayStay(key string, v *value) bool {
	name := strings.TrimSuffix(strings.TrimPrefix(key, "{"), "}:timeout")
	switch {
	case strings.HasPrefix(key, "redisson_lock_token:"), b.w.kindOf(key) == permits && v.Kind == luaserver.Text:
		return true
	case b.isExcused(namesOf(v)), b.w.hasRevived(name):
		return true
	case b.w.kindOf(name) == permits && v.Kind == luaserver.Scores:
		for id, e := range b.managers {
			if !e.excused && permitsTaken(b.w.keysOf(name), name, id) > 0 {
				return false
			}
		}
		return true // of a manager that could not be reached, or expired
	case strings.HasPrefix(key, "redisson_lock_queue:"), strings.HasPrefix(key, "redisson_lock_timeout:"):
		return b.w.set.kinds&redisson != 0 // until somebody asks for the lock
	case strings.Contains(key, ":rwlock_timeout:"):
		if _, moved := b.w.movedAt[slotOf(key)]; moved {
			return true // the key was at one master, and the release at the other
		}
		for id, e := range b.managers {
			if e.excused && strings.Contains(key, id) {
				return true
			}
		}
	}
	return false
}

// promise9a: those who wait for a silent server are told.
func (b *book) promise9a(q *request, now time.Time) {
	w, host := b.w, q.host
	silent := host.silentFrom
	if s := w.ownerOf(slotOf(q.name)); silent.IsZero() && s.stopped > 0 && q.kind != set { // it has stopped alone
		silent = later(s.stoppedAt, w.movedAt[slotOf(q.name)])
	}
	if silent.IsZero() || b.managers[q.mgr].closing {
		return
	}
	b.look("promise9a", q)
	// A request behind a holder of the same manager may still get its lock.
	held, since := false, later(q.issued, silent)
	q.parts(func(name string, _ feature) {
		p := b.of(name)
		if slices.ContainsFunc(p.holds, func(h *hold) bool { return h.mgr == q.mgr && !h.over && h.lock.Valid() }) {
			p.of(q.mgr).held = now
			held = true
		}
		since = later(since, p.of(q.mgr).held)
	})
	if held {
		return
	}
	// A command waits for a dial without regard to its time-out.
	limit := w.set.retry + w.set.timeout + dialTimeout + 6*w.slowest() + 300*ms + often
	if w.cheat == hasty {
		limit /= 4
	}
	if !q.alone || q.issued.Before(silent) {
		// It may wait for a message or a poll: the silence has to be noticed.
		limit += w.set.keepAlive + w.set.writeTimeout + sec + w.set.timeout
	}
	if now.Sub(since) > limit {
		w.fail("promise9a", "%v waits for %q for %v, the server is silent for %v, the limit is %v", q, q.name, now.Sub(q.issued), now.Sub(silent), limit)
	}
}

// promise9b: Close ends in time.
func (b *book) promise9b(m *machine, took, patience, limit time.Duration) {
	if took > limit {
		b.w.fail("promise9b", "Close of machine %d took %v, its context lasted %v (0: for ever), the limit is %v", m.index, took, patience, limit)
	}
}

// promise10: a problem with one name does not affect others: a free name is granted at once.
func (b *book) promise10(q *request) {
	w := b.w
	took := q.told.Sub(q.issued)
	trips := time.Duration(6)
	if w.set.kinds&clustered != 0 {
		trips = 8 // a node is greeted, for the batch before as well
	}
	limit := trips*(q.host.latency*4/3+ms) + 150*ms
	if q.met.has(acks) {
		limit += 2*w.set.ackTime + 4*w.slowest() + 4*w.set.lag
	}
	if !q.calm || q.joined || q.hopeless() || q.m.shared != nil && q.met.has(acks) { // the pool of one has no connection for WAIT
		return
	}
	b.look("promise10", q)
	p := b.of(q.name)
	in := span{q.issued.Add(-2 * sec), q.told}
	if took <= limit || len(p.limits) > 0 || p.newest != q.seq || w.late > 0 || w.crowded.After(q.issued) || q.disturbed(in) || w.strangerAt(q.name, in) ||
		w.troubled(ofNames, nil, q.name, in) || b.managers[q.mgr].closing {
		return
	}
	w.fail("promise10", "%v waited %v for %q, which was free; %v would do", q, took, q.name, limit)
}

// promise11a: KeepFor keeps a name from others. h has just been granted.
func (b *book) promise11a(h *hold, re bool) {
	h.parts(func(name string, _ feature) {
		p := b.of(name)
		b.look("promise11a", h.request)
		mayTakeOver := func(q *request) bool { // a hold of this manager passes on to h, or the lease of q may be over
			lease := b.w.set.lease
			if q.lease > 0 {
				lease = q.lease
			}
			return q.takeOver != "" && (q.mgr == h.mgr || h.told.Sub(q.issued) > lease/2)
		}
		if p.keptBy == nil || re || h.exempt || p.keptBy.lock.Owner() == h.lock.Owner() || !b.keeps(p, h.told) || slices.ContainsFunc(p.requests, mayTakeOver) {
			return
		}
		b.w.fail("promise11a", "%v has %q, which %v keeps for another %v", h, name, p.keptBy, p.kept.Sub(h.told))
	})
}

// keeps reports whether a name is kept at an instant, for certain.
func (b *book) keeps(p *pages, now time.Time) bool {
	w := b.w
	slack := w.set.lease/50 + 8*w.slowest() + 100*ms // from the grant to its answer
	return now.Before(p.kept.Add(-slack)) && p.weakened.Before(p.keptFrom) && p.keptBy.over && !errors.Is(p.keptBy.lock.Err(), lockmgr.ErrLeaseLost) &&
		!p.keptBy.host.disturbedSince(p.keptFrom) && !b.managers[p.keptBy.mgr].closing && b.managers[p.keptBy.mgr].killed.IsZero() &&
		!w.troubledSince(p.keptBy.name, p.keptFrom)
}

// promise11b: KeepFor keeps the record, for no longer than the requests that were granted want.
func (b *book) promise11b(name string, p *pages, now time.Time) {
	w := b.w
	if p.keptBy != nil {
		b.look("promise11b", p.keptBy.request)
	}
	settled := w.set.timeout + 8*w.slowest() // the release may follow a renewal that is under way
	keeps := p.keptBy != nil && !p.keptBy.end.IsZero() && now.Sub(p.keptBy.end) > settled && b.keeps(p, now)
	keeps = keeps && !slices.ContainsFunc(p.requests, func(q *request) bool { return q.takeOver != "" }) // else it may be taken over
	keys := w.keysOf(name)
	if left := p.kept.Sub(now) - w.set.lease/50 - 8*w.slowest() - 100*ms; keeps && keys.life(name) >= 0 && keys.life(name) < left {
		w.fail("promise11b", "%v keeps %q for another %v, and the record %q lives for %v", p.keptBy, name, left, keys.names(name), keys.life(name))
	}
	// A release that runs late keeps the name for that much longer.
	late := func(f string) bool {
		e := b.managers[managerOf(f)]
		return e == nil || e.host.disturbed(span{p.keptFrom, now})
	}
	kept := false
	for _, f := range keys.names(name) {
		if !strings.HasSuffix(f, ":kept") {
			continue
		}
		most := later(now, p.keptMost).Sub(now) + w.set.lease + w.set.lease/8 + 2*sec
		switch {
		case !late(f):
			kept = true
		case !p.keptFrom.IsZero():
			most += now.Sub(p.keptFrom)
		}
		if keys.life(name) > w.onServers(most) {
			w.fail("promise11b", "the record %q of %q is kept for another %v, and nobody wants more than %v", f, name, keys.life(name), most)
		}
	}
	if kept && now.After(p.keptMost.Add(w.set.lease/8+2*sec)) && now.Sub(p.busy) > sec {
		w.fail("promise11b", "the record of %q is kept for another %v, and nobody has taken a lock that wants it", name, keys.life(name))
	}
}

// promise12a: with Options.Replicas, enough replicas have the record of a lock that is granted.
func (b *book) promise12a(h *hold) {
	w := b.w
	if !h.met.has(acks) || h.exempt {
		return
	}
	b.look("promise12a", h.request)
	h.parts(func(name string, kind feature) {
		s, n := w.serverOf(name), 0
		for _, r := range s.replicas {
			if r.catchUp(time.Now()); carries(r.keys, name, kind, h.mgr) {
				n++
			}
		}
		// Replicas count for a slot that has moved from the next renewal on: the request may join a
		// hold.
		renewed := time.Now().Add(-w.set.lease / 2)
		if n < w.set.acks && !s.failedOver(h.issued) && !w.movedSince(name, h.issued) && !w.movedSince(name, renewed) {
			w.fail("promise12a", "%v has %q as %s for another %v, and %d of %d replicas have it", h, name, h.lock.HolderID(), h.lock.Remaining(), n, w.set.acks)
		}
	})
}

// promise12b: with Options.Replicas, the record lives as long as the lock on enough replicas.
func (b *book) promise12b(h *hold) {
	w := b.w
	if !h.met.has(acks) || h.exempt || h.over || h.kind == permits {
		return
	}
	b.look("promise12b", h.request)
	left, now := h.lock.Remaining(), time.Now()
	if left <= 0 {
		return
	}
	if until := now.Add(left); until.After(h.until.Add(ms)) {
		if h.seenLate = now; h.until.IsZero() && h.passed {
			h.seenLate = now.Add(-w.set.lease) // it has the deadline of the hold before it
		}
		h.until = until
	}
	h.parts(func(name string, kind feature) {
		s, n, most := w.serverOf(name), 0, time.Duration(0)
		for _, r := range s.replicas {
			r.catchUp(now)
			life := r.keys.life(name)
			if most = max(most, life); life < 0 || life >= left {
				n++
			}
		}
		// The new master of a slot may have other replicas. It is asked with the next renewal.
		moved := w.movedSince(name, h.seenLate.Add(-2*often-4*w.slowest()))
		if n < w.set.acks && !s.failedOver(h.issued) && !moved {
			w.fail("promise12b", "%v has %q for another %v, and on its replicas the record lives for %v", h, name, left, most)
		}
	})
}

// promise13a: an error tells what has happened.
func (b *book) promise13a(q *request, err error) {
	w := b.w
	b.look("promise13a", q)
	in := span{q.issued.Add(-w.recovery), q.told}
	if w.set.kinds&fail != 0 {
		in.from = time.Time{} // a replica may bring back what a trouble had left
	}
	took := q.told.Sub(q.issued)
	lie := func(why string) {
		w.fail("promise13a", "%v failed after %v, though %s: %v", q, took, why, err)
	}
	had := func(set kinds, host *host) bool {
		is := false
		q.parts(func(name string, _ feature) { is = is || w.troubled(set, host, name, in) })
		return is
	}
	ended := errors.Is(err, lockmgr.ErrCanceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	switch {
	case w.ctx.Err() != nil:
	case errors.Is(err, lockmgr.ErrClosed):
		if !b.managers[q.mgr].closing {
			lie("nobody has closed the manager")
		}
	case errors.Is(err, lockmgr.ErrDeadlock):
		if w.set.kinds&(owners|adopted|together|sides) == 0 {
			lie("no owner has two locks")
		}
	case errors.Is(err, lockmgr.ErrNotFenced):
		if !q.fenced || q.owner == nil {
			lie("this is no re-entry")
		}
	case errors.Is(err, lockmgr.ErrPermission):
		if !had(noPerm, q.host) {
			lie("nobody has forbidden the name")
		}
	case errors.Is(err, lockmgr.ErrOutOfMemory):
		if !had(full, nil) {
			lie("there was memory")
		}
		at := w.denied[record{q.name, q.mgr}]
		if !at.Before(q.issued) && q.told.Sub(at) < 2*q.host.latency && !q.once {
			lie("its manager stood in the line, or had the record")
		}
	case errors.Is(err, lockmgr.ErrWrongType):
		if !had(badKey, nil) && !(q.fenced && had(badCounter, nil)) && !(q.kind == permits && had(foreign, nil)) {
			lie("its keys are of the right types")
		}
	case errors.Is(err, lockmgr.ErrKind):
		if !had(foreign, nil) && !(had(badKey, nil) && q.kind != plain) {
			lie("it is no other kind of lock")
		}
	case errors.Is(err, lockmgr.ErrLimit):
		if least, _ := b.limitsIn(q.name, span{q.issued, q.told}); q.n <= least {
			lie("the limit was large enough")
		}
	case errors.Is(err, lockmgr.ErrOverloaded):
		if !b.overloaded(q) {
			lie("its manager had room")
		}
	case errors.Is(err, lockmgr.ErrReplicas):
		if !q.met.has(acks) {
			lie("it asks for no replicas")
		}
	case errors.Is(err, lockmgr.ErrUnavailable):
		noPool := q.m.shared != nil && q.met.has(acks) // the other manager may keep the only connection for WAIT
		unheard := q.unmet || b.unanswered(q) || b.oldNews(q)
		if !q.disturbed(in) && !q.hopeless() && 16*q.host.latency < w.set.timeout && !unheard && !noPool {
			lie("the server was there")
		}
	case ended && !q.cancels:
		lie("nobody has cancelled it")
	case b.silent(q) && (errors.Is(err, lockmgr.ErrNotAcquired) || ended && q.patience > 0 && !errors.Is(err, lockmgr.ErrCanceled)):
		lie("the server was silent all the time")
	case ended:
	case errors.Is(err, lockmgr.ErrNotAcquired):
		if q.wait < 0 && !q.once {
			lie("it had no limit")
		}
		if b.onlyReads(q) {
			lie("only readers of its manager have the name")
		}
	case q.hopeless():
	default:
		lie("nothing like that has happened")
	}
}

// overloaded reports whether the manager of a request may have as many requests, or names, as it may
// have. It remembers names for a while, and sets with the sides of their items. The book does not
// keep all requests of a world with very many.
func (b *book) overloaded(q *request) bool {
	names, waiters := make(map[string]bool), 0
	for _, o := range b.all {
		if o.mgr == q.mgr {
			names[fmt.Sprint(o.name, o.of)] = true
			if o.told.IsZero() || o.told.After(q.issued.Add(-b.w.recovery)) {
				waiters++
			}
		}
	}
	set := &b.w.set
	return set.maxLocks > 0 && (len(names) > set.maxLocks || waiters > set.maxWaiters || len(b.all) == mostTold)
}

// silent reports whether the server was silent all the time and for longer than a command may take,
// and nobody in the manager of a request had the name, whom it could wait for.
func (b *book) silent(q *request) bool {
	w := b.w
	took := q.told.Sub(q.issued)
	silent := q.host.silent > 0 && !q.host.silentFrom.After(q.issued) && q.alone && took > w.set.timeout+6*w.slowest()+100*ms
	q.parts(func(name string, _ feature) {
		p := b.of(name)
		silent = silent && len(p.holds) == 0 && p.of(q.mgr).ended.Before(q.issued)
	})
	return silent
}

// onlyReads reports whether readers of the manager of a request to read have the name, for a while,
// or nobody has it, and nobody else wants it, and no other manager has had it. With classic channels
// a manager can't know that.
func (b *book) onlyReads(q *request) bool {
	p := b.of(q.name)
	w := b.w
	if q.kind != reader || !q.once || w.set.kinds&(sets|redisson|force|abandon|together|ofNames|classic) != 0 || q.hopeless() {
		return false
	}
	steady := len(p.holds) == 0
	for _, h := range p.holds {
		if h.kind != reader || h.mgr != q.mgr {
			return false
		}
		steady = steady || !h.over && q.issued.Sub(h.told) > 6*w.slowest()+ms && h.lock.Valid() && h.lock.Remaining() > w.set.lease/4
	}
	if !steady {
		return false
	}
	for _, o := range p.requests {
		if o != q && (o.kind != reader || o.mgr != q.mgr) {
			return false
		}
	}
	for mgr, s := range p.shares {
		if mgr != q.mgr && s.grants > 0 {
			return false // it may still be subscribed, or be taken for a subscriber
		}
	}
	return q.issued.Sub(p.wrote) > 2*sec && !q.host.disturbed(span{q.issued.Add(-2 * sec), q.told})
}

// holdsOn reports whether the record of a name has a holder of a manager who keeps others out. The
// field of a reader whose own key has expired stays until the next script finds it. w.mu is held.
func (w *world) holdsOn(name, mgr string) bool {
	fields := w.keysOf(name).names(name)
	if !slices.Contains(fields, "mode") {
		return w.recorded(name, mgr)
	}
	return slices.ContainsFunc(fields, func(f string) bool {
		own := "{" + name + "}:" + f + ":rwlock_timeout:1"
		return strings.HasPrefix(f, mgr+":") && (strings.HasSuffix(f, ":write") || w.keysOf(own).Get(own) != nil)
	})
}

// promise13b: options that contradict each other are refused, before anything is sent.
func (b *book) promise13b(q *request, err error) {
	b.look("promise13b", q)
	if !errors.Is(err, lockmgr.ErrInvalidOption) && !errors.Is(err, lockmgr.ErrClosed) && b.w.ctx.Err() == nil {
		b.w.fail("promise13b", "%v has options that contradict each other (Lead: %v, TryLock: %v, %v), and its error is %v", q, q.leads, q.once, q.contrary, err)
	}
}
