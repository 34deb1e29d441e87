package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A pubsub is a manager's connections for messages, one to each shard, and the notify actor.
type pubsub struct {
	n        *node
	lines    []*line    // by shard
	channels []*channel // those of the single names, then those of places that are subscribed to
}

// A line is a connection to a shard. It keeps the order of commands and messages.
type line struct {
	p         *pubsub
	at        *shard
	id        int // as a subscriber: new with each connection
	connected bool
	demoted   bool          // it leads to a master that was demoted, and hears what the new one publishes
	sent      []func()      // commands that have not arrived
	sentAt    time.Duration // the arrival of the last command at the server
	heardAt   time.Duration // the last arrival from the server
}

// A channel is the state of a subscription to the channel of a name, or to that of a place of a fair
// lock. listeners are those for whom the core wants
// it. confirmed reports whether the core was told of its confirmation. asked counts the
// SUBSCRIBEs, because only the confirmation of the newest one counts.
type channel struct {
	of        *lockName
	line      *line
	place     uint64     // or zero
	set       uint64     // the number of the set whose channel it is, or zero
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
	for _, s := range n.w.shards {
		t := &line{p: p, at: s, connected: true}
		p.lines = append(p.lines, t)
		t.connect()
	}
	for _, l := range n.w.single {
		p.channels = append(p.channels, &channel{of: l, line: p.lines[l.shard.index]})
	}
}

// connect takes a new number as a subscriber.
func (t *line) connect() {
	w := t.p.n.w
	t.id = len(w.subscribers)
	w.subscribers = append(w.subscribers, t)
}

// at returns the name of a channel on the server.
func (p *pubsub) at(ch *channel) string {
	switch {
	case ch.of.kind != core.Fair && ch.place == core.LinePlace:
		return ch.of.channel + ":line"
	case ch.set != 0:
		return ch.of.channel + ":" + wire.HolderID(p.n.label, ch.set)
	case ch.of.kind != core.Fair && ch.place == core.OwnPlace, ch.of.kind == core.Fair && ch.place == 0:
		return ch.of.channel + ":" + p.n.label
	case ch.place != 0:
		return ch.of.channel + ":" + wire.FairHolderID(p.n.label, ch.place)
	}
	return ch.of.channel
}

// find returns the channel of a name, or that of a place, or of a set. It makes the latter if it is
// new.
func (p *pubsub) find(of *lockName, place, set uint64) *channel {
	if place == 0 {
		return p.channels[of.index]
	}
	for _, ch := range p.channels {
		if ch.of == of && ch.place == place && ch.set == set {
			return ch
		}
	}
	ch := &channel{of: of, line: p.channels[of.index].line, place: place, set: set}
	p.channels = append(p.channels, ch)
	p.n.w.cover.Fair.Places++
	return ch
}

func (p *pubsub) subscribe(l *lockName, place, set uint64) {
	for of, who := range l.listeners {
		ch := p.find(of, place, set)
		who.place = place
		if slices.Contains(ch.listeners, who) {
			p.n.w.violated("subscriptions", "%s: subscribed twice to %s for %s", p.n.label, p.at(ch), l.key)
		}
		ch.listeners = append(ch.listeners, who)
		switch {
		case len(ch.listeners) == 1:
			ch.confirmed = false
			if ch.line.connected {
				p.ask(ch)
			}
		case ch.confirmed:
			p.confirm(who)
		}
	}
}

