package clientsim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/luaserver"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A book records the requests of callers and their results. The oracles compare it with the server.
// The mutex of the world guards it.
type book struct {
	w *world

	managers map[string]*entry // by ID
	names    map[string]*pages
	seq      int
	grants   int
	doubts   []doubt
	states   map[string]sighting // see lasts
	ids      map[string]*hold    // by holder ID
	all      []*request          // for the table of features, at most mostTold
}

// mostTold bounds the requests of one world that the table of features has.
const mostTold = 3000

// An entry is the state of a manager.
type entry struct {
	m    *machine
	host *host
	features
	closing bool
	killed  time.Time
	until   map[string]time.Time  // until when the records of a killed manager may live; "": others
	excused bool                  // Close has said that it leaves something
	granted map[*server]time.Time // when the manager was last granted a lock, so the server has answered it
}

// Pages are the state of a name.
type pages struct {
	requests []*request // without an answer, in order
	holds    []*hold    // not given back
	newest   int        // the seq of the last request
	token    int64      // the largest of those told before tokenAt
	newToken int64      // the largest
	tokenAt  time.Time
	busy     time.Time         // when a caller last asked for it or had it
	shares   map[string]*share // by manager
	forces   int               // under way
	kept     time.Time         // until when KeepFor keeps it taken
	keptFrom time.Time         // when the newest of these was granted
	keptBy   *hold
	wanted   map[string]bool // the holder IDs that a request may take over
	wrote    time.Time       // when a writer last asked for it, had it or had gone
	keptMost time.Time       // the latest instant until which anything may keep it
	weakened time.Time       // when a forced unlock, or a loss of data, last ended what was kept
	limits   []limit         // of permits, but for limitOf
}

// all returns the requests without an answer and those of holds.
func (p *pages) all() []*request {
	all := slices.Clone(p.requests)
	for _, h := range p.holds {
		all = append(all, h.request)
	}
	return all
}

// A share is what one manager has of a name.
type share struct {
	grants   int
	newest   *hold     // given back or not
	granted  time.Time // the last one
	gave     time.Time // when a caller last began to give one back
	ended    time.Time // the last end of a hold
	held     time.Time // when the manager was last seen to hold it while the server was silent
	exempted time.Time // until when a forced unlock explains what the manager does
}

// of returns what a manager has of a name.
func (p *pages) of(mgr string) *share {
	s := p.shares[mgr]
	if s == nil {
		s = new(share)
		p.shares[mgr] = s
	}
	return s
}

// A request is one request of a caller.
type request struct {
	ask
	met      features
	looked   uint64 // oracles
	seq      int
	m        *machine
	host     *host
	mgr      string    // the manager's ID
	end      time.Time // of the request, or of its hold; zero: not yet
	observed bool      // the observer has seen its grant
	seenAt   time.Time // the instant of that grant
	issued   time.Time
	told     time.Time // when it was answered; zero: not yet
	granted  bool
	cancels  bool // the caller may cancel it
	calm     bool // nothing was in its way when it was made
	unmet    bool // its manager may have had no connection when it was made
	alone    bool // the only one of its manager for the name
	joined   bool // part of an All or Any, whose caller gets its lock later or not at all
	// forcedUnseen says that a forced unlock ran before the caller of a joined request had an
	// answer. The manager may have had the lock.
	forcedUnseen bool

	base    int // one more than the grants of others when counting began
	baseAt  time.Time
	extends time.Time // until when Extend has it live
}

func (q *request) String() string {
	return fmt.Sprintf("#%d of machine %d (%v)", q.seq, q.m.index, q.kind)
}

