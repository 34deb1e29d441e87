package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/check"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A wish is one request, as it was drawn.
type wish struct {
	name   int
	slow   bool
	fenced bool
	lease  time.Duration // zero: watched
	owner  *lockmgr.Owner
	kind   []lockmgr.LockOption // Shared or Exclusive for a read-write lock
	shared bool
}

func (w wish) options(more ...lockmgr.LockOption) []lockmgr.LockOption {
	more = append(more, w.kind...)
	if w.fenced {
		more = append(more, lockmgr.Fenced())
	}
	if w.lease > 0 {
		more = append(more, lockmgr.FixedLease(w.lease))
	}
	if w.owner != nil {
		more = append(more, lockmgr.AsOwner(*w.owner))
	}
	return more
}

// loop makes requests until the end. Every fourth goroutine is after the locks
// that are held for long, so that those can't make all others wait.
func (w *worker) loop(g int) {
	r := rand.New(rand.NewPCG(w.Seed, uint64(w.Life)<<16|uint64(g)))
	after := make([]int, 0, w.Names)
	for name := range w.Names {
		if slow(name, w.Names) == (g%4 == 3) {
			after = append(after, name)
		}
	}
	if len(after) == 0 {
		after = append(after, 0)
	}
	for {
		select {
		case <-w.stop:
			return
		default:
		}
		name := after[r.IntN(len(after))]
		x := wish{name: name, slow: slow(name, w.Names), fenced: r.IntN(4) > 0}
		if n := r.IntN(10); n == 0 || x.slow && n < 5 {
			most := w.Lease
			if r.IntN(4) > 0 {
				most /= 10
			}
			x.lease = 20*time.Millisecond + time.Duration(r.Int64N(int64(most)))
		}
		if r.IntN(20) == 0 {
			o := w.mgr.NewOwner()
			x.owner = &o
		}
		switch {
		case !readWrite(name, w.Names):
		case r.IntN(3) > 0:
			x.kind, x.shared = []lockmgr.LockOption{lockmgr.Shared()}, true
		default:
			x.kind = []lockmgr.LockOption{lockmgr.Exclusive()}
		}
		w.serve(r, x)
		if tryOnly(name, w.Names) {
			time.Sleep(time.Duration(r.Int64N(int64(w.Lease) / 50)))
		} else if r.IntN(4) == 0 {
			time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond) // thinks
		}
	}
}

// serve makes one request, and holds what it gets.
func (w *worker) serve(r *rand.Rand, x wish) {
	w.requests.Add(1)
	w.waiting.Add(1)
	h := &holder{w: w, r: r, wish: x}
	h.account = check.Hold{
		ID: uint64(w.Life)<<40 | w.lastHold.Add(1), Name: uint32(x.name), Proc: w.Life, Asked: clock(), Shared: x.shared,
	}
	lock, err := w.ask(r, x)
	w.waiting.Add(-1)
	switch {
	case err == nil:
		h.handle, h.lock = w.breaker.wrap(lock), lock
		if lock.Name() != lockName(x.name) {
			w.fault("asked for %s, got %s", lockName(x.name), lock.Name())
		}
		if x.fenced != (lock.Token() != 0) {
			w.fault("%s: fenced %v, but the token is %d", lock.Name(), x.fenced, lock.Token())
		}
		h.hold()
	case errors.Is(err, lockmgr.ErrNotAcquired):
		w.refused.Add(1)
		if h.handle = w.breaker.invent(r); h.handle != nil {
			h.hold()
		}
	case errors.Is(err, lockmgr.ErrCanceled), errors.Is(err, context.DeadlineExceeded):
		w.cancelled.Add(1)
	default:
		w.failed.Add(1)
		w.explain("a request", err)
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond) // what is down needs no hurry
	}
}

