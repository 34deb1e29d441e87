package sim

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A node is one manager's process: the core, and in place of the shell a mailbox, a timer and a
// clock of its own.
type node struct {
	w     *world
	index int    // in world.nodes
	id    int    // unique
	label string // its name in traces, and the first part of its fields in records
	m     *core.Machine
	born  time.Duration

	// The clock shows origin + t·(1 + rate/10⁶) at the true time t.
	origin time.Duration
	rate   float64

	inbox       []core.Event
	urgent      []core.Event
	awake       bool // a call of run is planned
	pausedUntil time.Duration
	timerAt     time.Duration // the true time of the timer, or never

	lastID  uint64
	owners  []uint64 // named owners
	adopted []uint64 // owners of anonymous holds that later requests have named
	closing bool
	closed  bool
	aborted bool
	dead    bool

	pubsub  pubsub
	flight  [][]uint64      // the scripts in flight, by name
	record  []record        // by name: what is known from the last good reply
	answers []minded        // those that the core has not got yet
	held    []*hold         // those that have not ended for the core
	waiting []*call         // pending ones whose Lock event the core has seen, in order
	ticking bool            // the last event was a Tick
	ready   []time.Duration // by name: since when others can know that it waits

	grantedAt []time.Duration // by name: the newest grant
	chain     []int           // by name: scripts since the last event that was no answer
	backlog   *backlog        // a connection that holds commands back, or nil
	forbidden []ban           // by name: what the server refuses this manager
	believed  []time.Duration // by name: when checkCalm last saw a hold in held
	passedBy  []passedBy      // by name: see checkFree
	trouble   []time.Duration // by name: when the core last heard that a command failed
	ears      []ear           // by name: messages that were heard
	told      []told          // by name: the newest grant by message, if no later answer has granted anything
	numbers   numbers         // those that its commands have named
	gathers   []gathering     // by name: what a set keeps
	gives     []giveBack      // by name: how a set was released
	tainted   time.Duration   // until when it may pass on permits that were taken away from it
	health    []health        // by the number of the shard: whether it answers
	layout    []*shard        // by name: the shard that serves it, as far as the manager knows
	looking   bool            // it has asked for the layout
	// By name: the shard that the last answer came from, or -1, and since when.
	heardOf    []int
	sent       core.Sent // operations of this step; reused
	heardSince []time.Duration

	out   []core.Effect
	ticks int
	locks int // Lock events
}

// A record is what the checks know of a manager and a lock.
type record struct {
	epoch int // in which the script ran that last set its deadline
	// tokenEpoch and counterEpoch are those in which the manager's tokens were taken.
	tokenEpoch, counterEpoch int
	until                    time.Duration // that deadline
	ofParts, ofTokens        partEpochs    // of a set: the epochs of its names; when its tokens were taken
	tokens                   []int64       // of a set: those that were taken last
	run, known, lastRun      int           // grants in this run; in this run since knows was set; in the run before
	alone                    bool          // a reply in this run said that nobody else is subscribed
	first                    int           // how often it was granted the lock before those for whom it stood back
	stoodBack                bool          // it stands back: it has reported that, and was not granted the lock since
	knows                    bool          // the last reply that counts subscribers showed others
}

