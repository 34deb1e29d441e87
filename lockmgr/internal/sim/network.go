package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/sim/server"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

var (
	errTimeout = errors.New("timeout")
	errConn    = errors.New("connection lost")
	errLoading = errors.New("LOADING Redis is loading the dataset in memory")
	errNoPerm  = errors.New("NOPERM this user has no permissions")
)

// A command is one script on its way to the server and back. It copies the fields of the core's Op,
// which the core may reuse after the answer.
type command struct {
	n       *node
	op      *core.Op
	sent    core.Op // a copy of op
	id      uint64
	verb    core.Verb
	side    core.Side
	name    *lockName
	leaseMs int64
	owners  []string
	tokens  int64
	// gatherMs is for how long the acquire of a set keeps what is free, and tried whether an
	// earlier one has kept something.
	gatherMs int64
	tried    bool
	// reserveMs is for how long the record stays after a release.
	reserveMs int64
	// Of permits: how many.
	permits int

	oom       bool // the server is out of memory
	noPublish bool // PUBLISH is refused
	noCount   bool // PUBSUB NUMSUB is refused

	sentAt   time.Duration // the true time
	answered bool          // the manager got an answer
	at       *shard        // where it is sent
	astray   bool          // a shard has refused it, and it is sent to another one
}

// An answer is the server's answer to a command, or the client's if none came.
type answer struct {
	core.Reply
	sentAt time.Duration
	shard  int // the number of the one that it came from

	epoch, counterEpoch int        // those of the name when the command ran
	epochs              partEpochs // those of the names of a set
}

// failure is the answer to a command that failed, and refusal to one that would fail again.
func failure(ran core.Ran, err error) answer { return answer{Reply: core.Reply{Ran: ran, Err: err}} }

func refusal(err error) answer { return answer{Reply: core.Reply{Ran: core.No, Err: err, Final: true}} }

// owner returns the field of a number of this manager in the record.
func (n *node) owner(id uint64) string {
	var b [24]byte
	s := append(b[:0], n.label...)
	s = append(s, ':')
	return string(strconv.AppendUint(s, id, 10))
}

// ownerOf returns the field of a number in the record of a lock.
func (n *node) ownerOf(l *lockName, id uint64) string {
	if l.kind == core.Fair {
		return wire.FairHolderID(n.label, id)
	}
	return n.owner(id)
}

// carries reports whether a record's field is one of this manager's.
func (n *node) carries(field string) bool {
	return len(field) > len(n.label) && field[len(n.label)] == ':' && strings.HasPrefix(field, n.label)
}

func (n *node) runOp(op *core.Op) {
	w := n.w
	l := w.named(op.Name)
	n.takeOff(l, op.ID, op.Sent)
	if n.chain[l.index]++; n.chain[l.index] > 8*min(l.rules.entries(), 25) {
		w.violated("bounded work", "%s: %d scripts for %s in a row, and nothing else happened to it", n.label, n.chain[l.index], l.key)
	}
	if op.Lease%ms != 0 {
		w.violated("until the record ends", "%s: a lease of %v, and the server counts milliseconds", n.label, op.Lease)
	}
	c := &command{
		n: n, op: op, id: op.ID, verb: op.Verb, side: op.Side, name: l, leaseMs: int64(op.Lease / ms), tokens: op.Tokens,
		owners: make([]string, 0, 1+len(op.OtherNumbers)), permits: op.Permits, reserveMs: int64((op.Reserve + ms - 1) / ms), sent: server.Copy(op),
	}
	if op.Number != 0 {
		c.owners = append(c.owners, n.ownerOf(l, op.Number))
	}
	for _, o := range op.OtherNumbers {
		c.owners = append(c.owners, n.ownerOf(l, o))
	}
	n.checkNumbers(l, op)
	if l.isSet() || l.kind == core.Permits {
		n.checkGather(c)
	}
	if w.madeFor != nil {
		n.noteMaker(c)
	}
	if op.Verb != core.VerbTransfer && op.Verb != core.VerbRenew { // a run ends: the manager releases the record, or no longer counts on it
		rec := &n.record[l.index]
		switch {
		case op.Verb == core.VerbAcquire && rec.run > 0:
			rec.lastRun = 0 // the run ended without a release
		case rec.run > 0:
			rec.lastRun = rec.run
		}
		if op.Verb == core.VerbAcquire && n.ticking {
			rec.stoodBack = false // its pause is over, and nobody took the lock
		}
		rec.run, rec.known, rec.knows = 0, 0, false
		rec.alone = rec.alone && op.Verb != core.VerbAcquire // a release may not run
	}
	c.send()
	if w.sharded() {
		op.Shard = uint8(c.lane())
		n.sent.Ops = append(n.sent.Ops, op)
		n.waitsAt(l, c.lane())
	}
}

