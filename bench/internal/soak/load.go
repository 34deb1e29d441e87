package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/check"
	"github.com/holdfast-go/holdfast/bench/internal/clock"
	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A wish is one request, as it was drawn.
type wish struct {
	items   []item // one, or those of a set
	slow    bool   // one of them is held for long
	tries   bool   // never waits
	permits int    // how many of the item are wanted; zero: the item is a lock
	fenced  bool
	lease   time.Duration // zero: watched
	owner   *lockmgr.Owner
}

// An item is one lock of a wish, or permits.
type item struct {
	name      int
	readWrite bool
	shared    bool
	fair      bool
}

func (w wish) isSet() bool { return len(w.items) > 1 }

// names returns the names, sorted as those of a Lock.
func (w wish) names() []string {
	var names []string
	for _, it := range w.items {
		names = append(names, lockName(it.name))
	}
	slices.Sort(names)
	return names
}

func (w wish) String() string { return strings.Join(w.names(), ", ") }

// set returns the set of all items.
func (w wish) set() lockmgr.Set {
	var s lockmgr.Set
	for _, it := range w.items {
		to := &s.Names
		switch {
		case it.shared:
			to = &s.Shared
		case it.readWrite:
			to = &s.Exclusive
		}
		*to = append(*to, lockName(it.name))
	}
	return s
}

