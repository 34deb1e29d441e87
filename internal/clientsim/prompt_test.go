package clientsim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/raced"
	"github.com/holdfast-go/holdfast/internal/thorough"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Without a fault, nobody waits for what is free: see Promptness in doc.go.
func TestPrompt(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	begin, n := uint64(1), thorough.Choose(150, 5000)
	if raced.On {
		n = 30
	}
	if *seeds > 0 {
		begin, n = *first, *seeds
	}
	if *seed >= 0 {
		begin, n = uint64(*seed), 1
	}
	for i := begin; i < begin+uint64(n); i++ {
		uuid.SetRand(&randReader{stream(i, 2)})
		synctest.Test(t, func(t *testing.T) { walk(t, i) })
		uuid.SetRand(nil)
		if t.Failed() {
			return
		}
	}
}

// promptly is how long a request may wait for something that is free. promptly is shorter than the
// time between two tries, and longer than all that a manager puts off for a moment.
const promptly = 500 * ms

// A walker takes steps: it asks, cancels and unlocks, and looks who could have been granted a lock.
type walker struct {
	t        *testing.T
	w        *world
	r        *rand.Rand
	managers []*lockmgr.Manager
	kinds    []feature // of the locks that are asked for

	waiting, held []*wish
	kept          string   // the ID of the hold that plain0 is kept for, or ""
	ids           []string // of ended holds of plain0
	gone          bool     // MaxWait has ended a request a moment ago, which may have stood in the way
}

// A wish is a request.
type wish struct {
	manager int
	kind    feature
	names   []string
	permits int
	takes   string // TakeOver
	keeps   bool   // KeepFor
	ends    bool   // MaxWait
	future  *futures.Future[*lockmgr.Lock]
	lock    *lockmgr.Lock
}

func (x *wish) String() string {
	return fmt.Sprintf("manager %d, %v of %q permits=%d takes=%q keeps=%v", x.manager, x.kind, x.names, x.permits, x.takes, x.keeps)
}

// walk takes the steps of one seed.
func walk(t *testing.T, n uint64) {
	r := stream(n, 1)
	set := settings{
		servers: 1, rate: 1, lease: 20 * sec, timeout: 2 * sec, retry: 5 * sec, keepAlive: sec, writeTimeout: 2 * sec,
		linger: []time.Duration{0, -1, 50 * ms}[r.IntN(3)], passCount: []int{0, 1, 3}[r.IntN(3)], managers: 1 + r.IntN(3),
		passTime: []time.Duration{0, 0, ms}[r.IntN(3)], forget: r.IntN(2) == 0,
	}
	if r.IntN(4) == 0 {
		set.kinds, set.servers = clustered, 2
	}
	for range set.managers {
		set.latency = append(set.latency, logBetween(r, 50*time.Microsecond, 5*ms))
	}
	o := options{seed: n}
	if *seed >= 0 {
		o.trace = os.Stdout
	}
	w := newWorld(o, set)
	v := &walker{t: t, w: w, r: r, kinds: []feature{plain, reader, fair, permits}}
	if i := r.IntN(6); i < 4 {
		v.kinds = v.kinds[i : i+1]
	}
	for i, latency := range set.latency {
		h := &host{w: w, index: i, latency: latency, refused: make(map[string]int)}
		w.hosts = append(w.hosts, h)
		options := w.managerOptions(h)
		options.Observer = nil
		m, err := lockmgr.Dial(w.clientOption(h), options)
		if err != nil {
			t.Fatal(err)
		}
		v.managers = append(v.managers, m)
	}
	for range 120 {
		v.step()
		if i := r.IntN(5); i > 0 { // the next step meets scripts in flight
			w.pause(time.Duration(r.Int64N(int64(w.slowest()))) * time.Duration(i/2))
			continue
		}
		for v.gone = true; v.gone; {
			v.gone = false
			w.pause(promptly)
			v.settle()
		}
		x := v.late()
		if x == nil {
			x = v.circle()
		}
		if x == nil && r.IntN(3) == 0 {
			x = v.try()
		}
		if x != nil {
			for _, line := range w.trace.lines() {
				t.Log(line)
			}
			t.Errorf("seed %d: %v is free, and not granted within %v\nheld: %v\nwaiting: %v", n, x, promptly, v.held, v.waiting)
		}
		if t.Failed() {
			break
		}
	}
	for _, m := range v.managers {
		_ = m.Close(context.Background())
	}
	w.pause(10 * sec) // the client of a cluster looks at the layout
	w.tearDown()
}

