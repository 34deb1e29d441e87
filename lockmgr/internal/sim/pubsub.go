package sim

import (
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A pubsub is a manager's connection for messages and the notify actor. The
// connection keeps the order of commands and messages.
type pubsub struct {
	n         *node
	id        int // as a subscriber: new with each connection
	connected bool
	channels  []channel
	sentAt    time.Duration // the arrival of the last command at the server
	heardAt   time.Duration // the last arrival from the server
}

// A channel is the state of a subscription. wanted reports whether the core wants it,
// confirmed whether the core was told of its confirmation. asked counts the
// SUBSCRIBEs, because only the confirmation of the newest one counts.
type channel struct {
	wanted, confirmed bool
	asked             int
}

func (p *pubsub) init(n *node) {
	p.n = n
	p.connected = true
	p.channels = make([]channel, len(n.w.names))
	p.connect()
}

// connect takes a new number as a subscriber.
func (p *pubsub) connect() {
	p.id = len(p.n.w.subscribers)
	p.n.w.subscribers = append(p.n.w.subscribers, p)
}

func (p *pubsub) subscribe(l *lockName) {
	ch := &p.channels[l.index]
	if ch.wanted {
		p.n.w.violated("subscriptions", "%s: subscribed twice to %s", p.n.label, l.key)
	}
	ch.wanted, ch.confirmed = true, false
	if p.connected {
		p.ask(l)
	}
}

func (p *pubsub) unsubscribe(l *lockName) {
	ch := &p.channels[l.index]
	if !ch.wanted {
		p.n.w.violated("subscriptions", "%s: unsubscribed from %s without a subscription", p.n.label, l.key)
	}
	ch.wanted, ch.confirmed = false, false
	if p.connected {
		id := p.id
		p.toServer(func() {
			p.n.w.server.Unsubscribe(l.channel, id)
			p.n.readiness(l)
		})
	}
}

// ask sends SUBSCRIBE and reports the confirmation.
func (p *pubsub) ask(l *lockName) {
	w := p.n.w
	id := p.id
	ch := &p.channels[l.index]
	ch.asked++
	asked := ch.asked
	p.toServer(func() {
		w.server.Subscribe(l.channel, id)
		p.n.readiness(l)
		d := w.fate.Between(w.set.latency/8, w.set.latency/2)
		if w.strikes(SlowConfirm) {
			d = w.fate.Between(0, 20*w.set.latency)
		}
		p.fromServer(d, id, func() {
			if ch.wanted && ch.asked == asked {
				ch.confirmed = true
				p.n.post(&heard{Wake: core.Wake{Name: l.key, Subscribed: true, Confirmed: true}})
			}
		})
	})
}

func (p *pubsub) toServer(do func()) {
	w := p.n.w
	id := p.id
	p.sentAt = max(p.sentAt, w.now+w.fate.Between(w.set.latency/8, w.set.latency/2))
	var arrive func()
	arrive = func() {
		if w.silent() { // the server reads it when it goes on
			p.sentAt = max(p.sentAt, w.silentUntil)
			w.queue.Put(w.silentUntil, arrive)
			return
		}
		if p.id == id && p.connected && !p.n.dead {
			do()
		}
	}
	w.queue.Put(p.sentAt, arrive)
}

func (p *pubsub) fromServer(d time.Duration, id int, do func()) {
	w := p.n.w
	p.heardAt = max(p.heardAt, w.now+d)
	w.queue.Put(p.heardAt, func() {
		if p.id == id && p.connected && !p.n.dead {
			do()
		}
	})
}

// message carries one message to one subscriber.
func (w *world) message(subscriber int, chanName string) {
	p := w.subscribers[subscriber]
	l := w.named(chanName[strings.IndexByte(chanName, '{')+1:])
	times := 1
	if w.strikes(MessageLost) {
		times = 0
	} else if w.strikes(MessageTwice) {
		times = 2
	}
	own, forced := 0, 0
	if w.releaser == p.n {
		own = 1
	}
	if w.forcing {
		forced = 1
	}
	for range times {
		p.fromServer(w.fate.Between(w.set.latency/8, w.set.latency/2), p.id, func() { p.deliver(l, own, forced) })
	}
}

// deliver tells the core of a message: by a Wake of its own, or by one that is still
// in the mailbox.
func (p *pubsub) deliver(l *lockName, own, forced int) {
	ch := p.channels[l.index]
	if !ch.wanted {
		return
	}
	w := p.n.w
	for i := len(p.n.inbox) - 1; i >= 0; i-- {
		h, is := p.n.inbox[i].(*heard)
		if !is || h.Name != l.key {
			continue
		}
		if !w.fate.Percent(50) {
			break
		}
		h.Subscribed = ch.confirmed
		h.More = h.More || h.Message
		h.Message = true
		h.own, h.forced = h.own+own, h.forced+forced
		if h.More {
			w.cover.Merged++
		}
		return
	}
	p.n.post(&heard{Wake: core.Wake{Name: l.key, Subscribed: ch.confirmed, Message: true}, own: own, forced: forced})
}

// drop breaks the connection. It is there again after d.
func (p *pubsub) drop(d time.Duration) {
	if !p.connected {
		return
	}
	w := p.n.w
	p.cut()
	w.after(w.fate.Between(0, w.set.latency), func() {
		// The client notices, unless it is connected again by now.
		if p.connected || p.n.dead {
			return
		}
		for _, l := range w.names {
			if ch := &p.channels[l.index]; ch.wanted {
				ch.confirmed = false
				p.n.post(&heard{Wake: core.Wake{Name: l.key}})
			}
		}
	})
	w.after(d, func() {
		if p.n.dead {
			return
		}
		p.connected = true
		for _, l := range w.names {
			if ch := &p.channels[l.index]; ch.wanted {
				ch.confirmed = false
				p.ask(l)
			}
		}
	})
}

// cut ends the connection and the server's subscriptions for it.
func (p *pubsub) cut() {
	w := p.n.w
	p.connected = false
	for _, l := range w.names {
		w.server.Unsubscribe(l.channel, p.id)
		p.n.readiness(l)
	}
	p.connect()
}

func (p *pubsub) die() { p.cut() }
