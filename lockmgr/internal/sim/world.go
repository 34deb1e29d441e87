package sim

import (
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/sim/agenda"
	"github.com/holdfast-go/holdfast/lockmgr/internal/sim/server"
)

// Options say what to simulate.
type Options struct {
	Seed   uint64
	Kind   core.Kind // of all locks; with Several there are single names, too
	Shards bool      // there are several shards; not with Several
	Keeps  bool      // some requests have KeepFor; with Exclusive only
	Events int       // how many events before the end begins
	Off    Faults    // kinds of faults that must not occur
	Trace  io.Writer // gets a line for each event, or nil
	Phases bool      // count the phases' transitions: slow
	Ignore []string  // invariants that may be violated
}

// A Result is the result of a simulation.
type Result struct {
	Options   Options
	Violation *Violation // nil if all went well
	Faults    Faults     // those that could occur
	Events    int
	Scripts   uint64
	Time      time.Duration // simulated, summed over the managers
	Cover     Coverage
}

// A Violation is an invariant that did not hold.
type Violation struct {
	Invariant string
	What      string
	At        time.Duration
}

func (v *Violation) Error() string { return fmt.Sprintf("%s: %s (at %v)", v.Invariant, v.What, v.At) }

// A world is one simulation. Its now is the true time, which is also what the server's clock shows;
// each manager has a clock of its own.
type world struct {
	opt   Options
	set   settings
	load  agenda.Rand // decides what callers do
	fate  agenda.Rand // decides what goes wrong and how long things take
	now   time.Duration
	queue agenda.Queue
	cover *Coverage

	server    *server.Server // the keys of all shards
	shards    []*shard
	nodes     []*node     // the running ones
	gone      []*node     // those that crashed or were closed
	names     []*lockName // the single names, then the sets
	single    []*lockName
	madeFor   map[string]*lockName // by a record's field: for whom it was made; nil without sets
	labels    map[string]string    // by the first part of the IDs of permits: whose they are
	valid     []*hold              // reused
	calls     []*call
	lastLabel byte

	redissons        map[string]*redisson // threads of Redisson's clients, by owner
	byID             []*redisson
	waitingRedissons int

	subscribers []*line // by number; a line has a new number after each reconnect

	ending    bool
	over      time.Duration // once it is ending: the instant at which nothing may be left
	persisted bool          // a record has lost its TTL
	err       *Violation

	late    []*lateRun // commands that are to run after their time-out
	forcing bool       // an administrator's forced unlock is running
}

// A lockName is one lock, as the simulation sees it: a single name, or a set of them.
type lockName struct {
	index                 int
	limit                 int // how many permits there are
	shard                 *shard
	moved                 bool          // it has been on another shard
	reservedUntil         time.Duration // until when a request with KeepFor keeps others from it
	mayKeepUntil          time.Duration // up to when a release may reserve it at most
	keptFor               *command      // the release that has left the record, or nil
	keptUntil             time.Duration // when the record ends that a release has left
	reservedIn            int           // the epoch of that request's record
	backUntil             time.Duration // until when there may be what a failover has brought back
	kind                  core.Kind
	rules                 kind
	key, channel, counter string // of a set: only its key
	alone                 [1]*lockName
	parts                 []part      // of a set
	sets                  []*lockName // those that have this name

	holds []*hold // those that may be valid: of this name or set, and of the sets that have the name

	// epoch counts the losses of the lock's record, counterEpoch those of its token counter. The
	// epoch of a set counts those of its names.
	epoch, counterEpoch int
	tokens              map[[2]int]int64 // the last one granted, by counterEpoch and epoch

	late      []*lateTrigger
	strays    map[string]time.Duration // by holder: until when what a late acquire made may be there
	stray     *stray                   // the record that a late acquire made, or nil
	freeSince time.Duration            // since when there has been no record, or never
	heldAt    time.Duration            // when somebody was last seen to hold the lock
	leakSince time.Duration            // since when there has been a record that nobody wants, or never
	longSince time.Duration            // since when there has been a record that lives for longer than needed, or never
	arrivals  map[string]int           // of a fair lock: when the members of the queue came, counted
	cameLate  string                   // of a fair lock: a member that came when it had been granted
	arrived   int
	leastFree int64 // the fewest permits that were free since checkCalm was called last

	runNode *node           // the manager with the newest grant
	run     []time.Duration // the times of its grants since another manager had one
}