func (p *pubsub) unsubscribe(l *lockName, place, set uint64) {
	for of, who := range l.listeners {
		ch := p.find(of, place, set)
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
		if t := ch.line; t.connected {
			id := t.id
			t.toServer(func() {
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

// ask sends SUBSCRIBE and reports the confirmation. If another shard serves the slot, the manager
// looks for the layout, and asks that one.
func (p *pubsub) ask(ch *channel) {
	w := p.n.w
	t := ch.line
	id := t.id
	ch.asked++
	asked := ch.asked
	t.toServer(func() {
		if ch.of.shard != t.at {
			p.n.lookSoon(8 * w.set.latency)
			return
		}
		w.server.Subscribe(p.at(ch), id)
		if t.demoted {
			w.server.Demote(p.at(ch), id)
		}
		p.n.readiness(ch.of)
		d := w.fate.Between(w.set.latency/8, w.set.latency/2)
		if w.strikes(SlowConfirm) {
			d = w.fate.Between(0, 20*w.set.latency)
		}
		t.fromServer(d, id, func() {
			if len(ch.listeners) > 0 && ch.asked == asked {
				ch.confirmed = true
				for _, who := range ch.listeners {
					p.confirm(who)
				}
			}
		})
	})
}

// toServer sends a command. Commands arrive in the order in which they were sent, also at a server
// that goes on after a silence.
func (t *line) toServer(do func()) {
	w := t.p.n.w
	id := t.id
	t.sentAt = max(t.sentAt, w.now+w.fate.Between(w.set.latency/8, w.set.latency/2))
	t.sent = append(t.sent, func() {
		if t.id == id && t.connected && !t.p.n.dead {
			do()
		}
	})
	var arrive func()
	arrive = func() {
		if w.silent(t.at) { // the server reads it when it goes on
			t.sentAt = max(t.sentAt, t.at.silentUntil)
			w.queue.Put(t.at.silentUntil, arrive)
			return
		}
		next := t.sent[0]
		t.sent = t.sent[1:]
		next()
	}
	w.queue.Put(t.sentAt, arrive)
}

func (t *line) fromServer(d time.Duration, id int, do func()) {
	w := t.p.n.w
	t.heardAt = max(t.heardAt, w.now+d)
	w.queue.Put(t.heardAt, func() {
		if t.id == id && t.connected && !t.p.n.dead {
			do()
		}
	})
}

// message carries one message to one subscriber.
func (w *world) message(subscriber int, chanName, payload string) {
	if subscriber < 0 {
		w.byID[-1-subscriber].in(w.fate.Between(w.set.latency/8, w.set.latency))
		return
	}
	t := w.subscribers[subscriber]
	p := t.p
	times := 1
	if w.strikes(MessageLost) {
		times = 0
	} else if w.strikes(MessageTwice) {
		times = 2
	}
	d := w.fate.Between(w.set.latency/8, w.set.latency/2)
	if w.strikes(MessageLate) {
		d = w.fate.LogBetween(w.set.latency, 2*w.set.core.Lease)
	}
	rests := told{ours: wire.Ours(payload), served: wire.Served(payload)}
	forced := 0
	for _, l := range w.single {
		if strings.HasPrefix(chanName, l.channel) {
			rests.epoch, rests.counterEpoch = l.epoch, l.counterEpoch
			rests.Grant, _ = wire.ReadGrant(p.n.secret(), l.key, payload)
		}
	}
	if w.forcing {
		forced = 1
	}
	for range times {
		t.fromServer(d, t.id, func() {
			for _, ch := range p.channels {
				if p.at(ch) == chanName {
					p.deliver(ch, forced, rests)
				}
			}
		})
	}
}

// deliver tells the core of a message for each that listens.
func (p *pubsub) deliver(ch *channel, forced int, grant told) {
	for _, who := range ch.listeners {
		p.tell(who, forced, ch.confirmed, grant)
	}
}

// tell tells the core of a message: by a Wake of its own, or by one that is still in the mailbox.
func (p *pubsub) tell(who listener, forced int, confirmed bool, grant told) {
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
		h.Message, h.Ours, h.Served = true, grant.ours && !h.More, grant.served && !h.More
		h.forced += forced
		h.Grant, h.epoch, h.counterEpoch = grant.Grant, grant.epoch, grant.counterEpoch
		if h.More {
			w.cover.Merged++
		}
		return
	}
	h := &heard{Wake: who.wake(), forced: forced}
	h.Subscribed, h.Message, h.Ours, h.Served = confirmed, true, grant.ours, grant.served
	h.Grant, h.epoch, h.counterEpoch = grant.Grant, grant.epoch, grant.counterEpoch
	p.n.post(h)
}

// drop breaks the connection to a shard. It is there again after d.
func (p *pubsub) drop(s *shard, d time.Duration) {
	t := p.lines[s.index]
	if !t.connected {
		return
	}
	w := p.n.w
	t.cut()
	w.after(w.fate.Between(0, w.set.latency), func() {
		// The client notices, unless it is connected again by now.
		if t.connected || p.n.dead {
			return
		}
		for _, ch := range p.channels {
			if ch.line == t {
				p.gap(ch)
			}
		}
	})
	w.after(d, func() {
		if p.n.dead {
			return
		}
		t.connected = true
		for _, ch := range p.channels {
			if ch.line == t && len(ch.listeners) > 0 {
				ch.confirmed = false
				p.ask(ch)
			}
		}
	})
}

// gap tells the core that messages of a channel may be lost.
func (p *pubsub) gap(ch *channel) {
	ch.confirmed = false
	for _, who := range ch.listeners {
		p.n.post(&heard{Wake: who.wake()})
	}
}

// demote keeps the connection to a shard whose master has become a replica.
func (p *pubsub) demote(s *shard) {
	t := p.lines[s.index]
	t.demoted = t.connected
	for _, ch := range p.channels {
		if ch.line == t {
			p.n.w.server.Demote(p.at(ch), t.id)
			p.n.readiness(ch.of)
		}
	}
}

// cut ends a connection and the server's subscriptions for it.
func (t *line) cut() {
	p := t.p
	t.connected, t.demoted = false, false
	for _, ch := range p.channels {
		if ch.line == t {
			p.n.w.server.Unsubscribe(p.at(ch), t.id)
			p.n.readiness(ch.of)
		}
	}
	t.connect()
}

func (p *pubsub) die() {
	for _, t := range p.lines {
		t.cut()
	}
}

// slotMoved ends the subscriptions to the channels of a name at the shard that served it. The
// server tells the manager so.
func (p *pubsub) slotMoved(l *lockName) {
	for _, ch := range p.channels {
		t := ch.line
		if ch.of != l || !p.n.w.server.Subscribed(p.at(ch), t.id) {
			continue
		}
		p.n.w.server.Unsubscribe(p.at(ch), t.id)
		p.n.readiness(l)
		t.fromServer(p.n.w.fate.Between(p.n.w.set.latency/8, p.n.w.set.latency/2), t.id, func() {
			if ch.line == t {
				p.gap(ch)
				p.n.lookSoon(8 * p.n.w.set.latency)
			}
		})
	}
}

// follow subscribes to the channels whose names have moved at the shards that serve these now.
func (p *pubsub) follow() {
	for _, ch := range p.channels {
		t := p.lines[p.n.layout[ch.of.index].index]
		if ch.line == t {
			continue
		}
		ch.line = t
		if len(ch.listeners) == 0 {
			continue
		}
		p.gap(ch)
		p.n.w.cover.Shards.Followed++
		if t.connected {
			p.ask(ch)
		}
	}
}
