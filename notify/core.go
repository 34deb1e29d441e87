package notify

import (
	"errors"
	"time"
)

// An input is a message to the hub's goroutine. The set is closed. Each input is a pointer or
// empty, so that a post allocates nothing.
type input interface{ isInput() }

type (
	watch   struct{ w *Watch } // a new watch
	unwatch struct{ w *Watch } // one that was closed
	closing struct{}           // the hub is to end
)

func (watch) isInput()   {}
func (unwatch) isInput() {}
func (closing) isInput() {}
func (*feed) isInput()   {} // a connection has something to report

// core is the hub's state. Only the hub's goroutine uses it. Hub.publish copies a part of it for
// other goroutines.
type core struct {
	hub  *Hub
	opts Options
	now  time.Time // when Handle began the present batch

	conn *connection // the one that all channels are subscribed over

	closed bool
	state  State
	stats  Stats
	news   []news // reused from report to report

	notices []notice // of this batch, in order; reused from batch to batch
}

// A notice is an event to be delivered to a watch.
type notice struct {
	watch *Watch
	event event
}

func newCore(h *Hub, d dialer, opts Options) *core {
	opts = opts.withDefaults()
	c := &core{hub: h, opts: opts}
	c.conn = newConnection(c, d)
	return c
}

// Handle takes a batch of inputs and does everything due. Handle returns how long until something
// is due again.
func (c *core) Handle(batch []input) time.Duration {
	c.now = time.Now()
	for _, in := range batch {
		switch in := in.(type) {
		case watch:
			c.watch(in.w)
		case unwatch:
			c.unwatch(in.w)
		case *feed:
			c.conn.read(in)
		case closing:
			c.close()
		}
	}
	c.advance()
	c.hub.publish(c)
	c.deliver()
	if c.closed {
		return -1
	}
	return c.conn.pause()
}

// advance does everything that is due.
func (c *core) advance() {
	if c.closed {
		c.setState(StateClosed)
		if c.conn.link == nil {
			c.hub.actor.Stop()
		}
		return
	}
	c.conn.advance()
	c.setState(c.conn.state())
}

func (c *core) setState(s State) {
	if c.state == s {
		return
	}
	c.state = s
	if c.opts.OnState != nil {
		c.opts.OnState(s)
	}
}

// deliver delivers the notices of the batch. deliver runs after publish, so that Stats and Err
// already include the event delivered to a watcher.
func (c *core) deliver() {
	wakes := 0
	for i, n := range c.notices {
		wakes += n.watch.add(n.event)
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
	ch := c.conn.channels[w.channel]
	if ch == nil {
		ch = &channel{name: w.channel, group: chunk}
		c.conn.channels[w.channel] = ch
	}
	ch.watches = append(ch.watches, w)
	c.stats.Watches++
	if len(ch.watches) == 1 {
		c.conn.want(ch)
	}
	// A new watch gets the channel's present state as an event.
	switch ch.phase {
	case live:
		c.notices = append(c.notices, notice{w, event{reason: ReasonConfirmed, subscribed: true}})
	case refused:
		c.notices = append(c.notices, notice{w, event{reason: ReasonRefused, err: ch.refusal}})
	}
}

func (c *core) unwatch(w *Watch) {
	ch := c.conn.channels[w.channel]
	if ch == nil || !ch.remove(w) {
		return // closed together with the hub
	}
	c.stats.Watches--
	if !ch.wanted() {
		c.conn.leave(ch)
	}
}

// tell makes a notice of an event for all watches of ch.
func (c *core) tell(ch *channel, e event) {
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

// close closes all watches and begins to close the connection. The goroutine stops when the
// connection has ended.
func (c *core) close() {
	if c.closed {
		return
	}
	c.closed = true
	for _, ch := range c.conn.channels {
		for _, w := range ch.watches {
			w.shut()
		}
	}
	c.conn.disconnect()
	clear(c.conn.channels)
	c.stats.Watches, c.stats.Refused, c.conn.wanted = 0, 0, 0
}

// err returns why some wanted channel may not be subscribed, or nil.
func (c *core) err() error {
	switch {
	case c.closed:
		return ErrClosed
	case c.conn.wanted == 0:
		return nil
	case !c.conn.up && c.conn.failure != nil:
		return c.conn.failure
	}
	return c.conn.refusal
}

// ErrClosed is the error of every future of a watch or a hub that was closed.
var ErrClosed = errors.New("notify: closed")