// A hold is a lock that a caller has.
type hold struct {
	*request
	lock     *lockmgr.Lock
	exempt   bool            // lost to a forced unlock, or passed on by such a hold
	struck   bool            // existed when the unlock was forced
	over     bool            // given back
	deadline time.Time       // when it is given back: until when it would have been valid
	ctx      context.Context // of Lock.Context; may be nil
	passed   bool            // no script has taken it for this hold
	early    time.Time       // when a script first took it or passed it on; zero: it was passed on in memory
	late     int             // how often it was seen neither valid nor lost
	lost     bool            // seen to be lost
	struckAt time.Time       // when the first was over
	goneAt   time.Time       // when its record was first seen to be gone after that
	until    time.Time       // its deadline, for promise12b
	seenLate time.Time       // when promise12b first saw that deadline
	heard    time.Time       // when the message of a forced unlock was sent to its manager
}

// A limit is one call of SetLimit.
type limit struct {
	n     int
	begun time.Time
	done  time.Time // when the server had answered; zero: not yet
	over  time.Time // when it certainly no longer holds; zero: not yet
}

// A doubt is a request, first, that a later one, second, may have overtaken. It is decided at a
// later instant.
type doubt struct {
	first, second *request
	at            time.Time
}

// A sighting is the state in which an oracle has found a name.
type sighting struct {
	state string
	since time.Time
}

func newBook(w *world) *book {
	return &book{w: w, managers: make(map[string]*entry), names: make(map[string]*pages), states: make(map[string]sighting), ids: make(map[string]*hold)}
}

func (b *book) add(mgr *lockmgr.Manager, m *machine) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.managers[mgr.ID()] = &entry{m: m, host: m.place(), features: b.w.managerFeatures(), granted: make(map[*server]time.Time)}
}

func (b *book) of(name string) *pages {
	p := b.names[name]
	if p == nil {
		p = &pages{shares: make(map[string]*share), wanted: make(map[string]bool)}
		b.names[name] = p
	}
	return p
}

// ask notes a request, just before it is made.
func (b *book) ask(m *machine, mgr *lockmgr.Manager, a ask) *request {
	now := time.Now()
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.seq++
	e := b.managers[mgr.ID()]
	q := &request{ask: a, seq: b.seq, m: m, host: e.host, mgr: mgr.ID(), issued: now, cancels: a.patience > 0}
	q.met = a.features() | e.features
	q.unmet = e.has(metLater) && len(e.granted) == 0
	q.alone, q.calm = true, a.kind != set && e.host.latency < b.w.set.timeout/5 && !q.unmet
	q.parts(func(name string, _ feature) {
		p := b.of(name)
		q.alone = q.alone && !slices.ContainsFunc(p.requests, func(o *request) bool { return o.mgr == q.mgr })
		q.calm = q.calm && len(p.requests) == 0 && len(p.holds) == 0 && now.Sub(p.busy) > 2*sec && b.w.keyless(name)
		p.requests = append(p.requests, q)
		p.busy, p.newest = now, q.seq
		if q.takeOver != "" {
			p.wanted[q.takeOver] = true
		}
		if q.part(name) == writer {
			p.wrote = now
		}
		for _, h := range p.holds {
			if h.mgr == q.mgr && q.owner != nil && *q.owner == h.lock.Owner() {
				h.extends = later(h.extends, now.Add(max(q.lease, q.keepFor)+sec)) // a re-entry prolongs it
			}
		}
	})
	if len(b.all) < mostTold {
		b.all = append(b.all, q)
	}
	b.w.tracef("%v asks for %v", q, &q.ask)
	return q
}

// keyless reports whether nothing of a name is on the server.
func (w *world) keyless(name string) bool {
	queue := queueOf(name)
	return w.keysOf(name).Get(name) == nil && w.keysOf(queue).Get(queue) == nil
}

// leave notes that a caller has gone without a look at the answer. There was one if granted is
// true.
func (b *book) leave(q *request, granted bool) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.w.tracef("%v is cancelled (granted: %v)", q, granted)
	if granted {
		q.met.add(cancelledAfter)
	} else if !q.observed {
		q.met.add(cancelledBefore)
	}
	b.remove(q)
	q.end = q.told
	if p := b.of(q.name); granted && b.managers[q.mgr].closing { // a Close keeps what no cancel has given back yet
		p.keptMost = later(p.keptMost, q.end.Add(q.keepFor))
	}
}