// takeOff notes that a script is in flight, and checks that it is the only one for its name.
func (n *node) takeOff(l *lockName, id uint64, sent time.Duration) {
	if n.dead || n.closed {
		n.w.violated("close", "%s: a script after the end", n.label)
	}
	if len(n.flight[l.index]) == l.rules.entries() {
		n.w.violated("one script in flight", "%s: one more for %s than it may have entries", n.label, l.key)
	}
	if now := n.clock(n.w.now); sent > now {
		n.w.violated("deadline from the send", "%s: sent at %v, now is %v", n.label, sent, now)
	}
	n.flight[l.index] = append(n.flight[l.index], id)
}

// inFlight returns the ID of a script in flight for a name, or zero.
func (n *node) inFlight(l *lockName) uint64 {
	if f := n.flight[l.index]; len(f) > 0 {
		return f[0]
	}
	return 0
}

// send decides what happens to a command: a fault, or an answer in time.
func (c *command) send() {
	w, n := c.n.w, c.n
	c.sentAt = w.now
	c.at = n.layout[c.name.index]
	if b := n.backlog; b != nil && b.commands[0].at == c.at {
		b.commands = append(b.commands, c)
		return
	}
	there := w.fate.Between(w.set.latency/8, w.set.latency/2)
	back := w.fate.Between(w.set.latency/8, w.set.latency/2)
	timeout := w.set.timeout
	if w.strikes(SlowCommand) {
		there = w.fate.Between(0, timeout)
		back = w.fate.Between(0, timeout)
	}
	c.oom, c.noPublish, c.noCount = w.strikes(ScriptError), w.strikes(PublishError), w.strikes(CountRefused)
	// A client sees a broken connection sooner than its time-out.
	silence := func() {
		if w.fate.Percent(30) {
			timeout = w.fate.Between(0, timeout)
		}
		w.after(timeout, func() { c.answer(failure(core.Maybe, errTimeout)) })
	}
	refuse := func(a answer) {
		if there+back >= timeout {
			silence()
			return
		}
		w.after(there+back, func() { c.answer(a) })
	}
	switch {
	case w.strikes(CommandLost):
		silence()
	case w.strikes(HoldBack):
		n.holdBack(c)
	case w.strikes(ReplyLost):
		silence()
		w.after(min(there, timeout), func() {
			if w.silent(c.at) {
				c.at.stopped = append(c.at.stopped, c)
				return
			}
			if c.at == c.name.shard {
				c.run()
			}
		})
	case w.strikes(LateRun):
		silence()
		w.after(timeout, func() { w.runLate(c) })
	case w.strikes(RefusedForNow):
		refuse(failure(core.No, errLoading))
	case w.strikes(RefusedFinal):
		refuse(refusal(errNoPerm))
	default:
		if there+back >= timeout {
			w.after(timeout, func() { c.answer(failure(core.Maybe, errTimeout)) })
		}
		var arrive func()
		arrive = func() {
			if w.silent(c.at) {
				c.at.stopped = append(c.at.stopped, c)
				w.queue.Put(max(w.now, c.sentAt+timeout), func() { c.answer(failure(core.Maybe, errTimeout)) })
				return
			}
			if c.at.down {
				a := failure(core.Maybe, errConn)
				if w.fate.Percent(50) {
					a = failure(core.No, errLoading)
				}
				w.after(back, func() { c.answer(a) })
				return
			}
			if c.redirected(arrive) {
				if late := c.sentAt + timeout; late > w.now {
					w.queue.Put(late, func() { c.answer(failure(core.Maybe, errTimeout)) })
				}
				return
			}
			a := c.run()
			if w.tracing() {
				w.tracef(n.label, "(server ran %s #%d %v: %s)%s", c.verb, c.id, c.owners, &a, w.queueOf(c.name))
			}
			w.after(back, func() { c.answer(a) })
			if w.strikes(ReplyTwice) {
				w.after(back+w.fate.Between(0, 4*w.set.latency), func() { c.again(a) })
			}
		}
		w.after(there, arrive)
	}
}

