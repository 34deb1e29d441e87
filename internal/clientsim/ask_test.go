package clientsim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// An ask holds the parameters of one request.
type ask struct {
	kind     feature
	name     string        // of a set: all names
	of       lockmgr.Set   // of a set
	n        int           // permits
	once     bool          // TryLock
	wait     time.Duration // MaxWait; negative: none
	patience time.Duration // of the context; zero: without an end
	byOption bool          // the context is that of WaitContext, and not that of the call
	lease    time.Duration // fixed; zero: watched
	keepFor  time.Duration
	takeOver string        // the ID of a hold whose name is kept
	bound    time.Duration // MaxHold
	fenced   bool
	note     string
	owner    *lockmgr.Owner
	contrary []lockmgr.LockOption // these contradict each other or the call
	hold     time.Duration
	do       bool
	leads    bool // Lead
}

// limitOf is the limit of all permits, until SetLimit changes it.
const limitOf = 3

func (w *world) drawAsk(r *rand.Rand, m *machine) ask {
	k := w.set.kinds
	a := ask{name: w.drawName(r, m), wait: -1, hold: logBetween(r, w.set.hold/20, w.set.hold)}
	if r.IntN(3) == 0 {
		a.hold = 0
	}
	w.drawKind(r, m, &a)
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
	a.byOption = k&abandon != 0 && r.IntN(4) == 0
	if k&fixed != 0 && r.IntN(2) == 0 {
		a.lease = logBetween(r, max(6*w.slowest(), 50*ms), 2*w.set.lease).Truncate(ms)
	}
	if k&long != 0 && r.IntN(3) == 0 {
		a.lease = 24 * time.Hour
	}
	if k&hopeless != 0 && r.IntN(4) == 0 {
		a.lease = lockmgr.MinLease
	}
	if k&bounded != 0 && a.lease == 0 && r.IntN(2) == 0 {
		a.bound = logBetween(r, w.set.lease/4, 2*w.set.lease).Truncate(ms)
	}
	if k&keeping != 0 && a.kind == plain && r.IntN(2) == 0 {
		a.keepFor = logBetween(r, w.set.lease/4, 3*w.set.lease).Truncate(ms)
		a.keepFor = min(max(a.keepFor, 20*ms), 20*sec)
	}
	if a.kind == plain {
		a.takeOver = w.book.drawKept(r, a.name)
	}
	a.fenced = k&fenced != 0 && a.kind != permits && r.IntN(2) == 0
	a.do = k&doing != 0 && r.IntN(2) == 0
	if k&noting != 0 && r.IntN(2) == 0 {
		a.note = "a note"
	}
	if k&owners != 0 && a.kind != permits && r.IntN(2) == 0 {
		m.mu.Lock()
		if len(m.owners) > 0 {
			a.owner = &m.owners[r.IntN(len(m.owners))]
		}
		m.mu.Unlock()
	}
	if k&contrary != 0 && r.IntN(8) == 0 { // may reset all
		w.drawContrary(r, &a)
	}
	return a
}

// drawName draws a name that a machine uses.
func (w *world) drawName(r *rand.Rand, m *machine) string {
	i := r.IntN(len(w.names))
	for range w.names {
		if home := w.set.home[i]; home < 0 || home == m.index {
			break
		}
		i = (i + 1) % len(w.names)
	}
	return w.names[i] // all names have another home: one of them, all the same
}

// drawKind draws what of a name is asked for, or a set of some names.
func (w *world) drawKind(r *rand.Rand, m *machine, a *ask) {
	switch a.kind = w.kindOf(a.name); a.kind {
	case reader:
		if r.IntN(5) < 2 {
			a.kind = writer
		}
	case permits:
		a.n = 1 + r.IntN(limitOf)
	}
	if w.set.kinds&sets == 0 || r.IntN(3) != 0 {
		return
	}
	var of lockmgr.Set
	for i, name := range w.names {
		switch kind := w.kindOf(name); {
		case w.set.home[i] >= 0 && w.set.home[i] != m.index:
		case kind == plain && r.IntN(3) > 0:
			of.Names = append(of.Names, name)
		case kind == reader && r.IntN(3) > 0:
			if r.IntN(2) == 0 {
				of.Shared = append(of.Shared, name)
			} else {
				of.Exclusive = append(of.Exclusive, name)
			}
		}
	}
	if all := slices.Concat(of.Names, of.Shared, of.Exclusive); len(all) > 0 {
		a.kind, a.of, a.name = set, of, strings.Join(all, "+")
	}
}