// mayDrop notes a request of an All or Any. What drops its lock unlocks it, so KeepFor keeps the
// name.
func (b *book) mayDrop(q *request) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if p := b.of(q.name); q.keepFor > 0 {
		p.keptMost = later(p.keptMost, q.issued.Add(q.wait+q.keepFor+2*b.w.set.timeout))
	}
}

// untaken notes that All or Any has given back the lock of a request, if there was one.
func (b *book) untaken(q *request) {
	b.w.mu.Lock()
	granted := q.observed
	if granted {
		q.met.add(neverTaken)
	}
	b.w.mu.Unlock()
	b.leave(q, false)
}

func (b *book) remove(q *request) {
	q.told = time.Now()
	q.parts(func(name string, _ feature) {
		p := b.of(name)
		p.busy = q.told
		if q.part(name) == writer {
			p.wrote = q.told
		}
		p.endKeeping(q)
		p.requests = slices.DeleteFunc(p.requests, func(o *request) bool { return o == q })
	})
}

// endKeeping notes that a name is not kept from now on, if q, which has ended, may have taken the
// name over.
func (p *pages) endKeeping(q *request) {
	if p.keptBy != nil && q.takeOver == p.keptBy.lock.HolderID() {
		p.kept = time.Time{}
	}
}

// answered notes the result of a request. It returns a hold if that is a lock.
func (b *book) answered(q *request, l *lockmgr.Lock, err error) *hold {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.remove(q)
	if !b.managers[q.mgr].killed.IsZero() {
		q.end = q.told
		return nil
	}
	b.promise8a(q)
	b.promise10(q)
	b.w.see(err)
	if err != nil {
		q.end = q.told
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lockmgr.ErrCanceled) {
			q.met.add(cancelledBefore)
		}
		b.w.tracef("%v failed: %v", q, err)
		b.promise13a(q, err)
		return nil
	}
	b.w.tracef("%v has %q as %v, token %d", q, q.name, l.HolderID(), l.Token())
	return b.granted(q, l)
}

func (b *book) granted(q *request, l *lockmgr.Lock) *hold {
	h := &hold{request: q, lock: l}
	q.granted = true
	b.grants++
	b.heardFrom(q)
	re, own := false, false
	q.parts(func(name string, _ feature) {
		p := b.of(name)
		// A reply that was under way when a forced unlock ran, and a lock that is passed on in
		// memory then, are lost already.
		h.exempt = h.exempt || p.forces > 0 || q.told.Before(p.of(q.mgr).exempted) || q.forcedUnseen
		for _, o := range p.holds {
			if o.mgr == q.mgr && o.lock.Owner() == l.Owner() {
				re, own = re || o.part(name) == q.part(name), true
				h.exempt = h.exempt || o.exempt
			}
		}
		// A re-entry may be told before the first request of its owner.
		own = own || slices.ContainsFunc(p.requests, func(o *request) bool { return o.mgr == q.mgr && o.owner != nil && *o.owner == l.Owner() })
	})
	h.early = b.w.takenAt(h)
	h.passed = h.early.IsZero()
	if l.Valid() {
		b.promise1(h)
		b.promise2b(h, own)
		b.promise4(h, re)
		b.promise5(h, re)
		b.promise11a(h, re)
		b.promise12a(h)
	}
	q.parts(func(name string, _ feature) {
		p := b.of(name)
		s := p.of(q.mgr)
		s.grants++
		s.newest, s.granted = h, q.told
		p.holds = append(p.holds, h)
		if q.keepFor > 0 {
			p.keptMost = later(p.keptMost, q.told.Add(q.keepFor))
			from, known := b.grantAt(q)
			if until := from.Add(q.keepFor); known && until.After(p.kept) && !h.exempt && !p.wanted[h.lock.HolderID()] {
				p.kept, p.keptFrom, p.keptBy = until, from, h
			}
		}
		if q.owner == nil && !re && inOrder(q) {
			for _, o := range p.requests {
				if o.mgr == q.mgr && o.seq < q.seq && o.issued.Before(q.issued) && o.owner == nil && !o.joined && !o.hopeless() && inOrder(o) &&
					!(o.fenced && b.w.set.kinds&badCounter != 0) {
					b.doubts = append(b.doubts, doubt{o, q, q.told})
				}
			}
		}
	})
	b.promise3a(h)
	return h
}

