package notify

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/clean"
)

// ErrTimeout reports that there was no connection within Options.DialTimeout, or that the server
// did not answer a SUBSCRIBE within Options.CommandTimeout.
var ErrTimeout = errors.New("notify: no answer in time")

// A RefusedError reports that the server refuses a subscription to Channel. Err is the server's
// reply, a *rueidis.RedisError.
type RefusedError struct {
	Channel string
	Err     error
}

// Error names the channel and the reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("notify: subscribe to %q: %s", e.Channel, clean.Text(e.Err.Error(), clean.Most))
}

// Unwrap returns the server's reply.
func (e *RefusedError) Unwrap() error { return e.Err }

// A connection is the hub's state of its links to a server, one after another, and of the channels
// subscribed over the links. Only the hub's goroutine uses a connection.
//
//	              dial              up: connected
//	no link ───────────▶ connecting ─────────────▶ up ─┐ commands, messages
//	  ▲                      │ lose                │◀──┘
//	  │ retryAt              ▼                     ▼ lose, or idle
//	  └────────────────── hungUp ◀─────────────────┘
//	         ended
type connection struct {
	core   *core
	dialer dialer

	channels map[string]*channel // all that are wanted or still subscribed
	wanted   int                 // channels with a watch
	refusal  error               // the newest RefusedError that still holds
	fresh    queue               // absent, wanted: to be subscribed
	drops    queue               // live, unwanted: to be unsubscribed
	suspects queue               // absent, wanted, part of a refused command
	refused  queue               // refused, wanted: to be tried again in the next round
	turn     int                 // which of the first three queues is next
	cmd      *command            // in flight
	rounds   backoff             // between two rounds
	roundAt  time.Time           // of the next round; zero: none

	link     link // nil if there is none
	feed     *feed
	up       bool // commands can be sent
	hungUp   bool // hangUp was called; only the end of link is awaited
	upSince  time.Time
	outage   outage
	warnedAt time.Time // of the last warning about a lost connection
	reported reported
	deadline time.Time // of the dial or of cmd
	idle     time.Time // when an unused connection is closed; zero: never
	retry    backoff
	retryAt  time.Time // no dial before
	failure  error     // why the last link was lost; nil once another is up
	epoch    uint64    // counts the links
}

func newConnection(c *core, d dialer) *connection {
	return &connection{
		core: c, dialer: d, channels: make(map[string]*channel),
		retry:  newBackoff(c.opts.RetryMin, c.opts.RetryMax),
		rounds: newBackoff(c.opts.RetryMax, rarely*c.opts.RetryMax),
	}
}

// want subscribes to a channel that got its first watch.
func (c *connection) want(ch *channel) {
	c.wanted++
	c.idle = time.Time{}
	c.enqueue(ch)
}

// leave unsubscribes from a channel that has lost its last watch.
func (c *connection) leave(ch *channel) {
	if c.wanted--; c.wanted == 0 && c.core.opts.IdleTimeout > 0 {
		c.idle = c.core.now.Add(c.core.opts.IdleTimeout)
	}
	c.noteUnwanted()
	c.enqueue(ch)
	c.forget(ch)
}

// advance does everything due: advance ends what has timed out, dials, and sends the next command.
func (c *connection) advance() {
	if due(c.deadline, c.core.now) {
		c.lose(c.timeout())
	}
	if c.up {
		if due(c.idle, c.core.now) {
			c.core.opts.Logger.Debug("notify: idle, disconnecting", "connection", c.epoch)
			c.disconnect()
		} else {
			if due(c.roundAt, c.core.now) {
				c.askAgain()
			}
			c.sendNext()
		}
	}
	if c.link == nil && c.wanted > 0 && !c.core.now.Before(c.retryAt) {
		c.dial()
	}
}

// state is the connection's part of the hub's state.
func (c *connection) state() State {
	switch {
	case c.up:
		return StateConnected
	case c.link != nil && !c.hungUp:
		return StateConnecting
	case c.wanted > 0:
		return StateDown
	}
	return StateIdle
}

// pause returns how long until advance has something to do if no input comes; negative if it never
// has.
func (c *connection) pause() time.Duration {
	times := []time.Time{c.deadline}
	if c.up {
		times = append(times, c.idle, c.roundAt)
	}
	if c.link == nil && c.wanted > 0 {
		times = append(times, c.retryAt)
	}
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if first.IsZero() {
		return -1
	}
	return max(0, time.Until(first))
}