func (w *world) addNode() *node {
	i := int(w.lastLabel)
	w.lastLabel++
	n := &node{
		w: w, index: len(w.nodes), id: i, label: string(rune('A'+i%26)) + nonZero(i/26), born: w.now, timerAt: never,
		flight: make([][]uint64, len(w.names)), record: make([]record, len(w.names)), ready: make([]time.Duration, len(w.names)),
		grantedAt: make([]time.Duration, len(w.names)), chain: make([]int, len(w.names)),
		forbidden: make([]ban, len(w.names)), trouble: make([]time.Duration, len(w.names)), believed: make([]time.Duration, len(w.names)), passedBy: make([]passedBy, len(w.names)), ears: make([]ear, len(w.names)),
		gathers: make([]gathering, len(w.names)), gives: make([]giveBack, len(w.names)),
	}
	n.told = make([]told, len(w.names))
	n.numbers.init(len(w.names))
	w.label(n.label)
	n.health = make([]health, len(w.shards)+1)
	for i := range n.health {
		n.health[i].silentFrom = never
	}
	n.heardSince = make([]time.Duration, len(w.names))
	for _, l := range w.names {
		n.layout, n.heardOf = append(n.layout, l.shard), append(n.heardOf, -1)
	}
	n.origin = w.load.Between(0, time.Hour) - w.now
	if w.set.faults&Drift != 0 {
		n.rate = float64(w.fate.Below(20001) - 10000)
		if w.fate.Percent(50) {
			n.rate = -10000
		}
		w.struck(Drift)
	}
	for i := range n.ready {
		n.ready[i] = never
	}
	n.pubsub.init(n)
	cfg := w.set.core
	cfg.Seed, cfg.Sharded = w.load.Next(), w.sharded()
	if w.set.told {
		cfg.GrantSecret = n.secret()
	}
	n.m = core.New(cfg)
	n.lastID = w.load.Next() % 1000
	for range 3 {
		n.owners = append(n.owners, n.newID())
	}
	w.nodes = append(w.nodes, n)
	w.after(w.load.Between(0, w.set.think), n.think)
	return n
}

func nonZero(i int) string {
	if i == 0 {
		return ""
	}
	return strconv.Itoa(i)
}

func (n *node) newID() uint64 {
	n.lastID++
	return n.lastID
}

// clock returns what a node's clock shows at the true time t.
func (n *node) clock(t time.Duration) time.Duration {
	return n.origin + t + time.Duration(float64(t)*n.rate/1e6)
}

// trueTime returns the first true time at which a node's clock shows at.
func (n *node) trueTime(at time.Duration) time.Duration {
	if at == never {
		return never
	}
	t := time.Duration(float64(at-n.origin) / (1 + n.rate/1e6))
	for n.clock(t) >= at {
		t--
	}
	for n.clock(t) < at {
		t++
	}
	return t
}

// post puts an event into the mailbox.
func (n *node) post(ev core.Event) {
	if n.dead {
		return
	}
	n.inbox = append(n.inbox, ev)
	n.wakeUp()
}

func (n *node) wakeUp() {
	if n.awake {
		return
	}
	n.awake = true
	w := n.w
	lag := w.fate.Between(0, w.set.latency/16)
	if w.strikes(Slow) {
		lag = w.fate.Between(0, 8*w.set.latency)
	}
	w.queue.Put(max(w.now+lag, n.pausedUntil), n.run)
}

// run handles all events in the mailbox, and a Tick if one is due.
func (n *node) run() {
	if n.dead {
		return
	}
	w := n.w
	if n.pausedUntil > w.now {
		w.queue.Put(n.pausedUntil, n.run)
		return
	}
	n.awake = false
	now := n.clock(w.now)
	if n.m.Next() <= now && w.fate.Percent(50) {
		n.tick(now)
	}
	// Replies that follow each other in the mailbox become one event.
	for i := 0; i < len(n.inbox); i++ {
		ev := n.inbox[i]
		if a, ok := ev.(*core.Replies); ok {
			for i+1 < len(n.inbox) {
				b, ok := n.inbox[i+1].(*core.Replies)
				if !ok {
					break
				}
				a.Replies = append(a.Replies, b.Replies...)
				i++
			}
		}
		n.step(now, ev)
	}
	clear(n.inbox)
	n.inbox = n.inbox[:0]
	if n.m.Next() <= now {
		n.tick(now)
	}
	if next := n.m.Next(); next <= now {
		w.violated("bounded work", "%s: Next is %v at %v, just after a Tick", n.label, next, now)
	}
	n.setTimer()
}

