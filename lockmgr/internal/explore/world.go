package explore

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/model"
)

// The lock of all scenes.
const (
	lockKey    = "n"
	channelKey = "channel"
	counterKey = "counter"
)

// A world is one state: two managers, the server, and what is under way
// between them. Nothing in it happens by itself.
type world struct {
	scene    *Scene
	now      time.Duration // on every clock
	server   model.Server
	managers [2]manager

	left  [faults]int8 // how many faults of each kind may still happen
	inAll int8         // how many faults may still happen
	// detours is how many choices may still differ from the fair schedule's.
	detours int8

	stray     stray
	epoch     int   // how often the record was removed by force
	lastToken int64 // of the newest grant with a token
	disturbed bool  // something has gone wrong that may delay a wake-up
	slowed    bool  // time has passed while something was under way or due
	excused   bool  // something has happened after which a record may be left to expire

	out io.Writer // gets a line for each event, or nil
}

// A stray is a record that a late acquire has made.
type stray struct {
	of     int           // the manager
	until  time.Duration // it must have ended then
	sought bool          // the manager must still find and remove it
}

// A manager is one process: the core, its callers, its connections.
type manager struct {
	label string
	m     *core.Machine
	calls []*call
	// commands are on their way to the server or back. At most one is a command
	// that the manager waits for. The manager has given up the others.
	commands []*command
	// up has the commands, and down the messages, on the connection for messages.
	up, down          []news
	wanted, confirmed bool // the subscription

	asked, seen     uint64 // requests made, granted
	closing, closed bool
	refused         bool // the core was told that the record is not its own
	// doubtful reports whether an administrator's message was heard while the lock
	// was held, and no command that was sent later has been answered.
	doubtful bool
	released bool // a release was sent; the core may take another message for its own

	record record
}

// A record is what the checks know of a manager. It is no part of a state's digest,
// because nothing that the core does depends on it.
type record struct {
	epoch    int           // in which the script ran that last set the deadline
	until    time.Duration // that deadline
	acquired []uint64      // numbers that an acquire has recorded as the owner
	spent    []uint64      // numbers that a command removes
	held     []uint64      // numbers of holds
	counting int           // scripts that the present event has caused
}

// A call is one request and its lock.
type call struct {
	want  int // in Scene.Wants
	state callState
	req   *core.Request // nil once it is done
	order uint64        // among the requests of its manager
	lost  bool
	epoch int           // that of the record on which the hold rests
	limit time.Duration // when the lease that was asked for ends, or Forever
}

type callState uint8

const (
	fresh     callState = iota // not made
	pending                    // the core has it
	granted                    // the caller holds the lock
	unlocking                  // the core has its Unlock
	done
)

// news is a command or a message on the connection for messages.
type news uint8

const (
	subscribe news = iota
	unsubscribe
	confirmation
	message
	forced // a message of an administrator who has removed the record
)

func (n news) String() string {
	return [...]string{"subscribe", "unsubscribe", "confirmation", "message", "message of an administrator"}[n]
}

// A command is one script on its way. It copies the fields of the core's operation,
// which the core may reuse after the answer.
type command struct {
	op     *core.Op
	verb   core.Verb
	id     uint64
	lease  time.Duration
	tokens int64
	owners []uint64
	sent   time.Duration
	state  commandState
	before bool          // it was sent before an administrator's message was heard
	told   time.Duration // when the manager gave it up
	answer answer        // once it has run
}

type commandState uint8

const (
	toServer  commandState = iota // on its way
	toManager                     // it has run, and its answer is on its way
	given                         // the manager has given it up, and it has not run
	again                         // a copy of an answer is on its way
)

// underWay reports whether the manager waits for the command.
func (c *command) underWay() bool { return c.state == toServer || c.state == toManager }

type answer struct {
	ran              core.Ran
	ok, final        bool
	ttl, subscribers int64
	token            int64
	err              error
	epoch            int
}

var (
	errBroken  = errors.New("connection lost")
	errLoading = errors.New("LOADING")
	errNoPerm  = errors.New("NOPERM")
)

// A Violation is an invariant that did not hold.
type Violation struct{ Invariant, What string }

func (v *Violation) Error() string { return v.Invariant + ": " + v.What }

func violated(invariant, format string, args ...any) {
	panic(&Violation{invariant, fmt.Sprintf(format, args...)})
}

// newWorld returns the first state of a scene.
func newWorld(s *Scene) *world {
	w := &world{scene: s, inAll: int8(s.Bounds.Faults), detours: int8(s.Bounds.Detours)}
	for f, n := range s.Bounds.Each {
		w.left[f] = int8(min(n, s.Bounds.Faults))
	}
	for i := range w.managers {
		n := &w.managers[i]
		n.label = string(rune('A' + i))
		n.m, w.now = prime(core.New(s.config()))
		for want := range s.Wants[i] {
			n.calls = append(n.calls, &call{want: want})
		}
	}
	w.server.Now = w.now
	w.server.SetString(counterKey, strconv.FormatInt(firstToken, 10), 0)
	return w
}

