package clientsim

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// at has a caller begin at an instant of the life of the world. The end waits
// for it.
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

// An ask holds the parameters of one request.
type ask struct {
	name     string
	once     bool          // TryLock
	wait     time.Duration // MaxWait; negative: none
	patience time.Duration // of the context; zero: without an end
	lease    time.Duration // fixed; zero: watched
	fenced   bool
	owner    *lockmgr.Owner
	hold     time.Duration
}

func (w *world) drawAsk(r *rand.Rand, m *machine) ask {
	k := w.set.kinds
	a := ask{name: w.names[r.IntN(len(w.names))], wait: -1, hold: logBetween(r, w.set.hold/20, w.set.hold)}
	if k&abandon != 0 && r.IntN(2) == 0 {
		d := logBetween(r, ms, 2*w.set.lease)
		switch r.IntN(4) {
		case 0:
			a.once = true
		case 1:
			a.wait = d
			if k&endless != 0 {
				a.wait = math.MaxInt64
			}
		default:
			a.patience = d
		}
	} else if r.IntN(8) == 0 {
		a.once = true
	}
	if k&fixed != 0 && r.IntN(2) == 0 {
		a.lease = logBetween(r, max(6*w.slowest(), 50*ms), 2*w.set.lease).Truncate(ms)
	}
	if k&long != 0 && r.IntN(3) == 0 {
		a.lease = 24 * time.Hour
	}
	if k&hopeless != 0 && r.IntN(4) == 0 {
		a.lease = lockmgr.MinLease
	}
	a.fenced = k&fenced != 0 && r.IntN(2) == 0
	if k&owners != 0 && r.IntN(2) == 0 {
		m.mu.Lock()
		if len(m.owners) > 0 {
			a.owner = &m.owners[r.IntN(len(m.owners))]
		}
		m.mu.Unlock()
	}
	return a
}

func (a *ask) options() (out []lockmgr.LockOption) {
	if a.wait >= 0 {
		out = append(out, lockmgr.MaxWait(a.wait))
	}
	if a.lease > 0 {
		out = append(out, lockmgr.FixedLease(a.lease))
	}
	if a.fenced {
		out = append(out, lockmgr.Fenced())
	}
	if a.owner != nil {
		out = append(out, lockmgr.AsOwner(*a.owner))
	}
	return out
}

func (a *ask) String() string {
	s := fmt.Sprintf("%q hold=%v", a.name, a.hold)
	if a.once {
		s += " once"
	}
	if a.wait >= 0 {
		s += fmt.Sprintf(" wait=%v", a.wait)
	}
	if a.patience > 0 {
		s += fmt.Sprintf(" patience=%v", a.patience)
	}
	if a.lease > 0 {
		s += fmt.Sprintf(" lease=%v", a.lease)
	}
	if a.fenced {
		s += " fenced"
	}
	if a.owner != nil {
		s += fmt.Sprintf(" owner=%v", *a.owner)
	}
	return s
}

// one runs one caller.
func (w *world) one(r *rand.Rand) {
	m := w.machines[r.IntN(len(w.machines))]
	mgr := m.current()
	if mgr == nil {
		return
	}
	k := w.set.kinds
	a := w.drawAsk(r, m)
	switch {
	case k&force != 0 && r.IntN(12) == 0:
		w.force(m, mgr, a.name, r)
	case k&(owners|adopted) != 0 && r.IntN(12) == 0 && len(w.names) > 1:
		w.cross(m, mgr, r)
	case k&(owners|adopted) != 0 && r.IntN(6) == 0:
		w.again(m, mgr, a, r)
	case k&together != 0 && r.IntN(3) == 0:
		w.together(m, mgr, r)
	case k&abandon != 0 && r.IntN(3) == 0:
		w.asTheReadme(m, mgr, a, r)
	case k&slowCallback != 0 && r.IntN(4) == 0:
		w.withCallback(m, mgr, a, r)
	default:
		if h := w.lock(m, mgr, a); h != nil {
			w.keep(h, a.hold, r)
		}
	}
}