func (n *node) tick(now time.Duration) {
	n.ticks++
	n.step(now, core.Tick{})
	for _, c := range n.waiting {
		if c.req.Ends <= now {
			n.w.violated("gives up in time", "%s: %s waits until %v, now is %v", n.label, c, c.req.Ends, now)
		}
	}
	for _, h := range n.held {
		if until := h.core.Until; until <= now {
			n.w.violated("lost in time", "%s: %s was good until %v, now is %v, and nobody was told", n.label, h, until, now)
		}
	}
}

func (n *node) setTimer() {
	next := n.m.Next()
	if next == never {
		return
	}
	w := n.w
	at := n.trueTime(next)
	if n.timerAt > w.now && n.timerAt <= at {
		return // the earlier timer sets the next one
	}
	n.timerAt = at
	w.queue.Put(max(at, w.now), func() {
		if n.dead || n.timerAt != at {
			return
		}
		n.timerAt = never
		n.wakeUp()
	})
}

// step feeds one event to the core and carries out the effects.
func (n *node) step(now time.Duration, ev core.Event) {
	n.w.cover.Steps++
	ev, ok := n.before(ev)
	if !ok {
		return
	}
	if n.w.tracing() {
		n.w.tracef(n.label, "%s", describeEvent(ev))
	}
	var was []string
	if n.w.opt.Phases {
		was = n.phases()
	}
	_, n.ticking = ev.(core.Tick)
	given := ev
	h, isWake := ev.(*heard)
	if isWake {
		given = h.Wake
	}
	n.out = n.m.Step(now, given, n.out[:0])
	if n.w.opt.Phases {
		n.countPhases(was, n.phases())
	}
	out := n.out
	for _, e := range out {
		if n.w.tracing() {
			n.w.tracef(n.label, "        → %s", n.describeEffect(e))
		}
		n.effect(e)
	}
	if len(n.sent.Ops) > 0 {
		n.out = n.m.Step(now, &n.sent, n.out)
		n.sent.Ops = n.sent.Ops[:0]
		if len(n.out) > len(out) {
			n.w.violated("bounded work", "%s: it does something because operations were sent", n.label)
		}
	}
	n.afterStep(ev, out)
	if isWake {
		n.afterWake(h)
	}
	for len(n.urgent) > 0 {
		ev := n.urgent[0]
		n.urgent = n.urgent[1:]
		n.step(now, ev)
	}
}

// before does the bookkeeping for an event before the core gets it. It reports whether the core is
// to get the event at all.
func (n *node) before(ev core.Event) (core.Event, bool) {
	switch ev := ev.(type) {
	case core.Lock:
		n.beforeLock(ev.Request.Tag.(*call))
	case core.LockSet:
		n.beforeLock(ev.Request.Tag.(*call))
	case core.LockPermits:
		n.beforeLock(ev.Request.Tag.(*call))
	case core.Cancel:
		n.chain[ev.Request.Tag.(*call).name.index] = 0
		return ev, ev.Request.Tag.(*call).state == pending
	case core.Untaken:
		n.chain[ev.Request.Tag.(*call).name.index] = 0
	case core.Unlock:
		n.chain[ev.Request.Tag.(*call).name.index] = 0
	case *heard:
		n.chain[n.w.named(ev.Name).index] = 0
		n.beforeWake(ev)
		if ev.Grant.Number != 0 {
			n.told[n.w.named(ev.Name).index] = told{Grant: ev.Grant, epoch: ev.epoch, counterEpoch: ev.counterEpoch}
		}
	case core.Tick, core.Close:
		clear(n.chain)
	case core.Verify:
		clear(n.chain)
		n.beforeVerify(n.w.named(ev.Name))
	case *core.Prolongation:
		ev.Tag.(*extension).extends(n.clock(n.w.now))
	case *core.Replies:
		for i := range ev.Replies {
			n.accept(&ev.Replies[i])
		}
	}
	return ev, true
}

