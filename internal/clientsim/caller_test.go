package clientsim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// plan draws the requests and the faults, and their instants.
func (w *world) plan() {
	for i := range w.set.strikes {
		w.planStrike(i)
	}
	r := stream(w.seed, 3)
	for i, at := 0, time.Duration(0); i < w.set.requests; i++ {
		// Bursts and long pauses.
		if r.IntN(4) == 0 {
			at += time.Duration(r.ExpFloat64() * 4 * float64(w.set.life) / float64(w.set.requests))
		} else {
			at += time.Duration(r.Int64N(int64(20 * ms)))
		}
		if at >= w.set.life {
			break
		}
		w.at(at, func() { w.one(w.rng(3000, i)) })
	}
	if w.set.kinds&hot != 0 {
		w.planHot(stream(w.seed, 4))
	}
	if w.set.kinds&noPerm != 0 {
		w.planHoard(stream(w.seed, 9))
	}
	if w.set.kinds&redisson != 0 {
		w.planStrangers(stream(w.seed, 12))
	}
	if w.set.kinds&crowd != 0 {
		w.planCrowd(stream(w.seed, 5))
	}
	if w.set.kinds&closing != 0 {
		r := stream(w.seed, 6)
		for range 1 + r.IntN(3) {
			m := w.machines[r.IntN(len(w.machines))]
			patience := []time.Duration{0, ms, 100 * ms, sec}[r.IntN(4)]
			w.at(time.Duration(r.Int64N(int64(w.set.life))), func() { m.restart(patience) })
		}
	}
}

// at has a caller begin at an instant of the life of the world. The end waits for it.
func (w *world) at(d time.Duration, f func()) {
	w.calls.Add(1)
	time.AfterFunc(d, func() {
		defer w.calls.Done()
		select {
		case <-w.stopped:
		default:
			f()
		}
	})
}

// one runs one caller.
func (w *world) one(r *rand.Rand) {
	m := w.machines[r.IntN(len(w.machines))]
	if home := w.set.home[0]; home >= 0 && len(w.names) == 1 {
		m = w.machines[home]
	}
	mgr := m.current()
	if mgr == nil {
		return
	}
	k := w.set.kinds
	a := w.drawAsk(r, m)
	switch {
	case a.contrary != nil:
		w.contradict(m, mgr, a)
	case k&force != 0 && r.IntN(12) == 0:
		w.force(mgr, w.names[r.IntN(len(w.names))], r)
	case k&looking != 0 && r.IntN(4) == 0:
		w.inspect(mgr, w.names[r.IntN(len(w.names))], r)
	case a.kind == reader && r.IntN(4) == 0:
		w.upgrade(m, mgr, a, r)
	case a.kind == reader && r.IntN(4) == 0:
		w.follow(m, mgr, a, r)
	case a.kind == permits && k&limits != 0 && r.IntN(4) == 0:
		w.limit(mgr, a.name, r.IntN(2*limitOf+2), r)
	case a.kind == permits && r.IntN(2) == 0:
		w.keep(w.lock(m, mgr, a), a.hold, r)
	case k&(owners|adopted) != 0 && r.IntN(12) == 0 && len(w.plainNames()) > 1:
		w.cross(m, mgr, r)
	case k&(owners|adopted) != 0 && a.kind != permits && r.IntN(6) == 0:
		w.again(m, mgr, a, r)
	case k&together != 0 && r.IntN(2) == 0:
		w.together(m, mgr, r)
	case k&abandon != 0 && r.IntN(3) == 0:
		w.asTheReadme(m, mgr, a, r)
	case k&slowCallback != 0 && r.IntN(4) == 0:
		w.withCallback(m, mgr, a, r)
	case a.do && !a.once:
		w.do(m, mgr, a, r)
	default:
		w.keep(w.lock(m, mgr, a), a.hold, r)
	}
}

