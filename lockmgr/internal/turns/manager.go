package turns

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	wireformat "github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A manager is the core with callers and a mailbox.
type manager struct {
	w    *world
	id   int
	cfg  Client
	m    *core.Machine
	link *link
	turn func() // n.run

	inbox   []core.Event
	spare   []core.Event
	awake   bool // a run is planned
	timerAt time.Duration
	lastID  uint64

	subs   [3]subscription // to the channels of the lock, of the manager, and of the line
	secret string

	out []core.Effect
}

type subscription struct {
	wanted, confirmed bool
	asked             int        // counts the subscriptions, to ignore late confirmations
	wake              *core.Wake // the one in inbox; further messages are merged into it
}

func newManager(w *world, id int, c Client) *manager {
	cfg := core.Defaults()
	cfg.Seed = w.rng.Uint64()
	cfg.Notices = w.cfg.Trace != nil
	cfg.GrantSecret = hex.EncodeToString([]byte(strconv.Itoa(id)))
	n := &manager{w: w, id: id, cfg: c, m: core.New(cfg), link: newLink(w, id, c), timerAt: core.Forever, secret: cfg.GrantSecret}
	n.turn = n.run
	return n
}

func (n *manager) line() *link { return n.link }

// call hands a command to the sender.
func (n *manager) call(command, done func()) {
	n.w.afterHop(func() { n.link.call(command, done) })
}

// A caller locks, holds and unlocks. Its functions are made once, because a case has a million
// turns.
type caller struct {
	req         *core.Request
	ask, unlock func()
}

func (n *manager) begin() {
	for range n.cfg.Callers {
		c := &caller{}
		c.ask = func() {
			n.lastID++
			n.w.meter.asks(n.id)
			c.req = &core.Request{Name: key, ID: n.lastID, Asked: n.w.now, Ends: core.Forever, Tag: c}
			n.post(core.Lock{Request: c.req})
		}
		c.unlock = func() {
			n.w.meter.leaves()
			n.post(core.Unlock{Request: c.req})
		}
		n.w.after(0, callerMax, c.ask)
	}
}

func (n *manager) message(from, payload string) {
	n.w.afterHop(func() { n.heard(from, payload) })
}

// heard merges messages that the manager has not handled yet, as the watch of a channel does.
func (n *manager) heard(from, payload string) {
	place := uint64(0)
	if from != channel {
		place = core.OwnPlace
	}
	s := &n.subs[place]
	if !s.wanted {
		return
	}
	grant := wireformat.ReadGrant(n.secret, key, payload)
	ours, served := wireformat.Ours(payload), wireformat.Served(payload)
	if s.wake != nil {
		s.wake.More = s.wake.More || s.wake.Message
		s.wake.Message, s.wake.Grant = true, grant
		s.wake.Ours, s.wake.Served = ours && !s.wake.More, served && !s.wake.More
		return
	}
	n.news(core.Wake{Name: key, Place: place, Subscribed: s.confirmed, Message: true, Grant: grant, Ours: ours, Served: served})
}

func (n *manager) news(ev core.Wake) {
	n.subs[ev.Place].wake = &ev
	n.post(ev) // replaced by *wake in run
}

func (n *manager) post(ev core.Event) {
	n.inbox = append(n.inbox, ev)
	if !n.awake {
		n.awake = true
		hop := n.w.hop()
		n.w.after(loopMin+hop, loopMax+hop, n.turn)
	}
}

// run is one turn of the manager's goroutine.
func (n *manager) run() {
	n.awake = false
	batch := n.inbox
	n.inbox = n.spare[:0]
	for _, ev := range batch {
		if w, ok := ev.(core.Wake); ok {
			s := &n.subs[w.Place]
			ev = *s.wake
			n.w.tracef(n.id, "wake %+v", *s.wake)
			s.wake = nil
		}
		n.out = n.m.Step(n.w.now, ev, n.out)
	}
	clear(batch)
	n.spare = batch[:0]
	if n.m.Next() <= n.w.now {
		n.out = n.m.Step(n.w.now, core.Tick{}, n.out)
	}
	for _, e := range n.out {
		n.perform(e)
	}
	clear(n.out)
	n.out = n.out[:0]
	n.setTimer()
}

func (n *manager) setTimer() {
	next := n.m.Next()
	if next == core.Forever || n.timerAt <= next {
		return
	}
	n.timerAt = next
	n.w.queue.put(max(next, n.w.now)+n.w.between(timerMin, timerMax), func() {
		if n.timerAt != next {
			return
		}
		n.timerAt = core.Forever
		if !n.awake {
			n.awake = true
			n.run()
		}
	})
}

func (n *manager) perform(e core.Effect) {
	switch e := e.(type) {
	case core.Run:
		n.runOp(e.Op)
	case core.Granted:
		n.w.meter.granted(n.id)
		n.w.after(n.w.cfg.Hold+callerMin, n.w.cfg.Hold+callerMax, e.Request.Tag.(*caller).unlock)
	case core.Unlocked:
		if e.Err != nil {
			panic(fmt.Sprintf("%s: unlock failed: %v", n.cfg.Name, e.Err))
		}
		n.w.meter.unlocked()
		if !n.w.cfg.Drain {
			n.w.after(callerMin, callerMax, e.Request.Tag.(*caller).ask)
		}
	case core.Subscribe:
		n.subscribe(e.Place)
	case core.Unsubscribe:
		s := &n.subs[e.Place]
		s.wanted, s.confirmed, s.wake = false, false, nil
		n.inbox = slices.DeleteFunc(n.inbox, func(ev core.Event) bool { w, ok := ev.(core.Wake); return ok && w.Place == e.Place })
		if !n.cfg.Deaf {
			n.link.subscribe(n.channel(e.Place), false, nil)
		}
	case *core.Notice:
		if e.What == core.StoodBack {
			n.w.tracef(n.id, "stands back after %d grants", e.N)
		}
	case core.Extended:
	default:
		panic(fmt.Sprintf("%s: nothing fails here: %T %+v", n.cfg.Name, e, e))
	}
}

// channel returns the channel of a place.
func (n *manager) channel(place uint64) string {
	switch place {
	case core.OwnPlace:
		return channel + ":" + strconv.Itoa(n.id)
	case core.LinePlace:
		return channel + ":line"
	}
	return channel
}

func (n *manager) subscribe(place uint64) {
	s := &n.subs[place]
	s.wanted, s.confirmed = true, false
	s.asked++
	asked := s.asked
	if n.cfg.Deaf {
		return
	}
	n.link.subscribe(n.channel(place), true, func() {
		if !s.wanted || s.asked != asked {
			return
		}
		s.confirmed = true
		if s.wake != nil {
			s.wake.Subscribed, s.wake.Confirmed = true, true
			return
		}
		n.news(core.Wake{Name: key, Place: place, Subscribed: true, Confirmed: true})
	})
}

// runOp runs a script.
func (n *manager) runOp(op *core.Op) {
	var r core.Reply
	n.call(func() {
		r = n.w.reply(n.id, op)
		if r.Op = op; n.w.cfg.Trace != nil {
			n.w.tracef(n.id, "%v %d %v: ok=%v subscribers=%d", op.Verb, op.Number, op.OtherNumbers, r.OK, r.Subscribers)
		}
	}, func() { n.post(&core.Replies{Replies: []core.Reply{r}}) })
}