// prime makes a machine number its next scripts from firstScript on: it takes a lock,
// has it verified many times, unlocks it and lets the machine forget it.
func prime(m *core.Machine) (*core.Machine, time.Duration) {
	now := firstInstant
	var out []core.Effect
	step := func(ev core.Event) {
		for evs := []core.Event{ev}; len(evs) > 0; evs = evs[1:] {
			for _, e := range m.Step(now, evs[0], out[:0]) {
				if e, ok := e.(core.Run); ok {
					evs = append(evs, &core.Replies{Replies: []core.Reply{{Op: e.Op, ID: e.Op.ID, Ran: core.Yes, OK: true}}})
				}
			}
		}
	}
	r := &core.Request{Name: "primer", ID: 1, Ends: core.Forever}
	step(core.Lock{Request: r})
	for range firstScript {
		now += ms
		step(core.Verify{Name: r.Name})
	}
	step(core.Unlock{Request: r})
	for m.Next() != core.Forever {
		now = max(now, m.Next())
		step(core.Tick{})
	}
	if s := m.Stats(); s.Names != 0 || s.Scripts < firstScript {
		panic(fmt.Sprintf("explore: a machine that is not primed: %+v", s))
	}
	return m, now
}

// token returns the last token that the server has given.
func (w *world) token() int64 {
	in, err := w.server.Inspect(lockKey, channelKey, counterKey)
	if err != nil {
		panic(err)
	}
	return number(in.Token)
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// apply makes a choice. It returns the violation that it finds, or nil.
func (w *world) apply(c choice) (v *Violation) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *Violation:
			v = p
		default:
			v = &Violation{"panic", fmt.Sprintf("%v\n%s", p, debug.Stack())}
		}
		w.server.Deliver = nil
		if v != nil && w.out != nil {
			w.tell("  VIOLATED %v", v)
		}
	}()
	if w.out != nil {
		w.tell("%s", w.words(c))
	}
	if fair, _ := w.fair(); w.scene.Bounds.Detours > 0 && c != fair && c.do != ask {
		w.detours--
	}
	w.server.Now = w.now
	what := message
	if c.do == force {
		what = forced
	}
	w.server.Deliver = func(to int, _, _ string) { w.managers[to].down = append(w.managers[to].down, what) }
	w.do(c)
	w.checkState()
	return nil
}

// spend counts a fault.
func (w *world) spend(f Fault) {
	w.inAll--
	w.left[f]--
	for i := range w.left {
		w.left[i] = min(w.left[i], w.inAll)
	}
	w.disturbed = w.disturbed || f != Slow && f != Pause && f != Cancel && f != Close
	w.slowed = w.slowed || f == Slow || f == Pause
	w.excused = w.excused || f == Pause || f == Close || f == Forbid
}

func (w *world) may(f Fault) bool { return w.left[f] > 0 }

// step feeds an event to a manager's core and carries out its effects.
func (w *world) step(i int, ev core.Event) {
	n := &w.managers[i]
	n.record.counting = 0
	if w.out != nil {
		w.tell("    %s: %s", n.label, describeEvent(ev))
	}
	for _, e := range n.m.Step(w.now, ev, nil) {
		if w.out != nil {
			w.tell("        → %s", describeEffect(e))
		}
		w.effect(i, e)
	}
	if _, tick := ev.(core.Tick); tick {
		w.checkTick(n)
	}
}

func (w *world) effect(i int, e core.Effect) {
	n := &w.managers[i]
	switch e := e.(type) {
	case core.Run:
		c := &command{op: e.Op, id: e.Op.ID, verb: e.Op.Verb, lease: e.Op.Lease, tokens: e.Op.Tokens, sent: e.Op.Sent}
		if e.Op.Number != 0 {
			c.owners = append(c.owners, e.Op.Number)
		}
		c.owners = append(c.owners, e.Op.OtherNumbers...)
		w.checkNumbers(n, e.Op)
		w.send(n, c)
	case core.Granted:
		w.granted(n, n.calls[e.Request.Tag.(int)])
	case core.Failed:
		c := n.calls[e.Request.Tag.(int)]
		if c.state != pending {
			violated("one answer", "%s: %v fails a request that is not pending", n.label, e.Err)
		}
		c.end()
	case core.Extended:
		w.extended(n, e.Hold)
	case core.Lost:
		w.lost(n, e.Hold, e.Err)
	case core.Unlocked:
		c := n.calls[e.Request.Tag.(int)]
		if c.state != unlocking {
			violated("one answer", "%s: an answer to an Unlock that does not wait", n.label)
		}
		if loss := errors.Is(e.Err, core.ErrLeaseLost) || errors.Is(e.Err, core.ErrClosed); loss != c.lost {
			violated("a loss is told", "%s: request %d was lost: %t, and its Unlock says %v", n.label, c.order, c.lost, e.Err)
		}
		c.end()
	case core.Subscribe:
		if n.wanted {
			violated("subscriptions", "%s: subscribed twice", n.label)
		}
		n.wanted, n.confirmed = true, false
		n.up = append(n.up, subscribe)
	case core.Unsubscribe:
		if !n.wanted {
			violated("subscriptions", "%s: unsubscribed twice", n.label)
		}
		n.wanted, n.confirmed = false, false
		n.up = append(n.up, unsubscribe)
		n.down = nil
	case *core.Notice:
	case core.Closed:
		if !n.closing || n.closed {
			violated("close", "%s: Closed without a Close, or twice", n.label)
		}
		n.closed = true
	default:
		violated("effects", "unknown effect %T", e)
	}
}