// beforeLock does it for a request.
func (n *node) beforeLock(c *call) {
	n.chain[c.name.index] = 0
	n.locks++
	c.state, c.seen, c.since = pending, n.locks, n.w.now
	n.waiting = append(n.waiting, c)
	n.readiness(c.name)
	if c.req.Once {
		n.w.after(n.w.set.timeout, c.checkOnce)
	}
}

func (n *node) effect(e core.Effect) {
	w := n.w
	switch e := e.(type) {
	case core.Run:
		w.cover.Effects[eRun+int(e.Op.Verb)]++
		n.runOp(e.Op)
	case core.Tokens:
		e.Request.Tag.(*call).tokens = e.Tokens
	case core.Granted:
		w.cover.Effects[eGranted]++
		n.granted(e.Request.Tag.(*call))
	case core.Failed:
		w.cover.Effects[eFailed]++
		n.failed(e.Request.Tag.(*call), e.Err)
	case core.Extended:
		w.cover.Effects[eExtended]++
		n.extended(e.Hold.Request.Tag.(*call).hold)
	case core.Prolonged:
		n.prolonged(e.Prolongation, e.Err)
	case core.Lost:
		w.cover.Effects[eLost]++
		n.lost(e.Hold.Request.Tag.(*call).hold, e.Err)
	case core.Unlocked:
		w.cover.Effects[eUnlocked]++
		n.unlocked(e.Request.Tag.(*call), e.Err)
	case core.Subscribe:
		w.cover.Effects[eSubscribe]++
		n.pubsub.subscribe(w.named(e.Name), e.Place, e.Set)
	case core.Unsubscribe:
		w.cover.Effects[eUnsubscribe]++
		n.pubsub.unsubscribe(w.named(e.Name), e.Place, e.Set)
	case *core.Notice:
		w.cover.Notices[e.What]++
		if e.What == core.StoodBack {
			n.record[w.named(e.Name).index].stoodBack = true
		}
	case core.Closed:
		w.cover.Effects[eClosed]++
		n.wasClosed()
	default:
		w.violated("effects", "unknown effect %T", e)
	}
}

// named returns the lock of a key: n and its index, or that of a set.
func (w *world) named(key string) *lockName {
	i := int(key[1] - '0')
	if key[0] == 's' {
		i += len(w.single)
	}
	return w.names[i]
}

// pause stops the process for a while. Its clock runs on.
func (n *node) pause(d time.Duration) {
	n.pausedUntil = max(n.pausedUntil, n.w.now+d)
}

// verify sends the event that the shell sends after a forced unlock.
func (n *node) verify(l *lockName) { n.post(core.Verify{Name: l.bases()[0].key}) }

// shut closes the manager in an orderly way and starts another.
func (n *node) shut() {
	if n.closing {
		return
	}
	n.closing = true
	w := n.w
	n.post(core.Close{})
	asked := w.now
	w.after(w.set.timeout, func() { n.checkClosing(asked) })
	if w.fate.Percent(30) { // the context of Close ends
		w.after(w.fate.Between(0, 8*w.set.latency), func() {
			n.aborted = true
			n.post(core.Abort{})
		})
	}
	n.replace()
}

// replace starts another manager in place of one that ends.
func (n *node) replace() {
	w := n.w
	w.nodes = slices.Delete(w.nodes, n.index, n.index+1)
	for i, o := range w.nodes {
		o.index = i
	}
	w.gone = append(w.gone, n)
	w.addNode()
}

// crash ends the process. Commands that it has sent may still arrive.
func (n *node) crash() {
	if n.closing {
		return
	}
	n.dead = true
	n.pubsub.die()
	for _, h := range n.held {
		h.over = true
	}
	n.replace()
}

func (n *node) wasClosed() {
	if !n.closing {
		n.w.violated("close", "%s: Closed without a Close", n.label)
	}
	if n.closed {
		n.w.violated("close", "%s: Closed twice", n.label)
	}
	n.closed = true
}

func (n *node) String() string { return fmt.Sprintf("manager %s", n.label) }
