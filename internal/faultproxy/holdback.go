package faultproxy

import "time"

// HoldBack keeps the command, and all commands behind it on its connection, while the proxy goes on
// reading them. Replies to earlier commands pass. The server gets what is kept, in order and on the
// connection that it was sent on, when the rule is released, or a time of after past the instant at
// which the client has closed that connection. A negative after is no limit. The client's end
// follows what was kept.
//
// The rule may keep several connections, each for itself. Released, it keeps nothing from then on.
func (f Fault) HoldBack(after time.Duration) *Rule {
	return f.rule(&Rule{what: holdBack, delay: after, givenUp: make(chan struct{}), delivered: make(chan struct{})})
}

// GivenUp returns a channel that is closed when the client has closed a connection that a HoldBack
// keeps. It is nil for other rules.
func (r *Rule) GivenUp() <-chan struct{} { return r.givenUp }

// Delivered returns a channel that is closed when the server has answered all that a HoldBack kept
// of a connection, or that connection has ended. It is nil for other rules.
func (r *Rule) Delivered() <-chan struct{} { return r.delivered }

// kept is what a HoldBack keeps of one connection. Conn.mu guards what.
type kept struct {
	rule   *Rule
	what   []keptFrame
	closed chan struct{} // by the goroutine that reads the client, at its end
	over   chan struct{} // closed when the server has been sent all of it
}

type keptFrame struct {
	frame []byte
	reply *expected // nil if none comes
}

// holdBack begins to keep the connection.
func (c *Conn) holdBack(r *Rule) {
	k := &kept{rule: r, closed: make(chan struct{}), over: make(chan struct{})}
	c.mu.Lock()
	c.kept = k
	c.mu.Unlock()
	c.proxy.wg.Go(func() { c.deliver(k) })
}

// keep adds a frame to what is kept. It reports whether commands are kept, and does nothing else if
// they are not.
func (c *Conn) keep(frame []byte, reply *expected) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		return false
	}
	c.kept.what = append(c.kept.what, keptFrame{frame, reply})
	return true
}

// deliver waits for the end of a HoldBack and sends what was kept. The goroutine that reads the
// client writes nothing meanwhile.
func (c *Conn) deliver(k *kept) {
	defer close(k.over)
	c.waitFor(k)
	for {
		whole := c.passes()
		c.mu.Lock()
		what := k.what
		k.what = nil
		if whole {
			for _, f := range what {
				if f.reply != nil {
					c.queue = append(c.queue, *f.reply) // before the server can answer it
				}
			}
		}
		if !whole || len(what) == 0 {
			c.kept = nil
			if whole && !c.silent && len(c.queue) > 0 {
				c.queue[len(c.queue)-1].settles = k.rule
			} else {
				k.rule.settle()
			}
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		for _, f := range what {
			_, _ = c.server.Write(f.frame) // fails only if it has ended
		}
	}
}

// waitFor waits for the end of a HoldBack: its release, a time past the client's end, or the end of
// the whole connection.
func (c *Conn) waitFor(k *kept) {
	select {
	case <-k.rule.released:
		return
	case <-c.proxy.done:
		return
	case <-k.closed:
	}
	if !c.passes() {
		return
	}
	var over <-chan time.Time
	if k.rule.delay >= 0 {
		t := time.NewTimer(k.rule.delay)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-over:
	case <-k.rule.released:
	case <-c.proxy.done:
	}
}

// clientGone tells a HoldBack of the client's end, and waits until the server has been sent what
// was kept. Without a HoldBack it does nothing.
func (c *Conn) clientGone() {
	c.mu.Lock()
	k := c.kept
	c.mu.Unlock()
	if k == nil {
		return
	}
	k.rule.giveUp.Do(func() { close(k.rule.givenUp) })
	close(k.closed)
	<-k.over
}

// settleAll is called when the server sends no more replies.
func (c *Conn) settleAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = true
	for i := range c.queue {
		c.queue[i].settles.settle()
	}
}

// isReleased reports whether the rule has stopped to keep commands.
func (r *Rule) isReleased() bool {
	select {
	case <-r.released:
		return true
	default:
		return false
	}
}

// settle reports that a HoldBack has done its work on one connection.
func (r *Rule) settle() {
	if r != nil {
		r.settled.Do(func() { close(r.delivered) })
	}
}