const never = core.Forever

// Run simulates one seed.
func Run(o Options) Result {
	res := Result{Options: o}
	w := &world{opt: o, load: agenda.Rand(o.Seed), fate: agenda.Rand(o.Seed ^ 0xfa7e), cover: &res.Cover, server: server.New(), labels: map[string]string{}}
	defer w.server.Close()
	w.set = drawSettings((*agenda.Rand)(&w.load), ^o.Off)
	w.set.drawSides(&w.load, o.Kind)
	rules := kinds[o.Kind]
	rules.draw(&w.set, &w.load)
	if o.Keeps {
		w.set.keeps = 5 + w.load.Below(60)
	}
	if o.Shards {
		w.set.drawShards(&w.load)
		w.set.faults &= ^o.Off
	}
	w.set.faults &^= rules.spared()
	res.Cover.Sharded = o.Shards
	res.Cover.Kind = o.Kind
	res.Faults = w.set.faults
	func() {
		defer func() {
			switch p := recover().(type) {
			case nil:
			case *Violation:
				w.err = p
			default:
				w.err = &Violation{"panic", fmt.Sprintf("%v\n%s", p, debug.Stack()), w.now}
			}
		}()
		w.begin()
		for !w.queue.Empty() {
			at, do := w.queue.Take()
			w.now = at
			res.Events++
			do()
			if !w.ending && res.Events >= o.Events {
				w.end()
			}
			if w.ending && w.now > w.over {
				break
			}
		}
		w.checkEnd()
	}()
	if w.err != nil && w.tracing() {
		w.tracef("*", "VIOLATION %v", w.err)
	}
	res.Violation = w.err
	for _, n := range slices.Concat(w.nodes, w.gone) {
		res.Scripts += n.m.Stats().Scripts
		res.Time += w.now - n.born
	}
	return res
}

func (w *world) begin() {
	if w.tracing() {
		w.tracef("*", "seed %d: %v", w.opt.Seed, &w.set)
	}
	w.server.Deliver = w.message
	for i := range w.set.names {
		l := w.addName("n"+strconv.Itoa(i), w.set.kindOf(i, w.opt.Kind))
		l.channel, l.counter = l.rules.channel(l.key), "redisson_lock_token:{"+l.key+"}"
	}
	w.single = w.names
	w.label(foreigners)
	w.addSets()
	w.addShards()
	for range w.set.nodes {
		w.addNode()
	}
	if w.set.faults&disasters != 0 {
		w.after(w.fate.Between(0, w.set.quiet), w.disaster)
	}
	if w.set.faults&(MoveSlot|Failover) != 0 {
		w.after(w.fate.Between(0, w.set.quiet), w.shardTrouble)
	}
	if w.redissons = map[string]*redisson{}; w.set.redisson {
		w.after(w.set.think, w.redissonThread)
	}
	if w.set.foreign && w.opt.Kind != core.Fair {
		w.after(w.set.think, w.foreigner)
	}
	if w.set.calm {
		w.after(w.slack(), w.checkCalm)
	}
}

func (w *world) addName(key string, k core.Kind) *lockName {
	l := &lockName{
		index: len(w.names), key: key, kind: k, rules: kinds[k], tokens: map[[2]int]int64{}, strays: map[string]time.Duration{}, leakSince: never, longSince: never,
	}
	l.alone[0], l.limit = l, w.set.limit
	w.names = append(w.names, l)
	return l
}

func (w *world) after(d time.Duration, do func()) { w.queue.Put(w.now+d, do) }