// grantAt returns when a request was granted, which for a part of an All may be long before its
// caller is told. It reports whether that is known.
func (b *book) grantAt(q *request) (at time.Time, known bool) {
	switch {
	case q.joined && q.observed:
		return q.seenAt, true
	case q.joined && b.w.set.kinds&slowObserver != 0:
		return q.told, false
	}
	return q.told, true
}

// inOrder reports whether the requests of a manager for this kind are served in order.
func inOrder(q *request) bool { return q.kind == plain || q.kind == fair }

// drawKept draws the ID of a hold for which a name is kept, or "".
func (b *book) drawKept(r *rand.Rand, name string) string {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	p := b.of(name)
	if p.keptBy == nil || !p.keptBy.over || time.Now().After(p.kept) || r.IntN(3) > 0 {
		return ""
	}
	return p.keptBy.lock.HolderID()
}

// hopeless reports whether the lease is too short for the distance.
func (q *request) hopeless() bool { return q.lease > 0 && q.lease < q.leastLease() }

// leastLease returns the shortest lease that the distance of a request's host allows.
func (q *request) leastLease() time.Duration {
	least := 6*q.host.latency + 50*ms
	if q.met.has(acks) { // a renewal, the wait of others, its own, and perhaps a new connection
		least = 4*least + q.m.w.set.ackTime
	}
	return least
}

// unlocking notes that a caller is about to give a lock back. It reports whether the lock is valid.
func (b *book) unlocking(h *hold, patience time.Duration) (valid bool) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if !b.managers[h.mgr].killed.IsZero() {
		return false
	}
	b.promise3a(h)
	h.over, h.deadline = true, time.Now().Add(h.lock.Remaining())
	h.parts(func(name string, _ feature) {
		b.of(name).of(h.mgr).gave = time.Now()
		if h.struck || h.exempt && !b.w.recorded(name, h.mgr) {
			b.grace(b.of(name), h.mgr, h.host) // it may be passed on
		}
	})
	if valid = h.lock.Valid(); valid && time.Since(h.told) < ms {
		h.met.add(unlockedAtOnce)
	} else if valid {
		h.met.add(unlockedLater)
	}
	b.w.tracef("%v gives %q back (valid: %v, patience %v)", h, h.name, valid, patience)
	return valid
}

// unlocked notes the result of Unlock.
func (b *book) unlocked(h *hold, valid bool, err error) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if !b.managers[h.mgr].killed.IsZero() {
		return
	}
	b.w.tracef("%v was given back: %v", h, err)
	h.end = time.Now()
	h.parts(func(name string, _ feature) {
		p := b.of(name)
		p.holds = slices.DeleteFunc(p.holds, func(o *hold) bool { return o == h })
		for _, o := range p.holds { // what a re-entry of a set has asked for lasts for as long as the set is held
			if h.kind == set && o.kind == set && o.mgr == h.mgr && o.lock.Owner() == h.lock.Owner() {
				o.extends = later(o.extends, b.ends(h, h.end.Add(-b.w.set.lease)))
			}
		}
		p.busy, p.of(h.mgr).ended = h.end, h.end
		if errors.Is(err, lockmgr.ErrLeaseLost) && p.keptBy != nil && p.keptBy.lock.Owner() == h.lock.Owner() {
			p.weakened, p.kept = h.end, time.Time{} // the lease of the hold was over before a command told of a re-entry
		}
		if h.part(name) == writer {
			p.wrote = h.end
		}
	})
	if errors.Is(err, lockmgr.ErrLeaseLost) {
		h.met.add(lost)
		if h.end.Before(h.deadline) {
			b.promise3b(h, h.end)
		}
	}
	b.promise6b(h, valid, err)
}

