package sim

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/model"
)

// A pubsub is a manager's connection for messages and the notify actor. The
// connection keeps the order of commands and messages.
type pubsub struct {
	n         *node
	id        int // as a subscriber: new with each connection
	connected bool
	channels  []*channel    // those of the single names, then those of places that are subscribed to
	sentAt    time.Duration // the arrival of the last command at the server
	heardAt   time.Duration // the last arrival from the server
}

// A channel is the state of a subscription to the channel of a name, or to that of a place of a fair
// lock. listeners are those for whom the core wants
// it. confirmed reports whether the core was told of its confirmation. asked counts the
// SUBSCRIBEs, because only the confirmation of the newest one counts.
type channel struct {
	of        *lockName
	place     uint64     // or zero
	listeners []listener // in the order in which they came
	confirmed bool
	asked     int
}

// A listener is a single name, or an item of a set, which counts from 1.
type listener struct {
	name  *lockName
	item  int
	place uint64
}

// listeners calls yield for each name of a lock and its listener.
func (l *lockName) listeners(yield func(*lockName, listener) bool) {
	for i, of := range l.bases() {
		item := 0
		if l.isSet() {
			item = i + 1
		}
		if !yield(of, listener{name: l, item: item}) {
			return
		}
	}
}

// wake returns an event of a listener.
func (who listener) wake() core.Wake {
	return core.Wake{Name: who.name.key, Item: who.item, Place: who.place}
}

// wants reports whether the core wants the messages of a lock.
func (p *pubsub) wants(l *lockName) bool {
	return slices.ContainsFunc(p.channels[l.bases()[0].index].listeners, func(who listener) bool { return who.name == l })
}

func (p *pubsub) init(n *node) {
	p.n = n
	p.connected = true
	for _, l := range n.w.single {
		p.channels = append(p.channels, &channel{of: l})
	}
	p.connect()
}

// connect takes a new number as a subscriber.
func (p *pubsub) connect() {
	p.id = len(p.n.w.subscribers)
	p.n.w.subscribers = append(p.n.w.subscribers, p)
}

// at returns the name of a channel on the server.
func (p *pubsub) at(ch *channel) string {
	switch {
	case ch.place != 0:
		return ch.of.channel + ":" + model.PlaceID(p.n.label, ch.place)
	case ch.of.kind == core.Fair:
		return ch.of.channel + ":" + p.n.label
	}
	return ch.of.channel
}

// find returns the channel of a name, or that of a place. It makes the latter if it is new.
func (p *pubsub) find(of *lockName, place uint64) *channel {
	if place == 0 {
		return p.channels[of.index]
	}
	for _, ch := range p.channels {
		if ch.of == of && ch.place == place {
			return ch
		}
	}
	ch := &channel{of: of, place: place}
	p.channels = append(p.channels, ch)
	p.n.w.cover.Fair.Places++
	return ch
}

func (p *pubsub) subscribe(l *lockName, place uint64) {
	for of, who := range l.listeners {
		ch := p.find(of, place)
		who.place = place
		if slices.Contains(ch.listeners, who) {
			p.n.w.violated("subscriptions", "%s: subscribed twice to %s for %s", p.n.label, p.at(ch), l.key)
		}
		ch.listeners = append(ch.listeners, who)
		switch {
		case len(ch.listeners) == 1:
			ch.confirmed = false
			if p.connected {
				p.ask(ch)
			}
		case ch.confirmed:
			p.confirm(who)
		}
	}
}

func (p *pubsub) unsubscribe(l *lockName, place uint64) {
	for of, who := range l.listeners {
		ch := p.find(of, place)
		who.place = place
		i := slices.Index(ch.listeners, who)
		if i < 0 {
			p.n.w.violated("subscriptions", "%s: unsubscribed from %s for %s without a subscription", p.n.label, p.at(ch), l.key)
		}
		if ch.listeners = slices.Delete(ch.listeners, i, i+1); len(ch.listeners) > 0 {
			continue
		}
		ch.confirmed = false
		if place != 0 {
			at := slices.Index(p.channels, ch)
			p.channels = slices.Delete(p.channels, at, at+1)
		}
		if p.connected {
			id := p.id
			p.toServer(func() {
				p.n.w.server.Unsubscribe(p.at(ch), id)
				p.n.readiness(of)
			})
		}
	}
}