// ask makes one request in one of the ways there are.
func (w *worker) ask(r *rand.Rand, x wish) (*lockmgr.Lock, error) {
	ctx, name := context.Background(), lockName(x.name)
	most := 5 * time.Millisecond
	if x.slow {
		most = 200 * time.Millisecond
	}
	some := time.Duration(r.Int64N(int64(most)))
	n := r.IntN(100)
	if tryOnly(x.name, w.Names) {
		n = 45
	}
	switch {
	case n < 45:
		return w.mgr.Lock(ctx, name, x.options()...)
	case n < 60:
		return w.mgr.TryLock(ctx, name, x.options()...)
	case n < 72:
		return w.mgr.TryLock(ctx, name, x.options(lockmgr.MaxWait(4*some))...)
	case n < 82:
		ctx, cancel := context.WithTimeout(ctx, 2*some)
		defer cancel()
		return w.mgr.Lock(ctx, name, x.options()...)
	}
	f := w.mgr.LockAsync(name, x.options()...)
	late := time.NewTimer(some)
	defer late.Stop()
	select {
	case <-f.Done():
	case <-late.C:
		if f.Cancel() {
			return nil, lockmgr.ErrCanceled
		}
	}
	return f.Result()
}

// explain reports an error that none of the faults explains.
func (w *worker) explain(what string, err error) {
	switch {
	case errors.Is(err, lockmgr.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return // the server, or the way to it, was down
	case errors.Is(err, lockmgr.ErrClosed) && w.closing.Load():
		return
	case w.Breaking:
		return
	}
	w.fault("%s failed: %v", what, err)
}

// A holder is one hold and what is done under it.
type holder struct {
	w       *worker
	r       *rand.Rand
	wish    wish
	handle  handle
	lock    *lockmgr.Lock // nil: imagined
	account check.Hold
	kept    bool // the hold was reported as open
}

// sample looks whether the handle is valid, and keeps account of it.
func (h *holder) sample() bool {
	before := clock()
	left := h.handle.Remaining()
	return h.account.Sample(before, clock(), int64(left))
}

// hold is what becomes of a grant.
func (h *holder) hold() {
	h.account.Token = h.handle.Token()
	valid := h.sample()
	if valid && h.wish.fenced {
		h.use(false)
	}
	if h.wish.owner != nil && h.lock != nil && valid {
		h.reenter()
	}
	switch n := h.r.IntN(100); {
	case !valid:
	case h.lock == nil: // imagined: long enough to be in somebody's way
		h.stay(5 * time.Millisecond)
	case h.wish.slow && n < 40 && h.wish.lease > 0: // to the bitter end
		h.stay(2 * h.w.Lease)
	case h.wish.slow && n < 5: // watched: has to be renewed, or is lost in a fault
		h.stay(2 * h.w.Lease)
	case h.wish.slow && n < 20:
		h.stay(time.Duration(h.r.Int64N(int64(h.w.Lease / 4))))
	case h.wish.slow:
		h.stay(time.Duration(h.r.Int64N(int64(10 * time.Millisecond))))
	case n < 2:
		h.stay(time.Duration(h.r.Int64N(int64(2 * time.Millisecond))))
	}
	h.unlock()
}

// use writes, or reads for a holder that shares the lock.
func (h *holder) use(late bool) {
	if h.wish.shared {
		h.read()
	} else {
		h.write(late)
	}
}

// read looks at the register. A larger token there is that of a later writer, which
// must wait until this reader has ended.
func (h *holder) read() {
	seen := h.w.registers.list[h.account.Name].Token()
	if seen > h.account.Token && h.handle.Valid() && !h.w.Breaking && h.lock != nil {
		h.w.fault("%s: read what was written with token %d under token %d", lockName(h.wish.name), seen, h.account.Token)
	}
}

// write offers the token to the register. Late is for a holder who knows that
// it has lost the lock: an honest one would not write, but this one was on its
// way.
func (h *holder) write(late bool) {
	a := &h.account
	x := check.Write{Hold: a.ID, Token: a.Token, Name: a.Name, Proc: a.Proc, Late: late, Before: clock()}
	x.Accepted = h.w.registers.list[a.Name].Write(a.Token, uint64(h.w.Life)<<16|a.ID&0xffff)
	x.After = clock()
	x.Valid = h.handle.Valid()
	if x.Accepted && a.Wrote == 0 {
		a.Wrote = x.After
	}
	h.w.records.put(recWrite, &x)
}

// stay keeps the lock for d, or until it is lost.
func (h *holder) stay(d time.Duration) {
	var told <-chan struct{}
	if h.lock != nil && h.r.IntN(2) == 0 && h.w.Client == "" {
		ctx := h.lock.Context(context.Background())
		told = ctx.Done()
		defer func() {
			if ctx.Err() != nil && context.Cause(ctx) == nil {
				h.w.fault("%s: a context ended without a cause", lockName(h.wish.name))
			}
		}()
	} else {
		told = h.handle.Lost()
	}
	end := time.NewTimer(d)
	defer end.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	h.keep()
	for {
		select {
		case <-end.C:
			h.sample()
			return
		case <-look.C:
			if h.sample() {
				h.keep()
				continue
			}
			if told != nil { // the signal has to come, and how late it is counts
				select {
				case <-told:
				case <-time.After(restTime):
					h.w.fault("%s: not valid, but Lost was not closed within %v", lockName(h.wish.name), restTime)
				}
			}
			h.lost()
			return
		case <-told:
			h.lost()
			return
		}
	}
}

// keep reports the hold as it is, in case that this process is killed.
func (h *holder) keep() {
	h.kept = true
	h.w.records.put(recOpen, &h.account)
}

// lost is what a holder does that was told of its loss.
func (h *holder) lost() {
	saw := clock()
	if h.lock != nil && h.w.Client == "" {
		if h.lock.Valid() {
			h.w.fault("%s: valid after its loss was told", lockName(h.wish.name))
		}
		if err := h.lock.Err(); !errors.Is(err, lockmgr.ErrLeaseLost) && !errors.Is(err, lockmgr.ErrClosed) {
			h.w.fault("%s: lost, but Err is %v", lockName(h.wish.name), err)
		}
		h.w.records.put(recLoss, check.Loss{Proc: h.w.Life, Claim: h.account.Claim, Saw: saw})
	}
	h.account.Lose(saw)
	if h.wish.fenced {
		if h.r.IntN(2) == 0 {
			time.Sleep(time.Duration(h.r.Int64N(int64(h.w.Lease / 5)))) // so that somebody else may have written
		}
		h.use(true)
	}
}

// unlock gives the lock back, and reports the hold.
func (h *holder) unlock() {
	a := &h.account
	if h.wish.fenced && a.How != check.Lost && h.r.IntN(8) == 0 && h.sample() {
		h.use(false)
	}
	before := clock()
	left := h.handle.Remaining()
	a.Unlocking(before, clock(), int64(left))
	err := h.handle.Unlock(context.Background())
	a.Finish(clock(), err == nil)
	name := lockName(h.wish.name)
	if h.handle.Valid() {
		h.w.fault("%s: valid after its unlock", name)
	}
	switch {
	case err == nil && left == 0 && h.wish.lease > 0 && h.wish.owner == nil && h.w.Client == "":
		h.w.fault("%s: its fixed lease was over, but unlock said nothing of it", name)
	case err == nil, errors.Is(err, lockmgr.ErrLeaseLost):
	default:
		h.w.explain(fmt.Sprintf("%s: unlock", name), err)
	}
	h.w.records.put(recHold, a)
}

// reenter takes the lock once more for its owner, and gives one of the two back.
func (h *holder) reenter() {
	h.w.requests.Add(1)
	again, err := h.w.mgr.TryLock(context.Background(), lockName(h.wish.name), h.wish.options()...)
	name := lockName(h.wish.name)
	switch {
	case err == nil:
	case errors.Is(err, lockmgr.ErrNotAcquired) && h.lock.Valid():
		h.w.fault("%s: its owner holds it, but was refused", name)
		return
	case errors.Is(err, lockmgr.ErrNotAcquired):
		return
	default:
		h.w.explain("a re-entry", err)
		return
	}
	if !h.lock.Valid() {
		// Lost meanwhile: the other one may be a hold of its own, of which
		// no account is kept.
		_ = again.Unlock(context.Background())
		return
	}
	h.w.reentries.Add(1)
	if again.Token() != h.lock.Token() {
		h.w.fault("%s: re-entered with token %d, held with %d", name, again.Token(), h.lock.Token())
	}
	first := again
	if h.r.IntN(2) == 0 && h.w.Client == "" {
		first, h.lock, h.handle = h.lock, again, again
	}
	if err := first.Unlock(context.Background()); err != nil && !errors.Is(err, lockmgr.ErrLeaseLost) {
		h.w.explain(name+": unlock of one of two", err)
	}
	if first.Valid() {
		h.w.fault("%s: valid after its unlock", name)
	}
}