// plainNames are the names of plain locks.
func (w *world) plainNames() (out []string) {
	for i, name := range w.names {
		if w.set.kindOf[i] == plain {
			out = append(out, name)
		}
	}
	return out
}

// lock is Lock or TryLock.
func (w *world) lock(m *machine, mgr *lockmgr.Manager, a ask) *hold {
	q := w.book.ask(m, mgr, a)
	if w.cheat == slack {
		w.pause(time.Duration(q.seq%3) * 300 * ms)
	}
	ctx, cancel := w.context(a.patience)
	defer cancel()
	l, err := q.lock(ctx, mgr)
	h := w.book.answered(q, l, err)
	if w.set.kinds&looking != 0 && err != nil {
		w.tracef("%v: %v", q, mgr.Explain(ctx, err))
	}
	return h
}

// do locks, waits and unlocks by one call.
func (w *world) do(m *machine, mgr *lockmgr.Manager, a ask, r *rand.Rand) {
	q := w.book.ask(m, mgr, a)
	w.book.meet(q, byDo)
	ctx, cancel := w.context(a.patience)
	defer cancel()
	var h *hold
	valid := false
	err := q.doing(ctx, mgr, func(_ context.Context, l *lockmgr.Lock) error {
		if h = w.book.answered(q, l, nil); h != nil {
			w.hold(h, a.hold, r)
			valid = w.book.unlocking(h, 0)
		}
		return nil
	})
	if h != nil {
		w.book.unlocked(h, valid, err)
	} else if !q.granted {
		w.book.answered(q, nil, err)
	}
}

// inspect looks at a name, or at all. The managers that have a name before and afterwards must be
// found.
func (w *world) inspect(mgr *lockmgr.Manager, name string, r *rand.Rand) {
	ctx, cancel := w.context(logBetween(r, ms, 3*w.set.timeout))
	defer cancel()
	if r.IntN(2) == 0 {
		w.scan(ctx, mgr)
		return
	}
	if w.kindOf(name) == permits {
		info, err := mgr.Permits(w.says(name), limitOf).Inspect(ctx)
		w.tracef("permits %q: %+v: %v", name, info, err)
		return
	}
	before := w.book.holding(name)
	info, err := mgr.Inspect(ctx, w.says(name))
	w.tracef("%q: %+v: %v", name, info, err)
	if err == nil {
		w.book.inspected(name, before, info.Holders)
	}
}

// scan is inspect for all names but those of permits, whose holders have other names.
func (w *world) scan(ctx context.Context, mgr *lockmgr.Manager) {
	before, found, began := make(map[string][]*hold), make(map[string][]lockmgr.Holder), time.Now()
	for _, name := range w.names {
		before[name] = w.book.holding(name)
	}
	for info, err := range mgr.Scan(ctx, w.says(w.names[0])[:1]) {
		if w.tracef("scan: %+v: %v", info, err); err != nil {
			return
		}
		found[info.Name] = info.Holders
	}
	for _, name := range w.names {
		w.mu.Lock()
		moved := w.movedSince(name, began)
		w.mu.Unlock()
		if w.kindOf(name) != permits && !moved {
			w.book.inspected(name, before[name], found[name])
		}
	}
}

// contradict makes a request with options that contradict each other.
func (w *world) contradict(m *machine, mgr *lockmgr.Manager, a ask) {
	q := w.book.ask(m, mgr, a)
	ctx, cancel := w.context(sec)
	defer cancel()
	var l *lockmgr.Lock
	var err error
	if a.leads {
		err = mgr.Lead(ctx, w.says(a.name), func(context.Context, int64) error { return errors.New("it leads") }, a.contrary...)
	} else {
		l, err = q.lock(ctx, mgr)
	}
	w.mu.Lock()
	w.book.promise13b(q, err)
	w.mu.Unlock()
	if err != nil {
		w.book.leave(q, false)
		return
	}
	w.unlock(w.book.answered(q, l, nil), w.rng(6000, q.seq))
}