func (w wish) options(more ...lockmgr.LockOption) []lockmgr.LockOption {
	switch it := w.items[0]; {
	case w.isSet():
	case it.shared:
		more = append(more, lockmgr.Shared())
	case it.readWrite:
		more = append(more, lockmgr.Exclusive())
	case it.fair:
		more = append(more, lockmgr.Fair())
	}
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

// A set has setLeast to setMost names.
const (
	setLeast = 2
	setMost  = 5
)

// takesSets reports whether a goroutine asks for sets, in half of its turns. Some of those that are
// after hot locks do, and fewer of the others. A set often waits for a second, so if all asked for
// sets, most would wait for them.
func takesSets(g int) bool { return g%8 == 1 || g%16 == 7 }

// takesPermits reports whether a goroutine asks for permits, in a quarter of its turns. It is one
// that is after hot locks and does not ask for sets. A request for several permits often waits for
// a second, too, so half of the requests want one.
func takesPermits(g int) bool { return g%4 == 2 }

// loop makes requests until the end. Every fourth goroutine is after the locks that are held for
// long, so that those can't make all others wait. The sets of these goroutines have locks of both
// kinds.
func (w *worker) loop(g int) {
	r := rand.New(rand.NewPCG(w.Seed, uint64(w.Life)<<16|uint64(g)))
	after, together := make([]int, 0, w.Names), make([]int, 0, w.Names)
	for name := range w.Names {
		mine := slow(name, w.Names) == (g%4 == 3)
		if mine {
			after = append(after, name)
		}
		if (mine || g%4 == 3) && !tryOnly(name, w.Names) && !fair(name, w.Names) { // a set has no fair locks
			together = append(together, name)
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
		x := wish{fenced: r.IntN(4) > 0}
		switch {
		case takesPermits(g) && r.IntN(4) == 0:
			i := r.IntN(permitNames)
			x.items = []item{{name: w.Names + i}}
			x.permits, x.slow, x.fenced = 1+r.IntN(permitMost)*r.IntN(2), i == permitNames-1, false
		case takesSets(g) && len(together) >= setLeast && r.IntN(2) == 0:
			for _, name := range w.draw(r, together) {
				x.items = append(x.items, w.item(r, name))
				x.slow = x.slow || slow(name, w.Names)
			}
		default:
			name := after[skewed(r, len(after))]
			x.items = []item{w.item(r, name)}
			x.slow, x.tries = slow(name, w.Names), tryOnly(name, w.Names)
		}
		if n := r.IntN(10); n == 0 || x.slow && n < 5 {
			most := w.Lease
			if r.IntN(4) > 0 {
				most /= 10
			}
			x.lease = 20*time.Millisecond + time.Duration(r.Int64N(int64(most)))
		}
		if x.permits == 0 && r.IntN(20) == 0 {
			o := w.mgr.NewOwner()
			x.owner = &o
		}
		w.serve(r, x)
		if x.tries {
			time.Sleep(time.Duration(r.Int64N(int64(w.Lease) / 50)))
		} else if r.IntN(4) == 0 {
			time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond) // thinks
		}
	}
}

// draw draws the names of a set. Every second one of a cluster has names of one slot, and may have
// one only. The names of the others are in any slots.
func (w *worker) draw(r *rand.Rand, from []int) []int {
	if w.Cluster && r.IntN(2) == 0 {
		g := group(from[skewed(r, len(from))])
		from = slices.DeleteFunc(slices.Clone(from), func(name int) bool { return group(name) != g })
	}
	n := min(setLeast+r.IntN(setMost-setLeast+1), len(from))
	var out []int
	for _, i := range r.Perm(len(from))[:n] {
		out = append(out, from[i])
	}
	return out
}

// skewed draws a number below n. Of many, some are drawn far more often than others, so that there
// are hot names among them.
func skewed(r *rand.Rand, n int) int {
	if n <= 64 {
		return r.IntN(n)
	}
	x := r.Float64()
	return int(float64(n) * x * x * x)
}

// item draws a side of a lock.
func (w *worker) item(r *rand.Rand, name int) item {
	it := item{name: name, readWrite: readWrite(name, w.Names), fair: fair(name, w.Names)}
	it.shared = it.readWrite && r.IntN(3) > 0
	return it
}

// serve makes one request, and holds what it gets.
func (w *worker) serve(r *rand.Rand, x wish) {
	w.counts[requests].Add(1)
	w.waiting.Add(1)
	h := &holder{w: w, r: r, wish: x}
	asked := clock.Now()
	for _, it := range x.items {
		h.accounts = append(h.accounts, check.Hold{
			ID: uint64(w.Life)<<40 | w.lastHold.Add(1), Name: uint32(it.name), Proc: w.Life, Asked: asked, Shared: it.shared, Permits: uint16(x.permits),
		})
	}
	lock, err := w.ask(r, x)
	w.waiting.Add(-1)
	switch {
	case err == nil:
		h.handle, h.lock = w.breaker.wrap(lock), lock
		switch {
		case x.isSet():
			w.counts[sets].Add(1)
			w.counts[setNames].Add(uint64(len(x.items)))
		case x.permits > 0:
			w.counts[permitGrants].Add(1)
			w.counts[permitsGranted].Add(uint64(x.permits))
		}
		w.granted(x, lock)
		h.hold()
	case errors.Is(err, lockmgr.ErrNotAcquired):
		w.counts[refused].Add(1)
		if h.handle = w.breaker.invent(r); h.handle != nil {
			h.hold()
		}
	case errors.Is(err, lockmgr.ErrCanceled), errors.Is(err, context.DeadlineExceeded):
		w.counts[cancelled].Add(1)
	default:
		w.counts[failed].Add(1)
		w.explain("a request", err)
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond) // what is down needs no hurry
	}
}

// granted checks that a lock is what was asked for.
func (w *worker) granted(x wish, lock *lockmgr.Lock) {
	if w.Client == partial {
		return // it is not
	}
	if got := lock.Names(); !slices.Equal(got, x.names()) || lock.IsSet() != x.isSet() {
		w.fault("asked for %s, got %q", x, got)
	}
	ids := slices.Sorted(slices.Values(lock.PermitIDs()))
	if len(ids) != x.permits || len(slices.Compact(slices.Clone(ids))) != x.permits {
		w.fault("asked for %d permits of %s, got %q", x.permits, x, ids)
	}
	for _, name := range x.names() {
		if token := lock.TokenOf(name); x.fenced != (token != 0) {
			w.fault("%s: fenced %v, but the token of %s is %d", x, x.fenced, name, token)
		}
	}
}