// extending notes a call of Extend, which may take effect whatever it returns.
func (b *book) extending(h *hold, d time.Duration) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	h.extends = later(h.extends, time.Now().Add(d+b.w.set.timeout))
}

func (b *book) extended(h *hold, d time.Duration, err error) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.w.tracef("%v extends %q by %v: %v", h, h.name, d, err)
	if !b.managers[h.mgr].killed.IsZero() {
		return
	}
	if err == nil {
		h.met.add(extended)
	}
	b.promise3a(h)
	b.promise12b(h)
}

// killed notes that the process of a manager is no more.
func (b *book) killed(mgr *lockmgr.Manager) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	now := time.Now()
	e := b.managers[mgr.ID()]
	e.killed, e.excused, e.until = now, true, map[string]time.Time{"": now.Add(b.w.set.lease)}
	for _, q := range b.all { // the release of a fixed or prolonged lease may be on its way
		soon := q.end.Add(b.w.set.timeout + 8*b.w.slowest())
		if q.mgr == mgr.ID() && !q.end.IsZero() && (now.Before(soon) || e.host.disturbed(span{q.end, soon})) {
			q.parts(func(name string, _ feature) { e.until[name] = later(later(e.until[name], now.Add(q.lease)), q.extends) })
		}
	}
	for name, p := range b.names {
		for _, h := range p.holds {
			if h.mgr == mgr.ID() {
				h.met.add(killed)
				h.end = now
				e.until[name] = later(e.until[name], b.ends(h, now))
			}
		}
		for _, q := range p.requests {
			if q.mgr == mgr.ID() { // granted a moment ago, or still to be
				q.met.add(killed)
				q.end = now
				p.endKeeping(q)
				e.until[name] = later(e.until[name], now.Add(max(b.w.set.lease, q.lease, q.keepFor)))
			}
		}
		if p.keptBy != nil && p.keptBy.mgr == mgr.ID() {
			e.until[name] = later(e.until[name], p.kept)
		}
		until, end := later(e.until[name], e.until[""]), now.Add(b.w.keysOf(name).life(name))
		if b.w.recorded(name, mgr.ID()) && end.After(until) {
			e.until[name] = until.Add(min(end.Sub(until), b.w.spare()))
		}
		p.keptMost = later(p.keptMost, e.until[name])
		p.holds = slices.DeleteFunc(p.holds, func(h *hold) bool { return h.mgr == mgr.ID() })
		p.requests = slices.DeleteFunc(p.requests, func(q *request) bool { return q.mgr == mgr.ID() })
		p.busy = now
	}
}

// dataLost notes that a server has lost what it knew of a name.
func (b *book) dataLost(name string) {
	p := b.of(name)
	b.exempt(p, nil)
	p.weakened, p.kept, p.token, p.newToken = time.Now(), time.Time{}, 0, 0
}

// ends returns until when the record of a hold may live if nobody renews it from now on.
func (b *book) ends(h *hold, now time.Time) time.Time {
	end := now.Add(b.w.set.lease)
	if h.lease > 0 {
		end = later(end, h.told.Add(h.lease))
	}
	if h.keepFor > 0 {
		end = later(end, h.told.Add(h.keepFor))
	}
	return later(end, h.extends)
}

// victim returns some hold of a name, or nil.
func (b *book) victim(name string, r *rand.Rand) *hold {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if p := b.of(name); len(p.holds) > 0 {
		return p.holds[r.IntN(len(p.holds))]
	}
	return nil
}