// follow has a reader without a lease of its own join another, and stay.
func (w *world) follow(m *machine, mgr *lockmgr.Manager, a ask, r *rand.Rand) {
	first := w.lock(m, mgr, a)
	if first == nil {
		return
	}
	second := w.lock(m, mgr, ask{kind: reader, name: a.name, wait: -1, patience: sec})
	w.keep(first, a.hold/4, r)
	w.keep(second, logBetween(r, sec, 2*w.set.lease+10*sec), r)
}

// upgrade asks for the write side as an owner that reads.
func (w *world) upgrade(m *machine, mgr *lockmgr.Manager, a ask, r *rand.Rand) {
	a.once = false
	read := w.lock(m, mgr, a)
	if read == nil {
		return
	}
	w.hold(read, a.hold/4, r)
	o := read.lock.Owner()
	up := a
	up.kind, up.owner, up.once, up.wait, up.patience = writer, &o, true, -1, 0
	w.keep(w.lock(m, mgr, up), a.hold, r)
	w.keep(read, a.hold/4, r)
}

// keep holds a lock for a while and gives it back, unless it is nil.
func (w *world) keep(h *hold, d time.Duration, r *rand.Rand) {
	if h == nil {
		return
	}
	w.hold(h, d, r)
	w.unlock(h, r)
}

// hold holds a lock for a while.
func (w *world) hold(h *hold, d time.Duration, r *rand.Rand) {
	if r.IntN(4) == 0 {
		w.mu.Lock()
		h.ctx = h.lock.Context(w.ctx)
		w.mu.Unlock()
	}
	if w.set.kinds&extending != 0 && r.IntN(3) == 0 {
		w.wait(h, d/2, r)
		w.extend(h, r)
		d /= 2
	}
	w.wait(h, d, r)
}

func (w *world) wait(h *hold, d time.Duration, r *rand.Rand) {
	if d == 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-h.lock.Lost():
		if r.IntN(2) == 0 {
			w.pause(d) // does not look
		}
	case <-w.stopped:
	}
}

// extend prolongs a lock.
func (w *world) extend(h *hold, r *rand.Rand) {
	d := logBetween(r, w.set.lease/4, 2*w.set.lease)
	ctx, cancel := w.context(w.set.timeout)
	defer cancel()
	w.book.extending(h, d)
	err := h.lock.Extend(ctx, d)
	w.book.extended(h, d, err)
}

func (w *world) unlock(h *hold, r *rand.Rand) {
	patience := time.Duration(0)
	if r.IntN(4) == 0 {
		patience = logBetween(r, ms, w.set.timeout)
	}
	ctx, cancel := w.context(patience)
	defer cancel()
	valid := w.book.unlocking(h, patience)
	w.book.unlocked(h, valid, h.lock.Unlock(ctx))
}

// again re-enters: as the owner of an anonymous lock, or as a named one that takes what it has just
// given back.
func (w *world) again(m *machine, mgr *lockmgr.Manager, a ask, r *rand.Rand) {
	if a.owner == nil && w.set.kinds&adopted != 0 {
		b := a
		if r.IntN(2) == 0 {
			b.keepFor, b.lease = 0, 0
		}
		first := w.lock(m, mgr, b)
		if first == nil {
			return
		}
		o := first.lock.Owner()
		a.owner = &o
		a.fenced = false
		if a.do = false; r.IntN(2) == 0 {
			q := w.book.ask(m, mgr, a)
			f := q.async(mgr)
			w.pause(logBetween(r, ms, 20*ms))
			granted := isClosed(f.Done())
			f.Cancel()
			w.book.leave(q, granted)
		} else {
			w.keep(w.lock(m, mgr, a), a.hold, r)
		}
		w.keep(first, a.hold, r)
		return
	}
	// For as long as a command may be late.
	end := time.Now().Add(time.Duration(r.Int64N(int64(30 * sec))))
	for i := 0; i < 20 && time.Now().Before(end); i++ {
		w.keep(w.lock(m, mgr, a), logBetween(r, max(a.hold, ms), 4*sec), r)
		if !w.pause(logBetween(r, ms, sec)) {
			return
		}
	}
}