// run runs the script on the server.
func (c *command) run() answer {
	w := c.n.w
	s := w.server
	if c.at.down {
		return failure(core.Maybe, errConn)
	}
	w.readClock()
	if c.n.refuses(c.name, c.verb) {
		return refusal(errNoPerm)
	}
	before := c.end()
	s.Full = c.oom
	s.Refused = c.refusals()
	if c.verb == core.VerbRelease {
		c.mayRelease()
	}
	a, err := c.name.rules.run(c)
	if c.verb == core.VerbAcquire {
		c.mayBeRefused(a.OK || err != nil)
		if a.OK {
			w.turnOf(c.n, c.name)
		}
	}
	s.Full, s.Refused = false, nil
	a.epoch, a.counterEpoch, a.epochs = c.name.epoch, c.name.counterEpoch, c.name.partEpochs()
	w.watchRecord(c.name)
	c.ran(&a, err, before)
	if c.verb == core.VerbRelease && c.name.kind == core.Permits {
		c.n.checkPermits(c.name) // it has ended no valid hold
	}
	if err != nil {
		return c.readError(&a)
	}
	return a
}

// end returns when the records of a late command's lock end, by name. The time is zero if there is
// no record. It returns nil if the command is not late.
func (c *command) end() (ends []time.Duration) {
	if !c.answered {
		return nil
	}
	for _, l := range c.name.bases() {
		until := c.left(l).until
		for _, h := range c.n.w.holders(l) {
			if slices.Contains(c.owners, h.name) {
				until = max(until, h.until)
			}
		}
		ends = append(ends, until)
	}
	return ends
}

// ran checks what a late command has done, and notes what another one has.
func (c *command) ran(a *answer, err error, before []time.Duration) {
	if c.answered {
		for i, l := range c.name.bases() {
			c.ranLate(l, err == nil && (a.OK || c.gatherMs > 0), before[i])
		}
		return
	}
	if c.name.isSet() {
		c.checkWhole(a, err)
	}
	if a.OK && (c.verb == core.VerbAcquire || c.verb == core.VerbTransfer) {
		c.name.stray = nil
	}
}

// refusals returns what the server refuses the command's user.
func (c *command) refusals() map[string]resp.Error {
	if !c.noPublish && !c.noCount {
		return nil
	}
	out, refused := map[string]resp.Error{}, resp.Error(errNoPerm.Error())
	if c.noPublish {
		out["PUBLISH"] = refused
	}
	if c.noCount {
		out["PUBSUB"] = refused
	}
	return out
}

// exec runs the command. err is the error of a script that has failed.
func (c *command) exec() (a answer, err error) {
	c.n.w.runAt(c.name.shard)
	r := c.n.w.server.Reply(c.n.label, &c.sent)
	if a = (answer{Reply: r}); r.Ran != core.Yes {
		err = r.Err
	}
	return a, err
}

// answer gives an answer to the manager if it is the first one to this command. The client drops
// later ones.
func (c *command) answer(a answer) {
	if c.answered {
		return
	}
	c.answered = true
	c.again(a)
}

// again gives an answer to the manager, even if it is not the first one.
func (c *command) again(a answer) {
	n := c.n
	a.sentAt, a.shard = c.sentAt, c.lane()
	if w := n.w; a.Err != nil && w.sharded() {
		a.Err = &shardError{a.shard, a.Err}
	}
	n.mind(c.id, a)
	r := a.Reply
	r.Op, r.ID, r.Shard = c.op, c.id, uint8(a.shard)
	if r.Joined {
		n.w.cover.JoinedByRelease++
	}
	n.post(&core.Replies{Replies: []core.Reply{r}})
}

// mind keeps an answer until the core gets its reply.
func (n *node) mind(id uint64, a answer) {
	if n.dead {
		return
	}
	n.answers = append(n.answers, minded{id, a})
}

type minded struct {
	id uint64
	a  answer
}