// lock is Lock or TryLock.
func (w *world) lock(m *machine, mgr *lockmgr.Manager, a ask) *hold {
	q := w.book.ask(m, mgr, a)
	if w.cheat == slack {
		w.pause(time.Duration(q.seq%3) * 300 * ms)
	}
	ctx, cancel := w.context(a.patience)
	defer cancel()
	var l *lockmgr.Lock
	var err error
	if a.once {
		l, err = mgr.TryLock(ctx, a.name, a.options()...)
	} else {
		l, err = mgr.Lock(ctx, a.name, a.options()...)
	}
	return w.book.answered(q, l, err)
}

// keep holds a lock for a while and gives it back.
func (w *world) keep(h *hold, d time.Duration, r *rand.Rand) {
	if h == nil {
		return
	}
	select {
	case <-time.After(d):
	case <-h.lock.Lost():
		if r.IntN(2) == 0 {
			select {
			case <-time.After(d): // does not look
			case <-w.stopped:
			}
		}
	case <-w.stopped:
	}
	if r.IntN(16) == 0 {
		h.lock.Context(w.ctx)
	}
	w.unlock(h, r)
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

// again re-enters: as the owner of an anonymous lock, or as a named one that
// takes what it has just given back.
func (w *world) again(m *machine, mgr *lockmgr.Manager, a ask, r *rand.Rand) {
	if a.owner == nil && w.set.kinds&adopted != 0 {
		first := w.lock(m, mgr, a)
		if first == nil {
			return
		}
		o := first.lock.Owner()
		a.owner = &o
		a.fenced = false
		second := w.lock(m, mgr, a)
		w.keep(second, a.hold, r)
		w.keep(first, a.hold, r)
		return
	}
	// For as long as a command may be late.
	end := time.Now().Add(time.Duration(r.Int64N(int64(30 * sec))))
	for i := 0; i < 20 && time.Now().Before(end); i++ {
		w.keep(w.lock(m, mgr, a), logBetween(r, a.hold, 4*sec), r)
		if !w.pause(logBetween(r, ms, sec)) {
			return
		}
	}
}

// cross has two owners of one manager wait for each other. One of them must be
// told.
func (w *world) cross(m *machine, mgr *lockmgr.Manager, r *rand.Rand) {
	i := r.IntN(len(w.names))
	a := ask{name: w.names[i], wait: -1, patience: w.set.lease, hold: ms}
	b := ask{name: w.names[(i+1)%len(w.names)], wait: -1, patience: w.set.lease, hold: ms}
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
		// If one of the two is lost, a cycle over two managers can form, which
		// no manager breaks.
		a.patience, b.patience = 4*w.set.lease, 4*w.set.lease
		done := make(chan struct{})
		began := time.Now()
		var broken atomic.Bool
		w.after(sec, func() {
			if !broken.Load() && ha.lock.Valid() && hb.lock.Valid() {
				w.fail("nobody waits for ever", "the circle of %v and %v on machine %d has lasted for a second", oa, ob, m.index)
			}
		})
		w.tracef("machine %d: a circle begins: %v and %v (adopted: %v)", m.index, oa, ob, adopt)
		w.do(func() {
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

// asTheReadme selects on a future and a timer, as the README does, then cancels
// the future; or it cancels right after the grant, without reading the result.
func (w *world) asTheReadme(m *machine, mgr *lockmgr.Manager, a ask, r *rand.Rand) {
	q := w.book.ask(m, mgr, a)
	q.cancels = true
	f := mgr.LockAsync(a.name, a.options()...)
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
		f.Cancel()
		if _, err := f.Result(); err != nil && !errors.Is(err, futures.ErrCanceled) {
			w.book.answered(q, nil, err) // it had failed before
			return
		}
		w.book.leave(q)
		return
	}
	select {
	case <-f.Done():
		l, err := f.Result()
		w.keep(w.book.answered(q, l, err), a.hold, r)
	case <-time.After(patience):
		f.Cancel()
		w.book.leave(q)
	case <-w.stopped:
		f.Cancel()
	}
}

// withCallback registers a slow callback.
func (w *world) withCallback(m *machine, mgr *lockmgr.Manager, a ask, r *rand.Rand) {
	q := w.book.ask(m, mgr, a)
	q.cancels = true
	f := mgr.LockAsync(a.name, a.options()...)
	nap := logBetween(r, ms, sec)
	f.OnDone(func(*lockmgr.Lock, error) { w.pause(nap) })
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
		// In one order, so that those who want all don't block each other
		// for ever.
		a := ask{name: w.names[i], wait: wait}
		if !all {
			a.name = w.names[(first+i)%len(w.names)]
		}
		q := w.book.ask(m, mgr, a)
		q.cancels, q.joined = true, true
		qs = append(qs, q)
		fs = append(fs, mgr.LockAsync(a.name, a.options()...))
	}
	drop := func(l *lockmgr.Lock) { l.UnlockAsync() }
	ctx, cancel := w.context(logBetween(r, ms, w.set.lease))
	defer cancel()
	var got []*lockmgr.Lock
	if all {
		got, _ = awaitAll(futures.All(drop, fs...), ctx)
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
			w.book.leave(q)
		}
	}
	for _, h := range holds {
		w.keep(h, w.set.hold/10, r)
	}
}

// awaitAll returns what a caller takes from All: nothing if it failed.
func awaitAll(f *futures.Future[[]*lockmgr.Lock], ctx context.Context) ([]*lockmgr.Lock, error) {
	locks, err := f.Await(ctx)
	if err != nil {
		return nil, err
	}
	return locks, nil
}

func (w *world) force(m *machine, mgr *lockmgr.Manager, name string, r *rand.Rand) {
	ctx, cancel := w.context(logBetween(r, w.set.timeout, 3*w.set.timeout))
	defer cancel()
	f := w.book.forcing(name)
	there, err := mgr.ForceUnlock(ctx, name)
	w.book.forced(f, m, there, err)
}

// planHot has goroutines take one name again and again on each machine.
func (w *world) planHot(r *rand.Rand) {
	lasts := min(20*sec, w.set.life/2)
	at := time.Duration(r.Int64N(int64(w.set.life - lasts)))
	nap := logBetween(r, 5*ms, 20*ms)
	for _, m := range w.machines {
		for i := range 1 + r.IntN(3) {
			w.at(at, func() {
				r := w.rng(4000+m.index, i)
				for end := time.Now().Add(lasts); time.Now().Before(end) && !w.failed(); {
					mgr := m.current()
					if mgr == nil {
						return
					}
					h := w.lock(m, mgr, ask{name: w.names[0], wait: -1, hold: nap})
					if h == nil {
						if !w.pause(100 * ms) {
							return
						}
						continue
					}
					select {
					case <-time.After(nap + time.Duration(r.Int64N(int64(ms)))):
					case <-w.stopped:
					}
					valid := w.book.unlocking(h, 0)
					_, err := h.lock.UnlockAsync().Await(w.ctx)
					w.book.unlocked(h, valid, err)
				}
			})
		}
	}
}

// planHoard has one machine take all names, one after the other, and keep them
// for some leases, so that they are renewed together.
func (w *world) planHoard(r *rand.Rand) {
	m := w.machines[r.IntN(len(w.machines))]
	at := time.Duration(r.Int64N(int64(w.set.life)))
	for i, name := range w.names {
		w.at(at+time.Duration(i)*20*ms, func() {
			if mgr := m.current(); mgr != nil {
				w.keep(w.lock(m, mgr, ask{name: name, wait: -1, patience: w.set.lease}), 3*w.set.lease, w.rng(5000, i))
			}
		})
	}
}

// planCrowd asks for many names at once just after the server has stopped.
func (w *world) planCrowd(r *rand.Rand) {
	n := 600 + r.IntN(2000)
	at := time.Duration(r.Int64N(int64(w.set.life)))
	lasts := logBetween(r, w.set.retry, 4*w.set.retry)
	m := w.machines[r.IntN(len(w.machines))]
	w.at(at, func() {
		mgr := m.current()
		if mgr == nil {
			return
		}
		w.mu.Lock()
		w.stopServer(lasts)
		w.crowded = time.Now().Add(lasts + w.recovery + 20*sec)
		w.mu.Unlock()
		for i := range n {
			a := ask{name: fmt.Sprintf("crowd%d", i), wait: -1}
			q := w.book.ask(m, mgr, a)
			f := mgr.LockAsync(a.name)
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