// confirm tells the core that a listener gets the messages from now on.
func (p *pubsub) confirm(who listener) {
	h := &heard{Wake: who.wake()}
	h.Subscribed, h.Confirmed = true, true
	p.n.post(h)
}

// ask sends SUBSCRIBE and reports the confirmation.
func (p *pubsub) ask(ch *channel) {
	w := p.n.w
	id := p.id
	ch.asked++
	asked := ch.asked
	p.toServer(func() {
		w.server.Subscribe(p.at(ch), id)
		p.n.readiness(ch.of)
		d := w.fate.Between(w.set.latency/8, w.set.latency/2)
		if w.strikes(SlowConfirm) {
			d = w.fate.Between(0, 20*w.set.latency)
		}
		p.fromServer(d, id, func() {
			if len(ch.listeners) > 0 && ch.asked == asked {
				ch.confirmed = true
				for _, who := range ch.listeners {
					p.confirm(who)
				}
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
	if subscriber < 0 {
		w.byID[-1-subscriber].in(w.fate.Between(w.set.latency/8, w.set.latency))
		return
	}
	p := w.subscribers[subscriber]
	times := 1
	if w.strikes(MessageLost) {
		times = 0
	} else if w.strikes(MessageTwice) {
		times = 2
	}
	from := w.releasing
	forced := 0
	if w.forcing {
		forced = 1
	}
	for range times {
		p.fromServer(w.fate.Between(w.set.latency/8, w.set.latency/2), p.id, func() {
			for _, ch := range p.channels {
				if p.at(ch) == chanName {
					p.deliver(ch, from, forced)
				}
			}
		})
	}
}

// deliver tells the core of a message for each that listens. from is the release that
// published it, or nil.
func (p *pubsub) deliver(ch *channel, from *command, forced int) {
	for _, who := range ch.listeners {
		own := 0
		if from != nil && from.n == p.n && from.name == who.name {
			own = 1
		}
		p.tell(who, own, forced, ch.confirmed)
	}
}

// tell tells the core of a message: by a Wake of its own, or by one that is still in the
// mailbox.
func (p *pubsub) tell(who listener, own, forced int, confirmed bool) {
	w := p.n.w
	for i := len(p.n.inbox) - 1; i >= 0; i-- {
		h, is := p.n.inbox[i].(*heard)
		if !is || h.Name != who.name.key || h.Item != who.item || h.Place != who.place {
			continue
		}
		if !w.fate.Percent(50) {
			break
		}
		h.Subscribed = confirmed
		h.More = h.More || h.Message
		h.Message = true
		h.own, h.forced = h.own+own, h.forced+forced
		if h.More {
			w.cover.Merged++
		}
		return
	}
	h := &heard{Wake: who.wake(), own: own, forced: forced}
	h.Subscribed, h.Message = confirmed, true
	p.n.post(h)
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
		for _, ch := range p.channels {
			ch.confirmed = false
			for _, who := range ch.listeners {
				p.n.post(&heard{Wake: who.wake()})
			}
		}
	})
	w.after(d, func() {
		if p.n.dead {
			return
		}
		p.connected = true
		for _, ch := range p.channels {
			if len(ch.listeners) > 0 {
				ch.confirmed = false
				p.ask(ch)
			}
		}
	})
}

// cut ends the connection and the server's subscriptions for it.
func (p *pubsub) cut() {
	w := p.n.w
	p.connected = false
	for _, ch := range p.channels {
		w.server.Unsubscribe(p.at(ch), p.id)
		p.n.readiness(ch.of)
	}
	p.connect()
}

func (p *pubsub) die() { p.cut() }