// drawContrary adds options that contradict each other, or the kind of the request.
func (w *world) drawContrary(r *rand.Rand, a *ask) {
	// The name has no other use, so that a request which is not refused disturbs nobody.
	if a.kind == permits {
		a.kind = plain
	}
	*a = ask{name: "contrary", kind: a.kind, wait: -1}
	if a.kind == set {
		a.of = lockmgr.Set{Names: []string{a.name}}
	}
	shared := lockmgr.Shared()
	all := [][]lockmgr.LockOption{
		{lockmgr.MaxWait(sec), lockmgr.OnlyIfFree()},
		{lockmgr.FixedLease(sec), lockmgr.MaxHold(sec)},
		{shared, lockmgr.Exclusive()},
		{lockmgr.Fair(), shared},
		{lockmgr.KeepFor(sec), shared},
		{lockmgr.KeepFor(sec), lockmgr.Fair()},
		{lockmgr.MaxWait(sec)}, // with TryLock
		{shared},               // with Lead
	}
	i := r.IntN(len(all))
	a.contrary = all[i]
	a.once, a.leads = i == 6, i == 7
}

// simple is an ask for one name without options.
func (w *world) simple(name string, i int) ask {
	a := ask{name: name, kind: w.kindOf(name), wait: -1}
	switch {
	case a.kind == reader && i%2 == 0:
		a.kind = writer
	case a.kind == permits:
		a.n = 1
	}
	return a
}

// kindOf returns the kind of lock that a name is; reader for both sides of a read-write lock.
func (w *world) kindOf(name string) feature {
	if i := slices.Index(w.names, name); i >= 0 {
		return w.set.kindOf[i]
	}
	return plain
}

// parts are the names of a request, each with the kind of its part.
func (a *ask) parts(do func(name string, kind feature)) {
	if a.kind != set {
		do(a.name, a.kind)
		return
	}
	for kind, names := range map[feature][]string{plain: a.of.Names, reader: a.of.Shared, writer: a.of.Exclusive} {
		for _, name := range names {
			do(name, kind)
		}
	}
}

// part returns the kind of one name of a request.
func (a *ask) part(name string) (kind feature) {
	kind = a.kind
	a.parts(func(n string, k feature) {
		if n == name {
			kind = k
		}
	})
	return kind
}

// each calls do with each option of a request, its value, and what a manager is given for it, if
// anything.
func (a *ask) each(do func(f feature, value any, given ...lockmgr.LockOption)) {
	if a.once {
		do(tryOnce, true)
	}
	if a.wait >= 0 && !a.once {
		do(maxWait, a.wait, lockmgr.MaxWait(a.wait))
	}
	if a.byOption {
		do(waitContext, true) // see arguments
	}
	if a.lease > 0 {
		do(fixedLease, a.lease, lockmgr.FixedLease(a.lease))
	}
	if a.keepFor > 0 {
		do(keepFor, a.keepFor, lockmgr.KeepFor(a.keepFor))
	}
	if a.takeOver != "" {
		do(takesOver, a.takeOver, lockmgr.TakeOver(a.takeOver))
	}
	if a.bound > 0 {
		do(maxHold, a.bound, lockmgr.MaxHold(a.bound))
	}
	if a.fenced {
		do(tokens, true, lockmgr.Fenced())
	}
	if a.note != "" {
		do(note, a.note, lockmgr.Note(a.note))
	}
	if a.owner != nil {
		do(asOwner, *a.owner, lockmgr.AsOwner(*a.owner))
	}
}