// end stops faults and new requests, and makes every caller unlock. Soon after, nothing must be
// left.
func (w *world) end() {
	w.ending = true
	w.over = w.now + w.patience()
	for _, s := range w.shards {
		w.over = max(w.over, s.silentUntil+w.patience())
	}
	w.endLate()
	for _, n := range slices.Concat(w.nodes, w.gone) {
		clear(n.forbidden)
	}
	if w.tracing() {
		w.tracef("*", "no more faults, no more requests")
	}
	if w.persisted {
		for _, l := range w.single {
			// Somebody must give a record its TTL back after PERSIST: no manager can know that the
			// holder of such a record is dead.
			if _, until := w.server.Fields(l.key); until == never {
				w.server.Do("PEXPIRE", l.key, millis(w.set.core.Lease))
			}
		}
	}
	for _, c := range w.calls {
		if c.state == granted {
			w.after(w.load.Between(0, w.set.latency), c.unlock)
		}
	}
}

// patience returns how long after the end began everything must be over.
func (w *world) patience() time.Duration {
	c := &w.set.core
	turn := 2*c.BackTime + c.PollBlind + c.PollMax + 10*w.set.latency + w.set.timeout + 48*c.GatherTime
	if w.set.keeps > 0 {
		turn += 2 * c.Lease
	}
	pending := 0
	for _, c := range w.calls {
		if c.state != done {
			pending++
		}
	}
	redissons := time.Duration(0)
	if w.set.redisson { // a wait that can't be read counts as five minutes
		redissons = 20 * time.Minute
	}
	return redissons + 2*c.PlaceTime + c.GatherAfter + 4*w.set.maxLease() + atEnd*c.Lease + 3*c.SuspectTime + 2*c.RetryTime + c.Linger + c.PassTime + 10*time.Second +
		time.Duration(pending+10)*turn
}

// slack returns how long, in a calm world, a lock may be free while someone waits for it, and how
// long a record that nobody wants may stay.
func (w *world) slack() time.Duration {
	c := &w.set.core
	poll := min(c.GatherTime, 100*ms) // what a set gathers may end without a message
	if w.set.hopeless > 0 {
		poll = 8 * c.GatherTime // a short lease ends before what others have been told of the gathered name
	}
	if w.set.keeps > 0 {
		poll += 120 * ms // no message comes when a record ends by itself
	}
	if w.set.givesUp > 0 && w.set.redisson || w.set.faults&Force != 0 {
		// A thread of Redisson that gives up wakes nobody. A manager that has the lock and the
		// first place does not hear that an administrator removed the lock.
		poll += c.PlaceTime / 3
	}
	return 12*w.set.latency + 2*c.BackTime + c.RecordEvery + 10*ms + poll
}

// lose notes that the records of these single names, and with counters their token counters, are
// lost. Holders from before the loss can't know, so they don't count against those from after it.
func (w *world) lose(counters bool, names ...*lockName) {
	for _, l := range names {
		l.epoch++
		for _, s := range l.sets {
			s.epoch++
		}
		if counters {
			l.counterEpoch++
			l.arrivals = nil // all data is lost
		}
	}
}

// restart takes a shard down for a while.
func (w *world) restart(s *shard, loseData bool) {
	if loseData {
		w.flush(s)
	}
	s.replaced++
	w.takeDown(s, false)
}

// flush removes the data of a shard.
func (w *world) flush(s *shard) {
	names := w.on(s)
	w.lose(true, names...)
	w.server.Restore(nil, w.keysOf(names...))
}

// readClock sets the server's clock, which may lag behind the true time.
func (w *world) readClock() {
	w.server.Now = max(w.server.Now, w.now-w.fate.Between(0, w.set.stale))
}

func (w *world) violated(invariant, format string, args ...any) {
	if slices.Contains(w.opt.Ignore, invariant) {
		return
	}
	panic(&Violation{invariant, fmt.Sprintf(format, args...), w.now})
}

func (w *world) tracing() bool { return w.opt.Trace != nil }

func (w *world) tracef(who, format string, args ...any) {
	fmt.Fprintf(w.opt.Trace, "%14.6fms %-3s %s\n", float64(w.now)/1e6, who, fmt.Sprintf(format, args...))
}