// cross has two owners of one manager wait for each other. One of them must be told.
func (w *world) cross(m *machine, mgr *lockmgr.Manager, r *rand.Rand) {
	names := w.plainNames()
	i := r.IntN(len(names))
	a := ask{name: names[i], wait: -1, patience: w.set.lease, hold: ms}
	b := ask{name: names[(i+1)%len(names)], wait: -1, patience: w.set.lease, hold: ms}
	adopt := w.set.kinds&adopted != 0 && r.IntN(2) == 0
	if !adopt {
		x, y := mgr.NewOwner(), mgr.NewOwner()
		a.owner, b.owner = &x, &y
	}
	ha := w.lock(m, mgr, a)
	if ha == nil {
		return
	}
	if hb := w.lock(m, mgr, b); hb != nil {
		oa, ob := ha.lock.Owner(), hb.lock.Owner()
		a.name, b.name = b.name, a.name
		a.owner, b.owner = &oa, &ob
		// If one of the two is lost, a cycle over two managers can form, which no manager breaks.
		a.patience, b.patience = 4*w.set.lease, 4*w.set.lease
		done := make(chan struct{})
		began := time.Now()
		var broken atomic.Bool
		w.after(sec, func() {
			if !broken.Load() && ha.lock.Valid() && hb.lock.Valid() {
				w.book.promise14d("the circle of %v and %v on machine %d has lasted for a second", oa, ob, m.index)
			}
		})
		w.tracef("machine %d: a circle begins: %v and %v (adopted: %v)", m.index, oa, ob, adopt)
		w.spawn(func() {
			defer close(done)
			h := w.lock(m, mgr, a)
			broken.Store(true)
			w.keep(h, ms, rand.New(rand.NewPCG(w.seed, 7)))
			w.unlock(ha, rand.New(rand.NewPCG(w.seed, 8)))
		})
		h := w.lock(m, mgr, b)
		broken.Store(true)
		w.keep(h, ms, r)
		w.unlock(hb, r)
		select {
		case <-done:
		case <-w.stopped:
		}
		w.tracef("machine %d: the circle of %v and %v lasted %v", m.index, oa, ob, time.Since(began))
		return
	}
	w.unlock(ha, r)
}

// asTheReadme selects on a future and a timer, as the README does, then cancels the future; or it
// cancels right after the grant, without reading the result.
func (w *world) asTheReadme(m *machine, mgr *lockmgr.Manager, a ask, r *rand.Rand) {
	q := w.book.ask(m, mgr, a)
	q.cancels = true
	f := q.async(mgr)
	patience := a.patience
	if patience == 0 {
		patience = logBetween(r, ms, 2*w.set.lease)
	}
	if r.IntN(3) == 0 {
		select {
		case <-f.Done():
		case <-time.After(patience):
		case <-w.stopped:
		}
		granted := isClosed(f.Done())
		f.Cancel()
		if _, err := f.Result(); err != nil && !errors.Is(err, futures.ErrCanceled) {
			w.book.answered(q, nil, err) // it had failed before
			return
		}
		w.book.leave(q, granted)
		return
	}
	select {
	case <-f.Done():
		l, err := f.Result()
		w.keep(w.book.answered(q, l, err), a.hold, r)
	case <-time.After(patience):
		f.Cancel()
		w.book.leave(q, false)
	case <-w.stopped:
		f.Cancel()
	}
}

