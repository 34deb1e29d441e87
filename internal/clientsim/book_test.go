package clientsim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// invariants are the names of all that is checked.
var invariants = []string{
	"mutual exclusion", "a valid lock is recorded", "tokens rise", "lost in time", "lost for a reason", "who hears of a loss looks",
	"no orphans", "nothing left", "told in time", "errors tell the truth", "gives up in time", "trouble stays where it is",
	"a free lock is taken", "first come first served", "nobody starves", "who waits is subscribed", "nobody waits for ever",
	"unlock tells a loss", "close loses", "close ends", "goroutines",
}

// A book records the requests of callers and their results. The invariants
// compare it with the server. Its mutex is locked before that of the world.
type book struct {
	w *world

	mu       sync.Mutex
	managers map[string]*entry // by ID
	names    map[string]*pages
	seq      int
	grants   int
	doubts   []doubt
	records  map[string]*sighting
}

// An entry is the state of a manager.
type entry struct {
	m       *machine
	closing bool
	closed  bool
	excused bool // Close has said that it leaves something
	granted bool // has been granted a lock, so the server has answered it
}

// Pages are the state of a name.
type pages struct {
	requests []*request // without an answer, in order
	holds    []*hold    // not given back
	newest   int        // the seq of the last request
	token    int64
	busy     time.Time // when a caller last asked for it or had it
	counts   map[string]int
	last     map[string]time.Time // the last grant of each manager
	ended    map[string]time.Time // the last end of a hold of each manager
	held     map[string]time.Time // when a manager was last seen to hold it while the server was silent
	exempted map[string]time.Time // until when a forced unlock explains what a manager does
	forces   int                  // under way
	free     time.Time            // since when it is free though somebody waits
}

// A request is one request of a caller.
type request struct {
	ask
	seq     int
	m       *machine
	mgr     string // the manager's ID
	issued  time.Time
	told    time.Time // when it was answered; zero: not yet
	granted bool
	cancels bool // the caller may cancel it
	calm    bool // nothing was in its way when it was made
	alone   bool // the only one of its manager for the name
	joined  bool // part of an All or Any, whose caller gets its lock later or not at all

	base   int // one more than the grants of others when counting began
	baseAt time.Time
}

// A hold is a lock that a caller has.
type hold struct {
	*request
	lock   *lockmgr.Lock
	exempt bool      // lost to a forced unlock, or passed on by such a hold
	struck bool      // existed when the unlock was forced
	over   bool      // given back
	late   int       // how often it was seen neither valid nor lost
	lost   bool      // seen to be lost
	heard  time.Time // when the message of a forced unlock was sent to its manager
}

// A doubt is a request, first, that a later one, second, may have overtaken. It
// is decided at a later instant.
type doubt struct {
	first, second *request
	at            time.Time
}

// A sighting is a record that no caller has.
type sighting struct {
	field string
	since time.Time
}

func newBook(w *world) *book {
	return &book{w: w, managers: make(map[string]*entry), names: make(map[string]*pages), records: make(map[string]*sighting)}
}

func (b *book) add(mgr *lockmgr.Manager, m *machine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.managers[mgr.ID()] = &entry{m: m}
}

func (b *book) of(name string) *pages {
	p := b.names[name]
	if p == nil {
		p = &pages{
			counts: make(map[string]int), last: make(map[string]time.Time), ended: make(map[string]time.Time),
			exempted: make(map[string]time.Time), held: make(map[string]time.Time),
		}
		b.names[name] = p
	}
	return p
}

// ask notes a request, just before it is made.
func (b *book) ask(m *machine, mgr *lockmgr.Manager, a ask) *request {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	q := &request{ask: a, seq: b.seq, m: m, mgr: mgr.ID(), issued: now, cancels: a.patience > 0}
	p := b.of(a.name)
	q.alone = !slices.ContainsFunc(p.requests, func(o *request) bool { return o.mgr == q.mgr })
	q.calm = len(p.requests) == 0 && len(p.holds) == 0 && now.Sub(p.busy) > 2*sec && b.w.keyless(a.name) && m.host.latency < b.w.set.timeout/5
	p.requests = append(p.requests, q)
	p.busy, p.newest = now, q.seq
	b.w.tracef("machine %d: #%d asks for %v", m.index, q.seq, &q.ask)
	return q
}

func (w *world) keyless(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.server.keys.get(name) == nil
}

// leave notes that a caller has gone without a look at the answer.
func (b *book) leave(q *request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.w.tracef("machine %d: #%d is cancelled", q.m.index, q.seq)
	b.remove(q)
}