// holding returns the holds of a name.
func (b *book) holding(name string) []*hold {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	return slices.Clone(b.of(name).holds)
}

// event notes what the observer of a manager is told.
func (b *book) event(e lockmgr.Event) {
	g, ok := e.(lockmgr.EventGranted)
	if !ok || g.Context == nil {
		return
	}
	q, ok := g.Context.Value(requestKey{}).(*request)
	if !ok {
		return
	}
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	q.seenAt = g.At
	if q.observed = true; b.w.set.kinds&slowObserver == 0 {
		q.met.add(b.way(q, g))
	}
}

// way returns the way of a grant that has just been made.
func (b *book) way(q *request, g lockmgr.EventGranted) feature {
	p := b.of(q.name)
	for _, h := range p.holds {
		if h.request == q || h.mgr != q.mgr || q.kind == set {
			continue
		}
		own := q.owner != nil && *q.owner == h.lock.Owner()
		switch {
		case own && q.kind == writer && h.kind == reader:
			return upgraded
		case !g.Reentry && !own && q.kind == reader && h.lock.HolderID() == g.Owner:
			return joined
		}
	}
	t := b.w.trailOf(q.name, g.Owner)
	switch {
	case g.Reentry:
		return reentered
	case g.Passed && t != nil && t.transfers > 0 && t.first.Before(g.At):
		return transferred
	case g.Passed:
		return passed
	case t != nil && (t.acquires > 1 || t.lost > 0):
		return unknown
	case t != nil && t.acquires+t.transfers == 0:
		return byMessage
	}
	return acquired
}

// forcing notes a forced unlock just before the call: from now on every present hold of the name
// may be lost, or every one of the manager of victim.
func (b *book) forcing(name string, victim *hold) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.w.tracef("forced unlock of %q: %v", name, victim)
	p := b.of(name)
	p.forces++
	b.exempt(p, victim)
	p.weakened, p.kept = time.Now(), time.Time{}
}

// hears notes which holds end with a forced unlock that their managers hear of.
func (b *book) hears(p *pages, name string) {
	w := b.w
	now := time.Now()
	for _, h := range p.holds {
		recent := span{now.Add(-5*sec - w.set.timeout), now}
		// Of two managers on one host the other may be the one that listens.
		if h.struck && h.m.shared == nil && h.part(name) == plain && w.listens(h.host, name) && !h.host.disturbed(recent) && h.lock.Valid() && !w.recorded(name, h.mgr) {
			h.heard = now
		}
	}
}

// listens reports whether a host is subscribed to the channel of a name. w.mu is held.
func (w *world) listens(h *host, name string) bool {
	nodes := []*server{w.ownerOf(slotOf(name))}
	if w.set.kinds&classic != 0 {
		nodes = w.servers
	}
	return slices.ContainsFunc(nodes, func(s *server) bool {
		return slices.ContainsFunc(s.subscribers["redisson_lock__channel:{"+name+"}"], func(c *conn) bool {
			return c.from == h && !c.closed && !c.broken
		})
	})
}

// recorded reports whether a record carries a holder of a manager. w.mu is held.
func (w *world) recorded(name, mgr string) bool {
	kind, key := w.kindOf(name), name
	if kind == permits {
		key = takenOf(name)
	}
	return carries(w.keysOf(key), name, kind, mgr)
}

// carries reports whether the record of a name has a holder of a manager. The kind is writer if it
// must have the write side.
func carries(keys keyspace, name string, kind feature, mgr string) bool {
	if kind == permits {
		return permitsTaken(keys, name, mgr) > 0
	}
	return slices.ContainsFunc(keys.names(name), func(f string) bool {
		return strings.HasPrefix(f, mgr+":") && !strings.HasSuffix(f, ":kept") && (kind != writer || strings.HasSuffix(f, ":write"))
	})
}

// permitsTaken returns how many permits of a name a manager has that have not expired.
func permitsTaken(keys keyspace, name, mgr string) (n int) {
	return permitsOf(keys, name, permitPrefix(mgr))
}