// withCallback registers a slow callback. OnDone runs the callback itself if the future is settled, and the caller shall
// not nap: so another goroutine registers it.
func (w *world) withCallback(m *machine, mgr *lockmgr.Manager, a ask, r *rand.Rand) {
	q := w.book.ask(m, mgr, a)
	q.cancels = true
	f := q.async(mgr)
	nap := logBetween(r, ms, sec)
	w.calls.Go(func() {
		f.OnDone(func(*lockmgr.Lock, error) { w.pause(nap) })
	})
	ctx, cancel := w.context(a.patience)
	defer cancel()
	l, err := f.Await(ctx)
	w.keep(w.book.answered(q, l, err), a.hold, r)
}

// together asks for several names by All or Any.
func (w *world) together(m *machine, mgr *lockmgr.Manager, r *rand.Rand) {
	n := 1 + r.IntN(len(w.names))
	first := r.IntN(len(w.names))
	all := r.IntN(2) == 0
	wait := logBetween(r, ms, w.set.lease)
	var qs []*request
	var fs []*futures.Future[*lockmgr.Lock]
	for i := range n {
		// In one order, so that those who want all don't block each other for ever.
		name := w.names[i]
		if !all {
			name = w.names[(first+i)%len(w.names)]
		}
		a := w.simple(name, i)
		if b := w.drawAsk(r, m); b.kind == a.kind && b.contrary == nil && b.owner == nil {
			b.name, b.n, b.patience = a.name, a.n, 0
			a = b
		}
		a.once, a.wait = false, wait
		q := w.book.ask(m, mgr, a)
		q.cancels, q.joined = true, true
		w.book.mayDrop(q)
		qs = append(qs, q)
		fs = append(fs, q.async(mgr))
	}
	drop := func(l *lockmgr.Lock) { l.UnlockAsync() }
	ctx, cancel := w.context(logBetween(r, ms, w.set.lease))
	defer cancel()
	var got []*lockmgr.Lock
	if all {
		if locks, err := futures.All(drop, fs...).Await(ctx); err == nil {
			got = locks
		}
	} else if l, err := futures.Any(drop, fs...).Await(ctx); err == nil {
		got = append(got, l)
	}
	var holds []*hold
	for _, q := range qs {
		taken := false
		for _, l := range got {
			if l.Name() == q.name && !taken {
				taken = true
				if h := w.book.answered(q, l, nil); h != nil {
					holds = append(holds, h)
				}
			}
		}
		if !taken {
			w.book.untaken(q)
		}
	}
	for _, h := range holds {
		w.keep(h, w.set.hold/10, r)
	}
}

// limit sets the limit of permits, or deletes the permits, with which the server forgets their
// limit.
func (w *world) limit(mgr *lockmgr.Manager, name string, n int, r *rand.Rand) {
	ctx, cancel := w.context(logBetween(r, w.set.timeout, 3*w.set.timeout))
	defer cancel()
	p := mgr.Permits(w.says(name), limitOf)
	if n < 2*limitOf {
		i := w.book.limiting(name, n)
		w.book.limited(name, i, p.SetLimit(ctx, n) == nil)
		return
	}
	i := w.book.limiting(name, limitOf) // by the next request
	gone, _ := p.Delete(ctx)
	w.book.limited(name, i, gone)
}

func (w *world) force(mgr *lockmgr.Manager, name string, r *rand.Rand) {
	ctx, cancel := w.context(logBetween(r, w.set.timeout, 3*w.set.timeout))
	defer cancel()
	victim := w.book.victim(name, r)
	switch kind := w.kindOf(name); {
	case kind == permits && victim == nil:
		return
	case kind != permits && r.IntN(2) == 0:
		victim = nil // all
	}
	w.book.forcing(name, victim)
	var there bool
	var err error
	switch {
	case victim == nil:
		there, err = mgr.ForceUnlock(ctx, w.says(name))
	case victim.kind == permits:
		there, err = mgr.Permits(w.says(name), limitOf).Return(ctx, victim.lock.PermitIDs()...)
	default:
		there, err = mgr.ForceUnlockHolders(ctx, w.says(name), victim.lock.HolderID())
	}
	w.book.forced(name, victim, there, err)
}