func (a *ask) options() (out []lockmgr.LockOption) {
	switch a.kind {
	case reader:
		out = append(out, lockmgr.Shared())
	case writer:
		out = append(out, lockmgr.Exclusive())
	case fair:
		out = append(out, lockmgr.Fair())
	}
	a.each(func(_ feature, _ any, given ...lockmgr.LockOption) { out = append(out, given...) })
	return append(out, a.contrary...)
}

// features are those that a request has from the beginning.
func (a *ask) features() features {
	s := featuresOf(a.kind)
	a.each(func(f feature, _ any, _ ...lockmgr.LockOption) { s.add(f) })
	return s
}

func (a *ask) String() string {
	s := fmt.Sprintf("%q n=%d hold=%v do=%v patience=%v", a.name, a.n, a.hold, a.do, a.patience)
	a.each(func(f feature, value any, _ ...lockmgr.LockOption) { s += fmt.Sprintf(" %v=%v", f, value) })
	return s
}

// prefix is how all names of a world begin.
const prefix = "na"

// says returns how callers call a name.
func (w *world) says(name string) string {
	if w.set.kinds&prefixed != 0 {
		return strings.TrimPrefix(name, prefix)
	}
	return name
}

// saysAll is says for a set.
func (w *world) saysAll(of lockmgr.Set) lockmgr.Set {
	all := func(names []string) (out []string) {
		for _, name := range names {
			out = append(out, w.says(name))
		}
		return out
	}
	return lockmgr.Set{Names: all(of.Names), Shared: all(of.Shared), Exclusive: all(of.Exclusive)}
}

// A requestKey is the key of a request in the context that the observer gets.
type requestKey struct{}

func (q *request) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestKey{}, q)
}

// arguments returns the context of a call and its options. ctx is what ends the wait.
func (q *request) arguments(ctx context.Context) (context.Context, []lockmgr.LockOption) {
	if !q.byOption {
		return q.context(ctx), q.options()
	}
	return q.context(q.m.w.ctx), append(q.options(), lockmgr.WaitContext(ctx))
}

// async is LockAsync, LockAllAsync or AcquireAsync.
func (q *request) async(mgr *lockmgr.Manager) *futures.Future[*lockmgr.Lock] {
	ctx, cancel := q.m.w.context(q.patience)
	context.AfterFunc(ctx, cancel)
	ctx, opts := q.arguments(ctx)
	opts = append(opts, lockmgr.TraceContext(ctx))
	w, name := q.m.w, q.m.w.says(q.name)
	switch q.kind {
	case set:
		return mgr.LockAllAsync(w.saysAll(q.of), opts...)
	case permits:
		return mgr.Permits(name, limitOf).AcquireAsync(q.n, opts...)
	}
	return mgr.LockAsync(name, opts...)
}

// lock is the call that blocks.
func (q *request) lock(ctx context.Context, mgr *lockmgr.Manager) (*lockmgr.Lock, error) {
	ctx, opts := q.arguments(ctx)
	w, name := q.m.w, q.m.w.says(q.name)
	switch p := mgr.Permits(name, limitOf); {
	case q.kind == set && q.once:
		return mgr.TryLockAll(ctx, w.saysAll(q.of), opts...)
	case q.kind == set:
		return mgr.LockAll(ctx, w.saysAll(q.of), opts...)
	case q.kind == permits && q.once:
		return p.TryAcquire(ctx, q.n, opts...)
	case q.kind == permits:
		return p.Acquire(ctx, q.n, opts...)
	case q.once:
		return mgr.TryLock(ctx, name, opts...)
	}
	return mgr.Lock(ctx, name, opts...)
}

// doing is Do, DoAll or that of permits.
func (q *request) doing(ctx context.Context, mgr *lockmgr.Manager, fn func(context.Context, *lockmgr.Lock) error) error {
	ctx, opts := q.arguments(ctx)
	w, name := q.m.w, q.m.w.says(q.name)
	switch q.kind {
	case set:
		return mgr.DoAll(ctx, w.saysAll(q.of), fn, opts...)
	case permits:
		return mgr.Permits(name, limitOf).Do(ctx, q.n, fn, opts...)
	}
	return mgr.Do(ctx, name, fn, opts...)
}
