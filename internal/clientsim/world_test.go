package clientsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast/internal/luaserver"
)

// options say which seed to run, and how.
type options struct {
	seed   uint64
	only   kinds // in place of those that the seed draws; zero: no
	off    kinds
	ignore map[string]bool // oracles
	cheat  string          // see cheat_test.go
	trace  io.Writer       // for all that happens, at once; may be nil
}

// A result is the outcome of a seed.
type result struct {
	options
	violation *violation
	set       settings
	seen      map[string]int // what happened, how often
	tail      []string
	grants    int
	commands  int
	lived     time.Duration
	sheet     *sheet // nil after a violation
}

// A violation is a broken promise.
type violation struct {
	oracle string
	text   string
	at     time.Duration
}

func (v *violation) Error() string { return fmt.Sprintf("at %v: %s: %s", v.at, v.oracle, v.text) }

// A world is one run of a seed.
type world struct {
	options
	set   settings
	began time.Time
	names []string
	trace *trace
	book  *book
	sheet *sheet

	ctx     context.Context // of callers; ends with the world
	cancel  context.CancelFunc
	stopped chan struct{} // closed by the first violation, and by the end
	calls   sync.WaitGroup

	mu        sync.Mutex     // of the book, the network, the server and what follows
	servers   []*server      // one, or the masters of a cluster
	slots     map[uint16]int // which have moved, and to which server
	movedAt   map[uint16]time.Time
	movedIn   map[uint16]int64 // the offset of the new server after the move; removed by a failover
	moving    map[uint16]*migration
	strangers []stranger
	hosts     []*host
	halted    int // how many faults have stopped all servers
	troubles  []trouble
	mets      []met // troubles, for the table of features
	// revived are the holders, by name, that a failover has brought back: the release is among the
	// changes that it lost.
	revived  map[string][]string
	gone     map[record]time.Time // when a command removed a record
	denied   map[record]time.Time // see noteDenial
	late     int                  // packets that came after their client had gone
	seen     map[string]int
	crowded  time.Time // until when a crowd is served
	recovery time.Duration
	over     bool // nothing new connects

	machines []*machine

	failing   sync.Mutex
	violation *violation
}

// current is the world that lives now, for the report of one that does not end.
var current atomic.Pointer[world]

// run executes a seed in a bubble of fake time.
func run(t *testing.T, o options) (res result) {
	uuid.SetRand(&randReader{stream(o.seed, 2)}) // managers draw their jitter from their ID
	defer uuid.SetRand(nil)
	var w *world
	defer func() {
		if r := recover(); r != nil {
			res = w.result()
			if res.violation == nil {
				res.violation = &violation{"promise8c", fmt.Sprint(r), res.lived}
			}
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w = newWorld(o, drawSettings(o.seed, o.only, o.off))
		current.Store(w)
		w.live()
	})
	return w.result()
}

type randReader struct{ *rand.Rand }

func (r *randReader) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return len(b), nil
}

func newWorld(o options, set settings) *world {
	w := &world{
		options: o, set: set, began: time.Now(), stopped: make(chan struct{}), seen: make(map[string]int), revived: make(map[string][]string), gone: make(map[record]time.Time), denied: make(map[record]time.Time),
		slots: make(map[uint16]int), movedAt: make(map[uint16]time.Time), movedIn: make(map[uint16]int64), moving: make(map[uint16]*migration),
	}
	w.trace = &trace{began: w.began, out: o.trace}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	for i := range w.set.servers {
		w.servers = append(w.servers, newServer(w, i))
	}
	w.book = newBook(w)
	for i := range w.set.names {
		w.names = append(w.names, fmt.Sprintf("name%d", i))
	}
	// A ping goes out and is waited for, a new connection is made, and what was under way is found
	// to have failed and is sent again.
	w.recovery = w.set.keepAlive + w.set.writeTimeout + dialTimeout + 3*w.set.timeout + time.Second
	w.tracef("seed %d: %v", o.seed, &w.set)
	return w
}

// rng returns a generator for one purpose.
func (w *world) rng(what, i int) *rand.Rand { return stream(w.seed, uint64(10+what)<<32+uint64(i)) }

// after has f called later, on a goroutine of its own, unless the world ends before.
func (w *world) after(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		select {
		case <-w.stopped:
		default:
			f()
		}
	})
}

// afterwards is after, with w.mu held while f runs.
func (w *world) afterwards(d time.Duration, f func()) {
	w.after(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		f()
	})
}

// spawn runs a call on a goroutine that the end waits for.
func (w *world) spawn(f func()) { w.calls.Go(f) }

func (w *world) tracef(format string, args ...any) { w.trace.add(format, args) }

// fail notes the first violation and ends the world.
func (w *world) fail(oracle, format string, args ...any) {
	if w.ignore[oracle] {
		return
	}
	w.failing.Lock()
	defer w.failing.Unlock()
	if w.violation != nil {
		return
	}
	w.violation = &violation{oracle, fmt.Sprintf(format, args...), time.Since(w.began)}
	w.tracef("VIOLATION of %s: %s", oracle, w.violation.text)
	close(w.stopped)
}

func (w *world) failed() bool {
	w.failing.Lock()
	defer w.failing.Unlock()
	return w.violation != nil
}

// pause waits for d. It reports false if the world has failed meanwhile.
func (w *world) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-w.stopped:
		return false
	}
}

// live runs a world from start to end.
func (w *world) live() {
	w.connect()
	w.planCheat()
	ended := make(chan struct{})
	go func() { w.book.watch(); close(ended) }()
	w.plan()
	if w.pause(w.set.life) && w.settle() && w.book.idle() && w.closeAll() {
		w.leftovers()
		w.sheet = w.book.sheet()
	}
	w.tearDown()
	<-ended
}