func (b *book) remove(q *request) {
	p := b.of(q.name)
	q.told, p.busy = time.Now(), time.Now()
	p.requests = slices.DeleteFunc(p.requests, func(o *request) bool { return o == q })
}

// answered notes the result of a request. It returns a hold if that is a lock.
func (b *book) answered(q *request, l *lockmgr.Lock, err error) *hold {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(q)
	b.inTime(q)
	b.w.see(err)
	if err != nil {
		b.w.tracef("machine %d: #%d failed: %v", q.m.index, q.seq, err)
		b.truth(q, err)
		return nil
	}
	b.w.tracef("machine %d: #%d has %q as %v, token %d", q.m.index, q.seq, q.name, l.HolderID(), l.Token())
	return b.granted(q, l)
}

func (b *book) granted(q *request, l *lockmgr.Lock) *hold {
	w := b.w
	p := b.of(q.name)
	h := &hold{request: q, lock: l}
	q.granted, b.managers[q.mgr].granted = true, true
	b.grants++
	// A reply that was under way when a forced unlock ran, and a lock that is
	// passed on in memory then, are lost already.
	h.exempt = p.forces > 0 || q.told.Before(p.exempted[q.mgr])
	re := false
	for _, o := range p.holds {
		if o.mgr == q.mgr && o.lock.Owner() == l.Owner() {
			re = true
			h.exempt = h.exempt || o.exempt
		}
	}
	if l.Valid() {
		for _, o := range p.holds {
			if !o.over && !o.exempt && !h.exempt && o.lock.Valid() && (o.mgr != q.mgr || o.lock.Owner() != l.Owner()) {
				w.fail("mutual exclusion", "#%d of machine %d and #%d of machine %d both have %q, as %s and %s, for another %v and %v", o.seq,
					o.m.index, q.seq, q.m.index, q.name, o.lock.HolderID(), l.HolderID(), o.lock.Remaining(), l.Remaining())
			}
		}
		if t := l.Token(); q.fenced && !re && !h.exempt {
			// A named owner may re-enter a hold that its caller gives back unseen.
			if t < p.token || t == p.token && q.owner == nil {
				w.fail("tokens rise", "#%d of machine %d has %d for %q, after %d", q.seq, q.m.index, t, q.name, p.token)
			}
			p.token = t
		}
	}
	p.counts[q.mgr]++
	p.last[q.mgr] = q.told
	p.holds = append(p.holds, h)
	b.recorded(h)
	if q.owner == nil && !re {
		for _, o := range p.requests {
			if o.mgr == q.mgr && o.seq < q.seq && o.issued.Before(q.issued) && o.owner == nil && !o.joined && !o.hopeless() && !(o.fenced && w.set.kinds&badCounter != 0) {
				b.doubts = append(b.doubts, doubt{o, q, q.told})
			}
		}
	}
	return h
}

// hopeless reports whether the lease is too short for the distance.
func (q *request) hopeless() bool {
	return q.lease > 0 && q.lease < 6*q.m.host.latency+50*ms
}

// unlocking notes that a caller is about to give a lock back. It reports
// whether the lock is valid.
func (b *book) unlocking(h *hold, patience time.Duration) (valid bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recorded(h)
	h.over = true
	b.w.mu.Lock()
	if h.struck || h.exempt && !b.w.recorded(h.name, h.mgr) {
		b.grace(b.of(h.name), h.mgr, h.m.host) // it may be passed on
	}
	b.w.mu.Unlock()
	valid = h.lock.Valid()
	b.w.tracef("machine %d: #%d gives %q back (valid: %v, patience %v)", h.m.index, h.seq, h.name, valid, patience)
	return valid
}

// unlocked notes the result of Unlock.
func (b *book) unlocked(h *hold, valid bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.w.tracef("machine %d: #%d was given back: %v", h.m.index, h.seq, err)
	p := b.of(h.name)
	p.holds = slices.DeleteFunc(p.holds, func(o *hold) bool { return o == h })
	p.busy, p.ended[h.mgr] = time.Now(), time.Now()
	if !valid && err == nil {
		b.w.fail("unlock tells a loss", "#%d of machine %d had lost %q, and Unlock returned nil", h.seq, h.m.index, h.name)
	}
}

// forcing notes a forced unlock just before the call: from now on every present
// hold of the name may be lost.
func (b *book) forcing(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.w.tracef("forced unlock of %q", name)
	p := b.of(name)
	p.forces++
	b.exempt(p)
	return name
}