// permitsOf returns how many permits of a name whose IDs have a prefix have not expired.
func permitsOf(keys keyspace, name, prefix string) (n int) {
	if v := keys.Get(takenOf(name)); v != nil && v.Kind == luaserver.Scores {
		for _, m := range v.Members {
			if strings.HasPrefix(m.Name, prefix) && m.Score > float64(keys.Ms()) {
				n++
			}
		}
	}
	return n
}

// limiting notes a call of SetLimit. It returns the number of the call.
func (b *book) limiting(name string, n int) int {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	p := b.of(name)
	p.limits = append(p.limits, limit{n: n, begun: time.Now()})
	b.w.tracef("the limit of %q shall be %d", name, n)
	return len(p.limits) - 1
}

// limited notes the end of a call of SetLimit. One that is not known to be done may take effect at
// any time.
func (b *book) limited(name string, i int, done bool) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	all, now := b.of(name).limits, time.Now()
	b.w.tracef("the limit of %q is %d: %v", name, all[i].n, done)
	if !done {
		return
	}
	all[i].done = now
	for j := range all {
		if l := &all[j]; !l.done.IsZero() && l.done.Before(all[i].begun) && l.over.IsZero() {
			l.over = now
		}
	}
}

// limitsIn returns the smallest limit, but for 0, and the largest one that a name may have had in a
// span.
func (b *book) limitsIn(name string, in span) (least, most int) {
	p := b.of(name)
	returns := b.w.set.forget || b.w.set.replicas > 0 // an earlier limit may hold again
	replaced := slices.ContainsFunc(p.limits, func(l limit) bool { return !l.done.IsZero() && l.done.Before(in.from) })
	if least = math.MaxInt; returns || !replaced {
		least, most = limitOf, limitOf
	}
	for _, l := range p.limits {
		over := !returns && !l.over.IsZero() && l.over.Before(in.from)
		if l.n > 0 && !over && !l.begun.After(in.to) {
			least, most = min(least, l.n), max(most, l.n)
		}
	}
	return least, most
}

// forced notes the end of the call. A hold that began later must not be lost.
func (b *book) forced(name string, victim *hold, there bool, err error) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.w.tracef("forced unlock of %q: %v %v", name, there, err)
	p := b.of(name)
	if there || err != nil {
		for _, h := range p.holds {
			if victim == nil || h.mgr == victim.mgr {
				h.met.add(forced)
			}
		}
	}
	b.exempt(p, victim)
	p.weakened, p.kept = time.Now(), time.Time{}
	if p.forces--; there && err == nil {
		b.hears(p, name)
	}
}

// exempt notes that the holds of a name may be lost, or those of the manager of victim if that is
// not nil: victim may have passed its lock on, or share its ID. w.mu is held.
func (b *book) exempt(p *pages, victim *hold) {
	for _, h := range p.holds {
		if victim != nil && h.mgr != victim.mgr {
			continue
		}
		if h.exempt, h.struck = true, true; h.struckAt.IsZero() {
			h.struckAt = time.Now()
		}
	}
	for _, q := range p.requests {
		q.forcedUnseen = q.forcedUnseen || q.joined && (victim == nil || q.mgr == victim.mgr)
	}
	// A manager whose caller has just gone may be about to be granted the lock.
	for id, e := range b.managers {
		if victim == nil || id == victim.mgr {
			b.grace(p, id, e.host)
		}
	}
}

// grace excuses a manager for the time of a command, to learn of a forced unlock. w.mu is held.
func (b *book) grace(p *pages, id string, h *host) {
	w, now := b.w, time.Now()
	d := w.set.timeout + 6*w.slowest() + 200*ms
	if h.disturbed(span{now.Add(-w.set.lease), now}) {
		d += w.set.lease
	}
	p.of(id).exempted = later(p.of(id).exempted, now.Add(d))
}