// ask makes one request in one of the ways there are.
func (w *worker) ask(r *rand.Rand, x wish) (*lockmgr.Lock, error) {
	ctx := context.Background()
	most := 5 * time.Millisecond
	if x.slow {
		most = 200 * time.Millisecond
	}
	some := time.Duration(r.Int64N(int64(most)))
	n := r.IntN(100)
	if x.tries {
		n = 45
	}
	switch {
	case n < 45:
		return w.lock(ctx, x)
	case n < 60:
		return w.try(ctx, x)
	case n < 72:
		return w.lock(ctx, x, lockmgr.MaxWait(4*some))
	case n < 82:
		ctx, cancel := context.WithTimeout(ctx, 2*some)
		defer cancel()
		return w.lock(ctx, x)
	}
	f := w.lockAsync(x)
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

func (w *worker) lock(ctx context.Context, x wish, more ...lockmgr.LockOption) (*lockmgr.Lock, error) {
	switch {
	case x.isSet():
		return w.mgr.LockAll(ctx, w.breaker.set(x), x.options(more...)...)
	case x.permits > 0:
		return w.permitsOf(x).Acquire(ctx, x.permits, x.options(more...)...)
	}
	return w.mgr.Lock(ctx, x.names()[0], x.options(more...)...)
}

func (w *worker) try(ctx context.Context, x wish) (*lockmgr.Lock, error) {
	switch {
	case x.isSet():
		return w.mgr.TryLockAll(ctx, w.breaker.set(x), x.options()...)
	case x.permits > 0:
		return w.permitsOf(x).TryAcquire(ctx, x.permits, x.options()...)
	}
	return w.mgr.TryLock(ctx, x.names()[0], x.options()...)
}

func (w *worker) lockAsync(x wish) *futures.Future[*lockmgr.Lock] {
	switch {
	case x.isSet():
		return w.mgr.LockAllAsync(w.breaker.set(x), x.options()...)
	case x.permits > 0:
		return w.permitsOf(x).AcquireAsync(x.permits, x.options()...)
	}
	return w.mgr.LockAsync(x.names()[0], x.options()...)
}

// permitsOf returns the permits of which a wish wants some.
func (w *worker) permitsOf(x wish) lockmgr.Permits {
	return w.mgr.Permits(x.names()[0], w.breaker.limit())
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

// A holder is one hold and what is done under it. It keeps an account for each lock.
type holder struct {
	w        *worker
	r        *rand.Rand
	wish     wish
	handle   handle
	lock     *lockmgr.Lock // nil: imagined
	accounts []check.Hold  // of the items of the wish
}

// sample looks whether the handle is valid, and keeps account of it.
func (h *holder) sample() (valid bool) {
	before := clock.Now()
	left := h.handle.Remaining()
	after := clock.Now()
	for i := range h.accounts {
		valid = h.accounts[i].Sample(before, after, int64(left))
	}
	return valid
}

// hold is what becomes of a grant.
func (h *holder) hold() {
	for i := range h.accounts {
		h.accounts[i].Token = h.handle.TokenOf(lockName(h.wish.items[i].name))
	}
	valid := h.sample()
	if valid && h.wish.fenced {
		h.use(false)
	}
	if h.wish.owner != nil && h.lock != nil && valid {
		h.reenter()
	}
	long := 40 // percent of the fixed leases
	if h.wish.isSet() || h.wish.permits > 0 {
		long = 10 // a set has more than one lock, and not only slow ones; permits are wanted by more
	}
	switch n := h.r.IntN(100); {
	case !valid:
	case h.lock == nil: // imagined: long enough to be in somebody's way
		h.stay(5 * time.Millisecond)
	case h.wish.slow && n < long && h.wish.lease > 0: // to the bitter end
		h.stay(2 * h.w.Lease)
	case h.wish.slow && n < long/8: // watched: has to be renewed, or is lost in a fault
		h.stay(2 * h.w.Lease)
	case h.wish.slow && n < long/2:
		h.stay(time.Duration(h.r.Int64N(int64(h.w.Lease / 4))))
	case h.wish.slow:
		h.stay(time.Duration(h.r.Int64N(int64(10 * time.Millisecond))))
	case n < 2, h.wish.permits > 0 && n < 40: // so that several have permits at a time
		h.stay(time.Duration(h.r.Int64N(int64(2 * time.Millisecond))))
	}
	h.unlock()
}

// use writes to each register, or reads it if the lock is shared.
func (h *holder) use(late bool) {
	for i := range h.accounts {
		if a := &h.accounts[i]; a.Shared {
			h.read(a)
		} else {
			h.write(a, late)
		}
	}
}

// read looks at the register. A larger token there is that of a later writer, which must wait until
// this reader has ended.
func (h *holder) read(a *check.Hold) {
	seen := h.w.registers.list[a.Name].Token()
	if seen > a.Token && h.handle.Valid() && !h.w.Breaking && h.lock != nil {
		h.w.fault("%s: read what was written with token %d under token %d", lockName(int(a.Name)), seen, a.Token)
	}
}

// write offers the token to the register. Late is for a holder who knows that it has lost the lock:
// an honest one would not write, but this one was on its way.
func (h *holder) write(a *check.Hold, late bool) {
	x := check.Write{Hold: a.ID, Token: a.Token, Name: a.Name, Proc: a.Proc, Late: late, Before: clock.Now()}
	x.Accepted = h.w.registers.list[a.Name].Write(a.Token, uint64(h.w.Life)<<16|a.ID&0xffff)
	x.After = clock.Now()
	x.Valid = h.handle.Valid()
	if x.Accepted && a.Wrote == 0 {
		a.Wrote = x.After
	}
	h.w.records.put(record{Write: &x})
}

// stay keeps the lock for d, or until it is lost.
func (h *holder) stay(d time.Duration) {
	var told <-chan struct{}
	if h.lock != nil && h.r.IntN(2) == 0 && h.w.Client == "" {
		ctx := h.lock.Context(context.Background())
		told = ctx.Done()
		defer func() {
			if ctx.Err() != nil && context.Cause(ctx) == nil {
				h.w.fault("%s: a context ended without a cause", h.wish)
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
					h.w.fault("%s: not valid, but Lost was not closed within %v", h.wish, restTime)
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
	for i := range h.accounts {
		h.w.records.put(record{Open: &h.accounts[i]})
	}
}

// lost is what a holder does that was told of its loss.
func (h *holder) lost() {
	saw := clock.Now()
	if h.lock != nil && h.w.Client == "" {
		if h.lock.Valid() {
			h.w.fault("%s: valid after its loss was told", h.wish)
		}
		if err := h.lock.Err(); !errors.Is(err, lockmgr.ErrLeaseLost) && !errors.Is(err, lockmgr.ErrClosed) {
			h.w.fault("%s: lost, but Err is %v", h.wish, err)
		}
		h.w.records.put(record{Loss: &check.Loss{Proc: h.w.Life, Claim: h.accounts[0].Claim, Saw: saw}})
	}
	for i := range h.accounts {
		h.accounts[i].Lose(saw)
	}
	if h.wish.fenced {
		if h.r.IntN(2) == 0 {
			time.Sleep(time.Duration(h.r.Int64N(int64(h.w.Lease / 5)))) // so that somebody else may have written
		}
		h.use(true)
	}
}

// unlock gives the lock back, and reports the hold.
func (h *holder) unlock() {
	if h.wish.fenced && h.accounts[0].How != check.Lost && h.r.IntN(8) == 0 && h.sample() {
		h.use(false)
	}
	before := clock.Now()
	left := h.handle.Remaining()
	after := clock.Now()
	for i := range h.accounts {
		h.accounts[i].Unlocking(before, after, int64(left))
	}
	err := h.handle.Unlock(context.Background())
	ended := clock.Now()
	name := h.wish.String()
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
	for i := range h.accounts {
		h.accounts[i].Finish(ended, err == nil)
		h.w.records.put(record{Hold: &h.accounts[i]})
	}
}

// reenter takes the lock once more for its owner, and gives one of the two back.
func (h *holder) reenter() {
	h.w.counts[requests].Add(1)
	again, err := h.w.try(context.Background(), h.wish)
	name := h.wish.String()
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
		// Lost meanwhile: the other one may be a hold of its own, of which no account is kept.
		_ = again.Unlock(context.Background())
		return
	}
	h.w.counts[reentries].Add(1)
	for _, n := range h.wish.names() {
		if again.TokenOf(n) != h.lock.TokenOf(n) {
			h.w.fault("%s: re-entered with token %d of %s, held with %d", name, again.TokenOf(n), n, h.lock.TokenOf(n))
		}
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