// hears notes which holds end with a forced unlock that their managers hear
// of.
func (b *book) hears(p *pages, name string) {
	w := b.w
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for _, h := range p.holds {
		recent := span{now.Add(-5*sec - w.set.timeout), now}
		// Of two managers on one host the other may be the one that listens.
		if h.struck && h.m.shared == nil && w.listens(h.m.host, name) && !h.m.host.disturbed(recent) && h.lock.Valid() && !w.recorded(name, h.mgr) {
			h.heard = now
		}
	}
}

// listens reports whether a host is subscribed to the channel of a name. w.mu
// is held.
func (w *world) listens(h *host, name string) bool {
	return slices.ContainsFunc(w.server.subscribers["redisson_lock__channel:{"+name+"}"], func(c *conn) bool {
		return c.from == h && !c.closed && !c.broken
	})
}

// recorded reports whether a record carries a holder of a manager. w.mu is
// held.
func (w *world) recorded(name, mgr string) bool {
	return slices.ContainsFunc(w.server.keys.fields(name), func(f string) bool { return strings.HasPrefix(f, mgr+":") })
}

// forced notes the end of the call. A hold that began later must not be lost.
func (b *book) forced(name string, m *machine, there bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.w.tracef("machine %d: forced unlock of %q: %v %v", m.index, name, there, err)
	p := b.of(name)
	b.exempt(p)
	if p.forces--; there && err == nil {
		b.hears(p, name)
	}
}

func (b *book) exempt(p *pages) {
	w := b.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range p.holds {
		h.exempt, h.struck = true, true
	}
	// A manager whose caller has just gone may be about to be granted the lock.
	for id, e := range b.managers {
		b.grace(p, id, e.m.host)
	}
}

// grace excuses a manager for the time of a command, to learn of a forced unlock.
// w.mu is held.
func (b *book) grace(p *pages, id string, h *host) {
	w, now := b.w, time.Now()
	d := w.set.timeout + 6*w.slowest() + 200*ms
	if h.disturbed(span{now.Add(-w.set.lease), now}) {
		d += w.set.lease
	}
	p.exempted[id] = later(p.exempted[id], now.Add(d))
}

func (b *book) closing(mgr *lockmgr.Manager) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.managers[mgr.ID()].closing = true
}

func (b *book) closed(mgr *lockmgr.Manager, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.managers[mgr.ID()]
	e.closed, e.excused = true, err != nil
	for _, p := range b.names {
		for _, h := range p.holds {
			if h.mgr == mgr.ID() && h.lock.Valid() {
				b.w.fail("close loses", "#%d of machine %d has %q after Close", h.seq, h.m.index, h.name)
			}
		}
	}
}

// outcomes are the results of requests.
var outcomes = map[error]string{
	lockmgr.ErrWaitTimeout: "ErrWaitTimeout", lockmgr.ErrUnavailable: "ErrUnavailable", lockmgr.ErrClosed: "ErrClosed",
	lockmgr.ErrDeadlock: "ErrDeadlock", lockmgr.ErrPermission: "ErrPermission", lockmgr.ErrWrongType: "ErrWrongType",
	lockmgr.ErrKind:          "ErrKind",
	lockmgr.ErrLimit:         "ErrLimit",
	context.DeadlineExceeded: "DeadlineExceeded",
}

func (w *world) see(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for is, name := range outcomes {
		if errors.Is(err, is) {
			w.seen[name]++
		}
	}
}

// excused reports whether a record is one that Close has reported as left.
func (b *book) excused(fields []string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(fields, func(f string) bool {
		id, _, _ := strings.Cut(f, ":")
		return b.managers[id] != nil && b.managers[id].excused
	})
}

// longest is how long the holders that remain may take, one after the other.
func (b *book) longest() (d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.names {
		for _, q := range p.requests {
			d += q.hold + sec
		}
		for _, h := range p.holds {
			d += h.hold + sec
		}
	}
	return d
}

func (b *book) pending() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for name, p := range b.names {
		for _, q := range p.requests {
			out = append(out, fmt.Sprintf("#%d of machine %d waits for %q", q.seq, q.m.index, name))
		}
		for _, h := range p.holds {
			out = append(out, fmt.Sprintf("#%d of machine %d gives %q back", h.seq, h.m.index, name))
		}
	}
	slices.Sort(out)
	return strings.Join(out[:min(len(out), 8)], "; ")
}