func (b *book) closing(mgr *lockmgr.Manager) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.managers[mgr.ID()].closing = true
	for _, p := range b.names {
		for _, q := range p.all() {
			if q.mgr == mgr.ID() {
				q.met.add(closed)
			}
		}
	}
}

func (b *book) closed(mgr *lockmgr.Manager, err error) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.managers[mgr.ID()].excused = err != nil
	for _, p := range b.names {
		for _, h := range p.holds {
			if h.mgr == mgr.ID() {
				b.promise6c(h)
			}
		}
	}
}

// outcomes are the results of requests.
var outcomes = map[error]string{
	lockmgr.ErrWaitTimeout: "ErrWaitTimeout", lockmgr.ErrUnavailable: "ErrUnavailable", lockmgr.ErrClosed: "ErrClosed",
	lockmgr.ErrDeadlock: "ErrDeadlock", lockmgr.ErrPermission: "ErrPermission", lockmgr.ErrWrongType: "ErrWrongType",
	lockmgr.ErrKind: "ErrKind", lockmgr.ErrOutOfMemory: "ErrOutOfMemory", lockmgr.ErrReplicas: "ErrReplicas",
	lockmgr.ErrLimit: "ErrLimit", lockmgr.ErrOverloaded: "ErrOverloaded", context.DeadlineExceeded: "DeadlineExceeded",
}

func (w *world) see(err error) {
	for is, name := range outcomes {
		if errors.Is(err, is) {
			w.seen[name]++
		}
	}
}

// isExcused reports whether a record is one that Close has reported as left.
func (b *book) isExcused(fields []string) bool {
	return slices.ContainsFunc(fields, func(f string) bool {
		e := b.managers[managerOf(f)]
		return e != nil && e.excused
	})
}

// longest is how long the holders that remain may take, one after the other.
func (b *book) longest() (d time.Duration) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	for _, p := range b.names {
		for _, q := range p.all() {
			d += q.hold + q.keepFor + sec
		}
	}
	return d
}

func (b *book) pending() string {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	var out []string
	for name, p := range b.names {
		for _, q := range p.requests {
			out = append(out, fmt.Sprintf("%v waits for %q", q, name))
		}
		for _, h := range p.holds {
			out = append(out, fmt.Sprintf("%v gives %q back", h, name))
		}
	}
	slices.Sort(out)
	return strings.Join(out[:min(len(out), 8)], "; ")
}

// unanswered reports whether nothing may have been answered while a request waited: a server has
// not answered its manager yet. A first command waits for a dial and, in a cluster, for a greeting,
// and a script that the server does not know takes two round trips. A manager that connects later
// has a queue by then, and sends its first transfer as soon as its first lock is given back. w.mu
// is held.
func (b *book) unanswered(q *request) bool {
	heard := !b.heardAt(q).IsZero()
	return q.told.Sub(q.issued) < 6*(2*q.host.latency*4/3+ms) && (!heard || q.kind != plain || q.met.has(metLater))
}

// heardFrom notes that the servers of a request have answered its manager.
func (b *book) heardFrom(q *request) {
	q.parts(func(name string, _ feature) { b.managers[q.mgr].granted[b.w.serverOf(name)] = time.Now() })
}

// heardAt returns when each of the servers of a request has answered its manager since, or zero.
func (b *book) heardAt(q *request) (at time.Time) {
	at = q.told
	q.parts(func(name string, _ feature) {
		if heard := b.managers[q.mgr].granted[b.w.serverOf(name)]; heard.Before(at) {
			at = heard
		}
	})
	return at
}

// oldNews reports whether a request was refused at once because another request of its manager goes
// first, and the last that its manager knows of the server may be a trouble. w.mu is held.
func (b *book) oldNews(q *request) bool {
	return q.once && q.told.Equal(q.issued) && q.disturbed(span{b.heardAt(q), q.told})
}

// meet notes a feature of a request.
func (b *book) meet(q *request, f feature) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	q.met.add(f)
}