func (n *node) recall(id uint64) answer {
	for i := range n.answers {
		if n.answers[i].id == id {
			a := n.answers[i].a
			last := len(n.answers) - 1
			n.answers[i] = n.answers[last]
			n.answers = n.answers[:last]
			return a
		}
	}
	panic(fmt.Sprintf("no answer to command %d", id))
}

// accept notes what the core learns from a reply. It ignores copies of replies that the core has
// got before.
func (n *node) accept(r *core.Reply) {
	a := n.recall(r.ID)
	for i := range n.flight {
		at := slices.Index(n.flight[i], r.ID)
		if at < 0 {
			continue
		}
		n.flight[i] = slices.Delete(n.flight[i], at, at+1)
		n.heardServer(i, &a)
		rec := &n.record[i]
		if a.Ran != core.Yes {
			n.trouble[i] = n.w.now
		}
		if a.Ran == core.Yes && a.Kept || a.Ran == core.No && n.w.names[i].kind != core.Exclusive {
			n.keepNumbers(n.w.names[i], r.Op)
		}
		if x := r.Op.PlaceOp; a.Ran == core.Yes && x != nil && r.Op.Kind != core.Fair {
			for _, place := range x.Join { // each command with an answer named it to find the record of a grant
				delete(n.numbers.spent[i], place)
			}
		}
		if n.w.names[i].isSet() {
			n.answeredSet(i, r, &a)
			if g := &n.gathers[i]; r.Op.Verb == core.VerbAcquire && r.Got > g.got {
				g.got, g.since = r.Got, n.clock(n.w.now)
			}
		}
		if n.w.names[i].kind == core.Permits && r.Op.Verb == core.VerbAcquire {
			g := &n.gathers[i]
			if g.answered(r.ID, &a); a.Ran == core.Yes && !a.Gathered {
				g.on = false // another manager gathers
			}
		}
		n.ears[i].answered(r)
		if a.GaveWay {
			n.w.cover.Fair.GaveWay++
		}
		if a.Missing {
			n.w.cover.Fair.Missing++
		}
		if a.Ran == core.Yes && !a.OK && !a.Kept && !a.GaveWay && (r.Op.Verb == core.VerbTransfer || r.Op.Verb == core.VerbRenew) {
			n.refused(n.w.names[i], r.Op)
		}
		if a.Ran != core.Yes || !a.OK {
			continue
		}
		n.told[i] = told{}
		rec.rest(&a, r.Op.Sent, r.Op.Lease, r.Op.Verb != core.VerbRenew)
		if a.Tokens != nil {
			rec.ofTokens, rec.tokens = a.epochs, a.Tokens
		} else if a.Token != 0 {
			rec.tokenEpoch, rec.counterEpoch = a.epoch, a.counterEpoch
		}
		n.learn(rec, i, r, a)
	}
}

// rest notes the epoch of the script on which a manager's deadline rests. If a record was lost and
// a late command made it again, a renewal that sets no later deadline does not change the epoch:
// the deadline still rests on the earlier script.
func (r *record) rest(a *answer, sent, lease time.Duration, anew bool) {
	if until := sent + lease - lease/100; anew || until >= r.until {
		r.epoch, r.ofParts, r.until = a.epoch, a.epochs, until
	}
}

// refused notes that the core was told that what an operation was about is gone.
func (n *node) refused(l *lockName, op *core.Op) {
	for _, h := range n.held {
		switch {
		case h.name != l:
		case l.rules.entries() == 1, h.core.Number == op.Number, slices.Contains(op.OtherNumbers, h.core.Number):
			h.refused = true
		default:
			h.unsure = true // it may have passed to the hold since
		}
	}
}

func (a *answer) String() string {
	if a.Ran != core.Yes {
		return fmt.Sprintf("%v (%v)", a.Ran, a.Err)
	}
	s := fmt.Sprintf("ok=%v ttl=%d subscribers=%d token=%d err=%v", a.OK, int64(a.TTL/ms), a.Subscribers, a.Token, a.Err)
	if a.Front != 0 || a.Missing || a.GaveWay {
		s += fmt.Sprintf(" front=%d missing=%v gaveway=%v", a.Front, a.Missing, a.GaveWay)
	}
	return s
}