// end forgets a request that is answered.
func (c *call) end() { *c = call{want: c.want, state: done} }

func (w *world) send(n *manager, c *command) {
	if n.waitsFor() != nil {
		violated("one script in flight", "%s: %v beside %v", n.label, c.verb, n.waitsFor().verb)
	}
	if n.closed {
		violated("close", "%s: %v after the end", n.label, c.verb)
	}
	if n.record.counting++; n.record.counting > 1 {
		violated("bounded work", "%s: %d scripts at once", n.label, n.record.counting)
	}
	n.released = n.released || c.verb == core.VerbRelease
	if c.sent > w.now {
		violated("deadline from the send", "%s: %v is sent at %v", n.label, c.verb, w.at(c.sent))
	}
	n.commands = append(n.commands, c)
}

// waitsFor returns the command that a manager waits for, or nil.
func (n *manager) waitsFor() *command {
	if i := slices.IndexFunc(n.commands, (*command).underWay); i >= 0 {
		return n.commands[i]
	}
	return nil
}

// fields returns the fields of owners in the record.
func (n *manager) fields(owners []uint64) []string {
	out := make([]string, len(owners))
	for i, o := range owners {
		out[i] = n.label + ":" + strconv.FormatUint(o, 10)
	}
	return out
}

// run runs a command on the server.
func (w *world) run(i int, c *command) answer {
	n := &w.managers[i]
	a := answer{ran: core.Yes, epoch: w.epoch}
	owners := n.fields(c.owners)
	lease := int64(c.lease / ms)
	_, before := w.server.Fields(lockKey)
	var err error
	switch c.verb {
	case core.VerbAcquire:
		var r model.Acquired
		r, err = w.server.Acquire(lockKey, counterKey, lease, c.tokens, owners...)
		a.ok, a.ttl = r.OK, r.TTL
		if r.Token != "" {
			a.token = number(r.Token)
		}
		w.checkRefusal(i, c, a.ok)
	case core.VerbTransfer:
		var r model.Transferred
		r, err = w.server.Transfer(lockKey, channelKey, counterKey, lease, c.tokens, owners...)
		a.ok, a.subscribers = r.OK, r.Subscribers
		if r.Token != "" {
			a.token = number(r.Token)
		}
	case core.VerbRelease:
		var r model.Released
		r, err = w.server.Release(lockKey, channelKey, owners...)
		a.ok, a.subscribers = r.OK, r.Subscribers
	case core.VerbRenew:
		var lost []int
		lost, err = w.server.Renew(lease, []string{lockKey}, owners)
		a.ok = len(lost) == 0
	case core.VerbLook:
		a.ok = w.server.Exists(lockKey)
	default:
		violated("effects", "unknown script %v", c.verb)
	}
	if err != nil {
		panic(err)
	}
	w.ran(i, c, a, before)
	if w.scene.plant != nil {
		w.scene.plant(w, c, &a)
	}
	return a
}

// hear gives a manager the answer to a command.
func (w *world) hear(i int, c *command, a answer) {
	n := &w.managers[i]
	told := c.underWay()
	if c.state == toServer && a.ran == core.Maybe && c.verb != core.VerbLook {
		// The command may run later, but the core may reuse the operation from now on.
		late := *c
		late.op, late.state, late.told = nil, given, w.now
		n.commands[slices.Index(n.commands, c)] = &late
	} else {
		n.commands = slices.DeleteFunc(n.commands, func(o *command) bool { return o == c })
	}
	if told {
		w.accept(n, c, a)
	}
	messages := 0
	if a.ok && c.verb == core.VerbRelease {
		messages = 1
	}
	w.step(i, &core.Replies{Replies: []core.Reply{{
		Published: messages,
		Op:        c.op, ID: c.id, Ran: a.ran, OK: a.ok, TTL: time.Duration(a.ttl) * ms, Subscribers: a.subscribers, Token: a.token, Err: a.err,
		Final: a.final,
	}}})
}