// settle waits until all requests have an answer.
func (w *world) settle() bool {
	w.tracef("the end begins: no new requests, no new faults")
	// The last faults end within 30 s. Then a record may stand in the way for its lease, holders
	// come one after the other, and polls are rare.
	limit := 40*sec + w.recovery + 4*w.set.lease + w.set.retry + w.book.longest() + time.Minute
	w.after(40*sec+w.recovery, w.sweep)
	if !w.await(&w.calls, limit) {
		w.book.promise14d("%v after the last request: %s", limit, w.book.pending())
	}
	return !w.failed()
}

// sweep removes, as an administrator would, the records of long fixed leases that a Close has said
// it leaves, or that a failover has brought back, and permits. They would stand in the way for a
// day.
func (w *world) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.returnPermits()
	w.resetLimits()
	for _, name := range w.names {
		keys := w.keysOf(name)
		fields := keys.names(name)
		if keys.life(name) <= w.set.lease || !w.book.isExcused(fields) && !w.hasRevived(name) {
			continue
		}
		w.tracef("the record %q of %q is removed", fields, name)
		used := func(f string) bool {
			return slices.ContainsFunc(w.book.of(name).holds, func(h *hold) bool { return h.lock.Valid() && strings.HasPrefix(f, h.lock.HolderID()) })
		}
		if !slices.ContainsFunc(fields, used) {
			delete(keys.Values, name)
		}
		for _, f := range fields { // a reader has a key of its own
			if !used(f) {
				delete(keys.Values, "{"+name+"}:"+f+":rwlock_timeout:1")
			}
		}
	}
}

// returnPermits lets the permits of processes that were killed expire, those that a Close has said
// it leaves, and those that a failover has brought back. w.mu is held.
func (w *world) returnPermits() {
	for _, name := range w.names {
		keys, key := w.keysOf(name), takenOf(name)
		v := keys.Get(key)
		if v == nil {
			continue
		}
		for _, m := range slices.Clone(v.Members) {
			over := slices.Contains(w.revived[name], m.Name)
			for id, e := range w.book.managers {
				over = over || (e.excused || !e.killed.IsZero()) && strings.HasPrefix(m.Name, permitPrefix(id))
			}
			if over {
				keys.Do("ZADD", key, fmt.Sprint(min(int64(m.Score), keys.Ms())), m.Name)
			}
		}
	}
}

// resetLimits makes limitOf the limit of all permits. w.mu is held.
func (w *world) resetLimits() {
	for _, name := range w.names {
		taken, keys := takenOf(name), w.keysOf(name)
		n := int64(limitOf) - w.keysOf(taken).Do("ZCARD", taken).(int64)
		if v := keys.Get(name); v != nil && v.Kind == luaserver.Text && len(w.book.of(name).limits) > 0 {
			v.Text = fmt.Sprint(n)
			w.book.of(name).limits = append(w.book.of(name).limits, limit{n: limitOf, begun: time.Now()})
		}
	}
}

// closeAll ends all managers and checks how long that takes.
func (w *world) closeAll() bool {
	w.tracef("all managers are closed")
	var wg sync.WaitGroup
	for _, m := range w.machines {
		m.mu.Lock()
		m.ending = true
		m.mu.Unlock()
		wg.Go(func() { m.close(0) })
	}
	if !w.await(&wg, w.closeLimit()+time.Second) {
		w.fail("promise9b", "not %v after the last Close was called", w.closeLimit()+time.Second)
	}
	return !w.failed()
}

// await waits for wg, but no longer than d. It reports false if d has passed.
func (w *world) await(wg *sync.WaitGroup, d time.Duration) bool {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-w.stopped:
	case <-time.After(d):
		return false
	}
	return true
}

// closeLimit is how long a Close without a context may take.
func (w *world) closeLimit() time.Duration {
	if w.cheat == hasty {
		return 0
	}
	// One dial may delay the news that the server fails, another the end.
	return w.set.retry + w.set.timeout + 2*dialTimeout + 1200*ms + 6*w.slowest()
}

// slowest is the longest way from a host to the server.
func (w *world) slowest() time.Duration {
	d := time.Duration(0)
	for _, l := range w.set.latency {
		d = max(d, l)
	}
	return d*4/3 + ms
}

// leftovers checks that nothing is left once late commands have run and leases have ended.
func (w *world) leftovers() {
	longest := w.set.lease + w.set.lease/8
	if w.set.kinds&telling != 0 {
		longest = max(longest, 35*sec) // the record of a process
	}
	if w.pause(30*sec + longest + 20*sec) {
		w.book.promise8c()
	}
}

// tearDown ends everything, in any state.
func (w *world) tearDown() {
	w.failing.Lock()
	if w.violation == nil {
		close(w.stopped)
	}
	w.failing.Unlock()
	w.cancel()
	w.mu.Lock()
	w.over = true
	for _, h := range w.hosts {
		w.cutAll(h, false)
		h.blackh = 0
		h.open()
	}
	w.mu.Unlock()
	gone, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the world ends"))
	for _, m := range w.machines {
		go m.abandon(gone)
	}
}

func (w *world) result() result {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen["a command of a connection that its client had closed"] += w.late
	for kind := kinds(1); kind < allKinds; kind <<= 1 {
		if w.set.kinds&kind&^disasters != 0 {
			w.seen[kind.String()]++
		}
	}
	commands := 0
	for _, s := range w.servers {
		commands += s.commands
	}
	return result{
		options: w.options, seen: w.seen, violation: w.violation, set: w.set, tail: w.trace.lines(), grants: w.book.grants,
		commands: commands, lived: w.trace.last(), sheet: w.sheet,
	}
}
