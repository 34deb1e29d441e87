package turns

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/sim/server"
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
	wake    *core.Wake // the one in inbox; further messages are merged into it
	awake   bool       // a run is planned
	timerAt time.Duration
	lastID  uint64

	wanted, confirmed bool // the subscription
	asked             int  // counts the subscriptions, to ignore late confirmations

	out []core.Effect
}

func newManager(w *world, id int, c Client) *manager {
	cfg := w.cfg.Core
	cfg.Seed = w.rng.Next()
	cfg.Notices = w.cfg.Trace != nil
	n := &manager{w: w, id: id, cfg: c, m: core.New(cfg), link: newLink(w, id, c), timerAt: core.Forever}
	n.turn = n.run
	return n
}

func (n *manager) line() *link { return n.link }

// call hands a command to the sender.
func (n *manager) call(command, done func()) {
	n.w.afterHop(func() { n.link.call(command, done) })
}

// A caller locks, holds and unlocks. Its functions are made once, because a
// case has a million turns.
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

func (n *manager) message() { n.w.afterHop(n.heard) }

// heard merges messages that the manager has not handled yet, as the watch of a
// channel does.
func (n *manager) heard() {
	if !n.wanted {
		return
	}
	if n.wake != nil {
		n.wake.More = n.wake.More || n.wake.Message
		n.wake.Message = true
		return
	}
	n.news(core.Wake{Name: key, Subscribed: n.confirmed, Message: true})
}

func (n *manager) news(ev core.Wake) {
	n.wake = &ev
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
	wake := n.wake
	n.wake = nil
	for _, ev := range batch {
		if _, ok := ev.(core.Wake); ok {
			ev = *wake
			n.w.tracef(n.id, "wake %+v", *wake)
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
	n.w.queue.Put(max(next, n.w.now)+n.w.rng.Between(timerMin, timerMax), func() {
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
		n.subscribe()
	case core.Unsubscribe:
		n.wanted, n.confirmed = false, false
		n.wake = nil
		n.inbox = slices.DeleteFunc(n.inbox, func(ev core.Event) bool { _, ok := ev.(core.Wake); return ok })
		if !n.cfg.Deaf {
			n.link.subscribe(false, nil)
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

func (n *manager) subscribe() {
	n.wanted, n.confirmed = true, false
	n.asked++
	asked := n.asked
	if n.cfg.Deaf {
		return
	}
	n.link.subscribe(true, func() {
		if !n.wanted || n.asked != asked {
			return
		}
		n.confirmed = true
		if n.wake != nil {
			n.wake.Subscribed, n.wake.Confirmed = true, true
			return
		}
		n.news(core.Wake{Name: key, Subscribed: true, Confirmed: true})
	})
}

// runOp runs a script.
func (n *manager) runOp(op *core.Op) {
	sent, r := server.Copy(op), core.Reply{}
	n.call(func() {
		r = n.w.reply(n.id, &sent)
		if r.Op = op; n.w.cfg.Trace != nil {
			n.w.tracef(n.id, "%v %d %v: ok=%v subscribers=%d", sent.Verb, sent.Number, sent.OtherNumbers, r.OK, r.Subscribers)
		}
	}, func() { n.post(&core.Replies{Replies: []core.Reply{r}}) })
}
