package notify

import (
	"errors"
	"slices"
	"time"
)

// An event is a message to the hub's goroutine. The set is closed. Each is a
// pointer or empty, so that posting one allocates nothing.
type event interface{ isEvent() }

type (
	watch   struct{ w *Watch } // a new watch
	unwatch struct{ w *Watch } // one that was closed
	closing struct{}           // the hub is to end
)

func (watch) isEvent()   {}
func (unwatch) isEvent() {}
func (closing) isEvent() {}
func (*feed) isEvent()   {} // a connection has something to report

// core is the hub's state. Only the hub's goroutine uses it; Hub.publish shows
// part of it to others.
type core struct {
	hub    *Hub
	opts   Options
	dialer dialer
	now    time.Time // when the present batch was begun

	channels map[string]*channel // all that are wanted or still subscribed
	wanted   int                 // channels with a watch
	fresh    queue               // absent, wanted: to be subscribed
	drops    queue               // live, unwanted: to be unsubscribed
	suspects queue               // absent, wanted, part of a refused command
	refused  queue               // refused, wanted: wait for round
	turn     int                 // which of the first three queues is next
	cmd      *command            // in flight
	refusal  error               // the newest RefusedError of a channel that is still refused
	rounds   backoff             // between two rounds
	round    time.Time           // when the refused are tried again; zero: none waits

	link     link // the connection; nil if there is none
	feed     *feed
	up       bool // commands can be sent
	hungUp   bool // only the end of link is awaited
	upSince  time.Time
	deadline time.Time // of the dial or of cmd
	idle     time.Time // when an unused connection is given up; zero: not
	retry    backoff
	retryAt  time.Time // the hub does not dial before
	failure  error     // why the last connection was lost; nil once another is up

	closed bool
	state  State
	epoch  uint64
	stats  Stats
	news   []news // reused from report to report

	notices []notice // of this batch, in order; reused from batch to batch
}

// A notice is an event to be delivered to a watch.
type notice struct {
	watch  *Watch
	change change
}

func newCore(h *Hub, d dialer, opts Options) *core {
	opts = opts.withDefaults()
	return &core{
		hub:      h,
		opts:     opts,
		dialer:   d,
		channels: make(map[string]*channel),
		retry:    newBackoff(opts.RetryMin, opts.RetryMax),
		rounds:   newBackoff(opts.RetryMax, rarely*opts.RetryMax),
	}
}

// Handle takes a batch of events and then does what is due. It returns how long
// until something is due again.
func (c *core) Handle(batch []event) time.Duration {
	c.now = time.Now()
	for _, e := range batch {
		switch e := e.(type) {
		case watch:
			c.watch(e.w)
		case unwatch:
			c.unwatch(e.w)
		case *feed:
			c.read(e)
		case closing:
			c.close()
		}
	}
	c.advance()
	c.hub.publish(c)
	c.deliver()
	return c.pause()
}

// deliver delivers the notices of this batch. It runs after publish, so that a
// watcher finds the event in Stats and Err as well.
func (c *core) deliver() {
	wakes := 0
	for i, n := range c.notices {
		wakes += n.watch.add(n.change)
		c.notices[i] = notice{}
	}
	c.notices = c.notices[:0]
	if wakes > 0 {
		c.stats.Wakes += uint64(wakes)
		c.hub.publishWakes(c.stats.Wakes)
	}
}

func (c *core) watch(w *Watch) {
	if c.closed {
		w.shut()
		return
	}
	ch := c.channels[w.channel]
	if ch == nil {
		ch = &channel{name: w.channel, group: chunk}
		c.channels[w.channel] = ch
	}
	ch.watches = append(ch.watches, w)
	c.stats.Watches++
	if len(ch.watches) == 1 {
		c.wanted++
		c.idle = time.Time{}
		c.enqueue(ch)
	}
	// A new watch does not wait for an event that was before its time.
	switch ch.phase {
	case live:
		c.notices = append(c.notices, notice{w, change{reason: ReasonConfirmed, subscribed: true}})
	case refused:
		c.notices = append(c.notices, notice{w, change{reason: ReasonRefused, err: ch.refusal}})
	}
}

func (c *core) unwatch(w *Watch) {
	ch := c.channels[w.channel]
	if ch == nil || !ch.remove(w) {
		return // closed together with the hub
	}
	c.stats.Watches--
	if ch.wanted() {
		return
	}
	if c.wanted--; c.wanted == 0 && c.opts.IdleTimeout > 0 {
		c.idle = c.now.Add(c.opts.IdleTimeout)
	}
	c.enqueue(ch)
	c.forget(ch)
}

// read handles the report of a connection. It ignores old connections, and
// everything but the end of one that was hung up.
func (c *core) read(f *feed) {
	r := f.take(c.news[:0])
	c.news = r.news
	c.stats.Messages += r.strays
	c.stats.Strays += r.strays
	if f != c.feed {
		return
	}
	if !c.hungUp {
		if r.up {
			c.connected()
		}
		for i := range r.news {
			c.heard(&r.news[i])
		}
		if r.answered {
			c.answered(r.refusal)
		}
	}
	clear(c.news) // do not keep payloads and channels alive
	if r.ended {
		c.ended(r.err)
	}
}

// heard passes news of a channel on to its watches, as one event.
func (c *core) heard(n *news) {
	var e change
	if n.confirmed && c.confirmed(n.ch) {
		e.reason |= ReasonConfirmed
	}
	if n.messages > 0 {
		e.reason |= ReasonMessage
		e.messages, e.payload = n.messages, n.payload
		c.stats.Messages += n.messages
		c.stats.Coalesced += n.messages - 1
	}
	if e.reason != 0 {
		c.tell(n.ch, e)
	}
}

// tell makes a notice of an event for all watches of ch.
func (c *core) tell(ch *channel, e change) {
	e.subscribed = ch.phase == live
	for _, w := range ch.watches {
		c.notices = append(c.notices, notice{w, e})
	}
}

// setPhase moves channels to a phase of their subscription.
func (c *core) setPhase(chs []*channel, p phase) {
	for _, ch := range chs {
		if ch.phase == live {
			c.stats.Confirmed--
		}
		if p == live {
			c.stats.Confirmed++
		}
		ch.phase = p
	}
}

// close closes all watches and begins to close the connection. The goroutine
// stops when the connection has ended.
func (c *core) close() {
	if c.closed {
		return
	}
	c.closed = true
	for _, ch := range c.channels {
		for _, w := range ch.watches {
			w.shut()
		}
	}
	c.disconnect()
	clear(c.channels)
	c.stats.Watches, c.stats.Refused, c.wanted = 0, 0, 0
}

// err returns why some wanted channel may not be subscribed, or nil.
func (c *core) err() error {
	switch {
	case c.closed:
		return ErrClosed
	case c.wanted == 0:
		return nil
	case !c.up && c.failure != nil:
		return c.failure
	}
	return c.refusal
}

// ErrClosed is the error of every future of a watch or a hub that was closed.
var ErrClosed = errors.New("notify: closed")

// remove takes w from the channel's watches.
func (ch *channel) remove(w *Watch) bool {
	i := slices.Index(ch.watches, w)
	if i < 0 {
		return false
	}
	ch.watches = slices.Delete(ch.watches, i, i+1)
	return true
}
