package notify

import (
	"errors"
	"fmt"
	"time"
)

// ErrTimeout says that there was no connection within Options.DialTimeout, or
// that the server did not answer a SUBSCRIBE within Options.CommandTimeout.
var ErrTimeout = errors.New("notify: no answer in time")

// A RefusedError says that the server refuses to subscribe to a channel. Err is
// what it answered, a *rueidis.RedisError.
type RefusedError struct {
	Channel string
	Err     error
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("notify: subscribe to %q: %v", e.Channel, e.Err)
}

// Unwrap returns what the server answered.
func (e *RefusedError) Unwrap() error { return e.Err }

// advance does everything that is due: it ends what has timed out, dials, and
// sends the next command.
func (c *core) advance() {
	if c.closed {
		c.setState(StateClosed)
		if c.link == nil {
			c.hub.actor.Stop()
		}
		return
	}
	if due(c.deadline, c.now) {
		c.lose(c.timeout())
	}
	if c.up {
		if due(c.idle, c.now) {
			c.opts.Logger.Debug("notify: idle, disconnecting", "connection", c.epoch)
			c.disconnect()
		} else {
			if due(c.round, c.now) {
				c.askAgain()
			}
			c.sendNext()
		}
	}
	if c.link == nil && c.wanted > 0 && !c.now.Before(c.retryAt) {
		c.dial()
	}
	switch {
	case c.up:
		c.setState(StateConnected)
	case c.link != nil && !c.hungUp:
		c.setState(StateConnecting)
	case c.wanted > 0:
		c.setState(StateDown)
	default:
		c.setState(StateIdle)
	}
}

// pause returns how long until advance has something to do if no event comes;
// negative if it never has.
func (c *core) pause() time.Duration {
	if c.closed {
		return -1
	}
	times := [...]time.Time{c.deadline, time.Time{}, time.Time{}, time.Time{}}
	if c.up {
		times[1], times[2] = c.idle, c.round
	}
	if c.link == nil && c.wanted > 0 {
		times[3] = c.retryAt
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

func (c *core) dial() {
	c.epoch++
	c.feed = newFeed(c.epoch, func(f *feed) { c.hub.actor.Post(f) })
	c.deadline = c.now.Add(c.opts.DialTimeout)
	c.link = c.dialer.dial(c.feed)
}

// timeout is the error of a deadline that has passed.
func (c *core) timeout() error {
	if c.up {
		return ErrTimeout
	}
	return fmt.Errorf("%w: no connection within %v: is the server reachable, and has the client's pool (BlockingPoolSize) one to spare?", ErrTimeout, c.opts.DialTimeout)
}

// connected begins to subscribe to everything that is wanted.
func (c *core) connected() {
	c.up, c.upSince, c.deadline, c.failure = true, c.now, time.Time{}, nil
	c.stats.Connects++
	c.opts.Logger.Info("notify: connected", "connection", c.epoch, "channels", c.wanted)
	for _, ch := range c.channels {
		c.enqueue(ch)
	}
}

// lose gives up a connection that failed, and sets when to try again.
func (c *core) lose(err error) {
	c.failure = err
	if !errors.Is(err, ErrTimeout) {
		c.failure = fmt.Errorf("notify: connection: %w", err)
	}
	if c.up {
		c.stats.Losses++
		// Retry soon after a connection that lasted. One that breaks again
		// and again is retried ever later, even if it opens each time.
		if c.now.Sub(c.upSince) >= c.opts.RetryMax {
			c.retry.reset()
		}
	}
	pause := c.retry.next()
	c.retryAt = c.now.Add(pause)
	c.opts.Logger.Warn("notify: connection lost", "connection", c.epoch, "up", c.up, "retry", pause, "err", err)
	c.disconnect()
}

// disconnect hangs up and makes all channels absent. Watches of live channels
// get a Gap.
func (c *core) disconnect() {
	c.up, c.cmd = false, nil
	c.deadline, c.idle, c.round = time.Time{}, time.Time{}, time.Time{}
	for _, ch := range c.channels {
		was := ch.phase
		c.setPhase([]*channel{ch}, absent)
		if was == live {
			c.tell(ch, change{reason: ReasonGap, err: c.failure})
		}
		c.forget(ch)
	}
	if c.link != nil && !c.hungUp {
		c.hungUp = true
		c.link.hangUp()
	}
}

// ended notes that nothing is left of the connection.
func (c *core) ended(err error) {
	if !c.hungUp {
		c.hungUp = true // it ended by itself
		c.lose(err)
	}
	c.link, c.feed, c.hungUp = nil, nil, false
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