// recorded checks that a valid lock has a record that lives at least as long.
func (b *book) recorded(h *hold) {
	w := b.w
	if h.exempt || h.over {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	left := h.lock.Remaining()
	if left <= 0 {
		return
	}
	fields, life := w.server.keys.fields(h.name), w.server.keys.life(h.name)
	switch {
	case !w.recorded(h.name, h.mgr):
		w.fail("a valid lock is recorded", "#%d of machine %d has %q as %s for another %v, the record has %q", h.seq, h.m.index, h.name,
			h.lock.HolderID(), left, fields)
	case life >= 0 && life < left:
		w.fail("a valid lock is recorded", "#%d of machine %d has %q for another %v, the record lives for %v", h.seq, h.m.index, h.name, left, life)
	}
}

// inTime checks that an answer kept the caller's limits, and was not late if
// nothing delayed it.
func (b *book) inTime(q *request) {
	w := b.w
	took := q.told.Sub(q.issued)
	if d := q.wait; d >= 0 && took-d > 200*ms && !q.granted {
		w.fail("gives up in time", "#%d of machine %d waited %v of %v", q.seq, q.m.index, took, d)
	}
	if d := q.patience; d > 0 && took-d > 200*ms {
		w.fail("gives up in time", "#%d of machine %d waited %v, its context lasted %v", q.seq, q.m.index, took, d)
	}
	limit := 6*(q.m.host.latency*4/3+ms) + 150*ms
	if !q.calm || took <= limit || q.joined || q.hopeless() {
		return
	}
	p := b.of(q.name)
	w.mu.Lock()
	defer w.mu.Unlock()
	in := span{q.issued.Add(-2 * sec), q.told}
	if p.newest != q.seq || w.late > 0 || w.crowded.After(q.issued) || q.m.host.disturbed(in) ||
		w.troubled(noPerm|badKey|badCounter|foreign, nil, q.name, in) || b.managers[q.mgr].closing {
		return
	}
	w.fail("trouble stays where it is", "#%d of machine %d waited %v for %q, which was free; %v would do", q.seq, q.m.index, took, q.name, limit)
}

// unanswered reports whether nothing may have been answered while a request
// waited: its manager has no answer yet, and a script that the server does not
// know takes two round trips.
func (b *book) unanswered(q *request) bool {
	return !b.managers[q.mgr].granted && q.told.Sub(q.issued) < 4*(2*q.m.host.latency*4/3+ms)
}

// truth checks that an error matches what happened.
func (b *book) truth(q *request, err error) {
	w := b.w
	p := b.of(q.name)
	w.mu.Lock()
	defer w.mu.Unlock()
	host := q.m.host
	in := span{q.issued.Add(-w.recovery), q.told}
	took := q.told.Sub(q.issued)
	ended := errors.Is(err, lockmgr.ErrCanceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	lie := func(why string) {
		w.fail("errors tell the truth", "#%d of machine %d failed after %v, though %s: %v", q.seq, q.m.index, took, why, err)
	}
	// Silent all the time and for longer than a command may take, and nobody in
	// this manager whom it could wait for.
	silent := host.silent > 0 && !host.silentFrom.After(q.issued) && q.alone && len(p.holds) == 0 && p.ended[q.mgr].Before(q.issued) &&
		took > w.set.timeout+6*w.slowest()+100*ms
	switch {
	case w.ctx.Err() != nil:
	case errors.Is(err, lockmgr.ErrClosed):
		if !b.managers[q.mgr].closing {
			lie("nobody has closed the manager")
		}
	case errors.Is(err, lockmgr.ErrDeadlock):
		if w.set.kinds&(owners|adopted|together) == 0 {
			lie("no owner has two locks")
		}
	case errors.Is(err, lockmgr.ErrNotFenced):
		if !q.fenced || q.owner == nil {
			lie("this is no re-entry")
		}
	case errors.Is(err, lockmgr.ErrPermission):
		if !w.troubled(noPerm, host, q.name, in) {
			lie("nobody has forbidden the name")
		}
	case errors.Is(err, lockmgr.ErrWrongType):
		if !w.troubled(badKey, nil, q.name, in) && !(q.fenced && w.troubled(badCounter, nil, q.name, in)) {
			lie("its keys are of the right types")
		}
	case errors.Is(err, lockmgr.ErrKind):
		if !w.troubled(foreign, nil, q.name, in) {
			lie("it is no other kind of lock")
		}
	case errors.Is(err, lockmgr.ErrUnavailable):
		if !host.disturbed(in) && !q.hopeless() && host.latency < w.set.timeout/5 && !b.unanswered(q) {
			lie("the server was there")
		}
	case ended && !q.cancels:
		lie("nobody has cancelled it")
	case silent && (errors.Is(err, lockmgr.ErrNotAcquired) || ended && q.patience > 0 && !errors.Is(err, lockmgr.ErrCanceled)):
		lie("the server was silent all the time")
	case ended:
	case errors.Is(err, lockmgr.ErrNotAcquired):
		if q.wait < 0 && !q.once {
			lie("it had no limit")
		}
	case q.hopeless():
	default:
		lie("nothing like that has happened")
	}
}