// planHot has goroutines take one name again and again on each machine.
func (w *world) planHot(r *rand.Rand) {
	lasts := min(8*sec, w.set.life/2)
	at := time.Duration(r.Int64N(int64(w.set.life - lasts)))
	nap := logBetween(r, 5*ms, 20*ms)
	if w.set.kinds&force != 0 {
		w.planForces(at, lasts, r)
	}
	reads := r.IntN(2) == 0
	for _, m := range w.machines {
		if home := w.set.home[0]; home >= 0 && home != m.index {
			continue
		}
		for i := range 1 + r.IntN(3) {
			w.at(at, func() {
				r := w.rng(4000+m.index, i)
				for end := time.Now().Add(lasts); time.Now().Before(end) && !w.failed(); {
					mgr := m.current()
					if mgr == nil {
						return
					}
					a := w.simple(w.names[0], i)
					a.hold = nap
					a.fenced = w.set.kinds&fenced != 0 && a.kind != permits
					if reads && (a.kind == writer || a.kind == reader) {
						a.kind, a.once = reader, r.IntN(4) == 0
					}
					h := w.lock(m, mgr, a)
					if h == nil {
						if !w.pause(100 * ms) {
							return
						}
						continue
					}
					w.pause(nap + time.Duration(r.Int64N(int64(ms))))
					valid := w.book.unlocking(h, 0)
					_, err := h.lock.UnlockAsync().Await(w.ctx)
					w.book.unlocked(h, valid, err)
				}
			})
		}
	}
}

// planForces has one machine force the first name again and again.
func (w *world) planForces(at, lasts time.Duration, r *rand.Rand) {
	m := w.machines[r.IntN(len(w.machines))]
	var begins []time.Duration
	for end := at + lasts; at < end; at += logBetween(r, 20*ms, 2*sec) {
		begins = append(begins, at)
	}
	for _, begin := range begins {
		w.at(begin, func() {
			if mgr := m.current(); mgr != nil {
				w.force(mgr, w.names[0], w.rng(8000, int(at/ms)))
			}
		})
	}
}

// planHoard has one machine take all names, one after the other, and keep them for some leases, so
// that they are renewed together.
func (w *world) planHoard(r *rand.Rand) {
	m := w.machines[r.IntN(len(w.machines))]
	at := time.Duration(r.Int64N(int64(w.set.life)))
	for i, name := range w.names {
		w.at(at+time.Duration(i)*20*ms, func() {
			if mgr := m.current(); mgr != nil {
				a := w.simple(name, i)
				a.patience = w.set.lease
				w.keep(w.lock(m, mgr, a), 3*w.set.lease, w.rng(5000, i))
			}
		})
	}
}

// planCrowd asks for many names at once just after the server has stopped.
func (w *world) planCrowd(r *rand.Rand) {
	n := 600 + r.IntN(1000)
	at := time.Duration(r.Int64N(int64(w.set.life)))
	lasts := logBetween(r, w.set.retry, 4*w.set.retry)
	m := w.machines[r.IntN(len(w.machines))]
	w.at(at, func() {
		mgr := m.current()
		if mgr == nil {
			return
		}
		w.mu.Lock()
		w.stopServers(lasts)
		w.crowded = time.Now().Add(lasts + w.recovery + 20*sec)
		w.mu.Unlock()
		for i := range n {
			a := ask{name: fmt.Sprintf(prefix+"crowd%d", i), kind: plain, wait: -1}
			q := w.book.ask(m, mgr, a)
			f := q.async(mgr)
			w.calls.Add(1)
			f.OnDone(func(l *lockmgr.Lock, err error) {
				defer w.calls.Done()
				if h := w.book.answered(q, l, err); h != nil {
					valid := w.book.unlocking(h, 0)
					w.calls.Add(1)
					l.UnlockAsync().OnDone(func(_ struct{}, err error) {
						defer w.calls.Done()
						w.book.unlocked(h, valid, err)
					})
				}
			})
		}
	})
}