// step asks for a lock, cancels a request, or unlocks.
func (v *walker) step() {
	switch x := v.r.IntN(10); {
	case x < 5 && len(v.waiting) < 6, len(v.waiting)+len(v.held) == 0:
		v.ask()
	case x < 7 && len(v.waiting) > 0:
		x := v.waiting[v.r.IntN(len(v.waiting))]
		v.w.tracef("cancels %v", x)
		v.waiting = slices.DeleteFunc(v.waiting, func(o *wish) bool { return o == x })
		x.future.Cancel()
	case len(v.held) > 0:
		x := v.held[v.r.IntN(len(v.held))]
		v.held = slices.DeleteFunc(v.held, func(o *wish) bool { return o == x })
		v.unlock(x)
	}
	if v.kept != "" && v.r.IntN(6) == 0 { // else nobody gets the lock for an hour
		v.w.tracef("breaks plain0")
		_, _ = v.managers[0].ForceUnlockHolders(context.Background(), "plain0", v.kept+":kept")
		v.kept = ""
	}
}

func (v *walker) ask() {
	var opts []lockmgr.LockOption
	ends := v.r.IntN(6) == 0
	if ends {
		opts = append(opts, lockmgr.MaxWait(logBetween(v.r, ms, promptly)))
	}
	x := v.wish(opts...)
	x.ends = ends
	v.waiting = append(v.waiting, x)
}

// try asks with a single try. A granted request goes to held. try returns the request if the server
// refuses a lock that is free.
func (v *walker) try() *wish {
	x := v.wish(lockmgr.OnlyIfFree())
	if x.kind == reader && len(v.managers) > 1 {
		x.future.Cancel() // readers of a manager make room when others have waited: see admitImpatient
		return nil
	}
	free := !slices.ContainsFunc(x.names, func(name string) bool { return v.mayWait(x, name) || v.asked(name) })
	_, err := x.future.Await(context.Background())
	switch {
	case err == nil:
		v.waiting = append(v.waiting, x)
		v.settle()
	case !errors.Is(err, lockmgr.ErrNotAcquired):
		v.t.Error(x, err)
	case free:
		return x
	}
	return nil
}

// asked reports whether a request waits for a name. A single try goes behind it.
func (v *walker) asked(name string) bool {
	return slices.ContainsFunc(v.waiting, func(o *wish) bool { return slices.Contains(o.names, name) })
}

// wish asks for a lock.
func (v *walker) wish(opts ...lockmgr.LockOption) *wish {
	x := &wish{manager: v.r.IntN(len(v.managers)), kind: v.kinds[v.r.IntN(len(v.kinds))]}
	m := v.managers[x.manager]
	if v.r.IntN(4) == 0 && x.kind != permits {
		opts = append(opts, lockmgr.Fenced())
	}
	if v.r.IntN(5) == 0 {
		opts = append(opts, lockmgr.FixedLease(time.Hour))
	}
	switch x.kind {
	case plain:
		x.names = []string{"plain0"}
		switch v.r.IntN(6) {
		case 0:
			x.keeps, opts = true, append(opts, lockmgr.KeepFor(time.Hour))
		case 1:
			if n := len(v.ids); n > 0 {
				x.takes = v.ids[max(0, n-1-v.r.IntN(3))]
				opts = append(opts, lockmgr.TakeOver(x.takes))
			}
		case 2:
			x.names = []string{"plain0", "plain1"}
			if len(v.kinds) > 1 && v.r.IntN(2) == 0 {
				x.names, x.kind = []string{"plain0", "rw"}, []feature{reader, writer}[v.r.IntN(2)]
			}
		case 3:
			x.names = []string{"plain1"}
		}
	case reader:
		x.names = []string{"rw"}
		if v.r.IntN(3) == 0 {
			x.kind = writer
		}
		side := map[feature]lockmgr.LockOption{reader: lockmgr.Shared(), writer: lockmgr.Exclusive()}
		opts = append(opts, side[x.kind])
	case fair:
		x.names, opts = []string{"fair"}, append(opts, lockmgr.Fair())
	case permits:
		x.names, x.permits = []string{"permits"}, 1+v.r.IntN(3)
	}
	v.w.tracef("asks: %v", x)
	switch {
	case x.permits > 0:
		x.future = m.Permits("permits", 3).AcquireAsync(x.permits, opts...)
	case len(x.names) > 1:
		x.future = m.LockAllAsync(x.set(), opts...)
	default:
		x.future = m.LockAsync(x.names[0], opts...)
	}
	return x
}