func due(t, now time.Time) bool { return !t.IsZero() && !now.Before(t) }

func (c *connection) dial() {
	c.epoch++
	c.reported = reported{}
	c.feed = newFeed(c.epoch, func(f *feed) { c.core.hub.actor.Post(f) })
	c.deadline = c.core.now.Add(c.core.opts.DialTimeout)
	c.link = c.dialer.dial(c.feed)
}

// timeout is the error of a deadline that has passed.
func (c *connection) timeout() error {
	if c.up {
		return ErrTimeout
	}
	return fmt.Errorf("%w: no connection within %v: is the server reachable, and has the client's pool (BlockingPoolSize) one to spare?", ErrTimeout, c.core.opts.DialTimeout)
}

// connected begins to subscribe to every wanted channel.
func (c *connection) connected() {
	c.up, c.upSince, c.deadline, c.failure = true, c.core.now, time.Time{}, nil
	c.core.stats.Connects++
	c.logConnected()
	for _, ch := range c.channels {
		c.enqueue(ch)
	}
}

// lose gives up a failed connection, and sets when to try again.
func (c *connection) lose(err error) {
	c.failure = err
	if !errors.Is(err, ErrTimeout) {
		c.failure = fmt.Errorf("notify: connection: %w", err)
	}
	if c.up {
		c.core.stats.Losses++
		// Retry soon after a lasting connection. A connection that breaks again and again is
		// retried ever later, even if each dial succeeds.
		if c.core.now.Sub(c.upSince) >= c.core.opts.RetryMax {
			c.retry.reset()
		}
	}
	pause := c.retry.next()
	c.retryAt = c.core.now.Add(pause)
	c.logLoss(err, pause)
	c.disconnect()
}

// disconnect hangs up and makes all channels absent. Watches of live channels get a Gap.
func (c *connection) disconnect() {
	c.up, c.cmd = false, nil
	c.deadline, c.idle, c.roundAt = time.Time{}, time.Time{}, time.Time{}
	for _, ch := range c.channels {
		wasLive := ch.phase == live
		c.core.setPhase([]*channel{ch}, absent)
		if wasLive {
			c.core.tell(ch, event{reason: ReasonGap, err: c.failure})
		}
		c.forget(ch)
	}
	if c.link != nil && !c.hungUp {
		c.hungUp = true
		c.link.hangUp()
	}
}

// ended notes that nothing is left of the connection.
func (c *connection) ended(err error) {
	if !c.hungUp {
		c.hungUp = true // it ended by itself
		c.lose(err)
	}
	c.link, c.feed, c.hungUp = nil, nil, false
}

// read handles the report of a connection. read ignores reports of old connections. If the
// connection was hung up, read handles only the end.
func (c *connection) read(f *feed) {
	r := f.take(c.core.news[:0])
	c.core.news = r.news
	c.core.stats.Messages += r.strays
	c.core.stats.Strays += r.strays
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
	clear(c.core.news) // do not keep channels alive
	if r.ended {
		c.ended(r.err)
	}
}

// heard passes news of a channel on to the channel's watches, as a single event.
func (c *connection) heard(n *news) {
	var e event
	if n.confirmed && c.confirmed(n.ch) {
		e.reason |= ReasonConfirmed
	}
	if n.messages > 0 {
		e.reason |= ReasonMessage
		e.messages, e.payload = n.messages, n.payload
		c.core.stats.Messages += n.messages
		c.core.stats.Coalesced += n.messages - 1
	}
	if e.reason != 0 {
		c.core.tell(n.ch, e)
	}
	if n.gone && n.ch.phase == live {
		c.ousted(n.ch)
	}
}

// ErrMoved is the error of a ReasonGap if the server has ended the subscription to a sharded
// channel, because another node serves the channel's slot.
var ErrMoved = errors.New("notify: the slot of the channel has moved")

// ousted notes that the server has ended a subscription. The hub tries again here: the slot may
// come back.
func (c *connection) ousted(ch *channel) {
	c.core.setPhase([]*channel{ch}, absent)
	c.core.tell(ch, event{reason: ReasonGap, err: ErrMoved})
	c.enqueue(ch)
	c.forget(ch)
}