func (x *wish) set() lockmgr.Set {
	s := lockmgr.All("plain0")
	switch x.kind {
	case reader:
		s.Shared = []string{"rw"}
	case writer:
		s.Exclusive = []string{"rw"}
	default:
		s.Names = append(s.Names, "plain1")
	}
	return s
}

func (v *walker) unlock(x *wish) {
	v.w.tracef("unlocks %v", x)
	if err := x.lock.Unlock(context.Background()); err != nil {
		v.t.Error(x, err)
	}
	if x.names[0] == "plain0" && len(x.names) == 1 {
		if v.ids = append(v.ids, x.lock.HolderID()); x.keeps {
			v.kept = x.lock.HolderID()
		}
	}
}

// settle takes the locks out of the futures that have them.
func (v *walker) settle() {
	v.waiting = slices.DeleteFunc(v.waiting, func(x *wish) bool {
		if !isClosed(x.future.Done()) {
			return false
		}
		var err error
		if x.lock, err = x.future.Result(); err != nil {
			if v.gone = true; !x.ends || !errors.Is(err, lockmgr.ErrNotAcquired) {
				v.t.Error(x, err)
			}
			return true
		}
		if slices.Contains(x.names, "plain0") {
			v.kept = ""
		}
		v.held = append(v.held, x)
		return true
	})
}

// late returns a request that waits for what is free, for certain, or nil.
func (v *walker) late() *wish {
	for _, x := range v.waiting {
		if !slices.ContainsFunc(x.names, func(name string) bool { return v.mayWait(x, name) }) {
			return x
		}
	}
	return nil
}

// circle returns a request that waits although nobody holds a name that it wants, or that somebody
// wants who wants a name that it wants, and so on. One of these requests could have been granted.
func (v *walker) circle() *wish {
	for _, x := range v.waiting {
		names := slices.Clone(x.names)
		for i := 0; i < len(names); i++ {
			for _, o := range slices.Concat(v.waiting, v.held) {
				if slices.Contains(o.names, names[i]) {
					names = append(names, slices.DeleteFunc(slices.Clone(o.names), func(name string) bool { return slices.Contains(names, name) })...)
				}
			}
		}
		isHeld := func(o *wish) bool {
			return slices.ContainsFunc(o.names, func(name string) bool { return slices.Contains(names, name) })
		}
		if !slices.ContainsFunc(v.held, isHeld) && (v.kept == "" || !slices.Contains(names, "plain0")) {
			return x
		}
	}
	return nil
}

// mayWait reports whether a request may have to wait for a name.
func (v *walker) mayWait(x *wish, name string) bool {
	wants := func(o *wish) bool { return o != x && slices.Contains(o.names, name) }
	var holders, rivals []*wish
	for _, o := range v.held {
		if wants(o) {
			holders = append(holders, o)
		}
	}
	for _, o := range v.waiting {
		if wants(o) {
			rivals = append(rivals, o)
		}
	}
	free := 3
	for _, o := range holders {
		free -= o.permits
	}
	isSet := func(o *wish) bool { return len(o.names) > 1 }
	writes := func(o *wish) bool { return o.kind == writer }
	switch {
	case len(rivals) > 0 && (isSet(x) || slices.ContainsFunc(rivals, isSet)): // a set may be gathering
		return true
	case name == "plain0" && v.kept != "" && x.takes != v.kept:
		return true
	case name == "plain0" && v.kept != "": // the TakeOver goes behind the requests of its manager
		return slices.ContainsFunc(rivals, func(o *wish) bool { return o.manager == x.manager })
	case x.kind == permits: // nobody overtakes
		return free < x.permits || slices.ContainsFunc(rivals, func(o *wish) bool { return free < o.permits })
	case name == "rw" && x.kind == reader:
		return slices.ContainsFunc(holders, writes) || slices.ContainsFunc(rivals, writes)
	}
	return len(holders) > 0
}
