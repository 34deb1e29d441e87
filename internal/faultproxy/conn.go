package faultproxy

import (
	"bufio"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// Conn is a connection from a client through the proxy to the server.
type Conn struct {
	proxy    *Proxy
	id       int
	client   *net.TCPConn
	server   *net.TCPConn
	plain    net.Conn      // the client's side without its TLS
	toServer *bufio.Writer // of the goroutine that reads the client
	toClient *bufio.Writer // of the goroutine that reads the server

	mu     sync.Mutex
	pubsub bool
	cut    bool
	hole   bool
	stall  chan struct{} // not nil: nothing passes until it is closed
	ended  int           // of its two goroutines
	queue  []expected    // commands without a reply, the oldest first
	kept   *kept         // not nil: commands are kept by a HoldBack
	silent bool          // the server sends no more replies
}

// expected is a reply that is to come.
type expected struct {
	cmd     Cmd
	rule    *Rule  // may be nil
	confirm string // the push that answers it, if pushes do
	left    int    // how many of these
	drop    bool   // the reply is not passed on
	settles *Rule  // the HoldBack that kept it, on the last of what was kept
}

func newConn(p *Proxy, client, server *net.TCPConn) *Conn {
	c := &Conn{proxy: p, client: client, server: server, plain: client}
	if p.tls != nil {
		c.plain = tls.Server(client, p.tls) // shakes hands in its first Read
	}
	c.toServer, c.toClient = bufio.NewWriter(server), bufio.NewWriter(c.plain)
	return c
}

// ID returns the connection's number: 1 is the first that was passed on.
func (c *Conn) ID() int { return c.id }

// PubSub tells whether the client has subscribed to something on it.
func (c *Conn) PubSub() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pubsub
}

// Cut breaks the connection: the client sees its end, and the server too, but after all that was
// passed on before.
func (c *Conn) Cut() {
	c.mu.Lock()
	c.cut = true
	c.mu.Unlock()
	c.client.Close()
	_ = c.server.CloseWrite() // fails only if it has ended
}

// BlackHole makes the bytes on the connection vanish both ways, until Proxy.Heal resets it.
func (c *Conn) BlackHole() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hole = true
}

// Stall keeps the bytes on the connection back, both ways, until Heal or Proxy.Heal.
func (c *Conn) Stall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stall == nil {
		c.stall = make(chan struct{})
	}
}

// Heal ends a stall of the connection, and resets the connection if it is in a black hole.
func (c *Conn) Heal() {
	c.mu.Lock()
	if c.stall != nil {
		close(c.stall)
		c.stall = nil
	}
	hole := c.hole
	c.mu.Unlock()
	if hole {
		c.kill()
	}
}

// kill ends both sides at once.
func (c *Conn) kill() {
	reset(c.client)
	reset(c.server)
	c.proxy.forget(c)
}

// passes waits while the connection is stalled, and tells whether it is whole: after a cut, or in a
// black hole, nothing goes on.
func (c *Conn) passes() bool {
	for {
		c.mu.Lock()
		stall, whole := c.stall, !c.hole && !c.cut
		c.mu.Unlock()
		if stall == nil || !whole {
			return whole
		}
		select {
		case <-stall:
		case <-c.proxy.done:
			return false
		}
	}
}

// end is called by each goroutine when its side has ended. What lies in a black hole stays there
// until it is healed.
func (c *Conn) end() {
	c.mu.Lock()
	c.ended++
	over := c.ended == 2 && !c.hole
	c.mu.Unlock()
	if over {
		c.client.Close()
		c.server.Close()
		c.proxy.forget(c)
	}
}

// readClient passes commands on until the client or the connection ends.
func (c *Conn) readClient() {
	defer c.end()
	c.pump(c.plain, &splitter{inline: true}, c.command, c.toServer)
	c.clientGone()
	if c.passes() {
		_ = c.server.CloseWrite() // fails only if it has ended
	}
}

// readServer passes replies on until the server or the connection ends.
func (c *Conn) readServer() {
	defer c.end()
	c.pump(c.server, &splitter{}, c.reply, c.toClient)
	c.settleAll()
	if c.passes() {
		c.client.Close()
	}
}

// pump reads frames until its source ends. Each frame goes to one func, which passes it on, and
// bytes that are no frame go to the writer as they are. Failing to write ends nothing here: it
// means that the other side has ended, and that side's reader will see to it.
func (c *Conn) pump(src net.Conn, s *splitter, each func(frame []byte), out *bufio.Writer) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		s.write(buf[:n])
		for f := s.next(); f != nil; f = s.next() {
			each(f)
		}
		if (s.err != nil || err != nil) && c.passes() {
			if rest := s.rest(); out != c.toServer || len(rest) > 0 && !c.keep(rest, nil) {
				_, _ = out.Write(rest)
			}
		}
		_ = out.Flush()
		if err != nil {
			return
		}
	}
}

// command passes a command on, unless a rule has other plans for it.
func (c *Conn) command(frame []byte) {
	args := parseCommand(frame)
	if len(args) == 0 { // never answered
		if c.passes() && !c.keep(frame, nil) {
			_, _ = c.toServer.Write(frame)
		}
		return
	}
	e := expected{cmd: newCmd(c, args)}
	if e.confirm = confirms[e.cmd.Name]; e.confirm != "" {
		e.confirm, e.left = "push "+e.confirm, max(1, len(args)-1)
		c.mu.Lock()
		c.pubsub = true
		c.mu.Unlock()
	}
	if !c.passes() {
		return
	}
	if c.keep(frame, &e) {
		return
	}
	e.rule = c.proxy.decide(e.cmd)
	switch e.rule.does() {
	case holdBack:
		if e.rule.isReleased() {
			break
		}
		_ = c.toServer.Flush() // what came before it
		c.holdBack(e.rule)
		c.keep(frame, &e)
		e.rule.fire()
		return
	case cutBefore:
		_ = c.toServer.Flush() // what came before it
		c.Cut()
		e.rule.fire()
		return
	case blackHole:
		_ = c.toServer.Flush()
		c.BlackHole()
		e.rule.fire()
		return
	case waitCommand:
		_ = c.toServer.Flush()
		e.rule.wait()
		if !c.passes() {
			return
		}
	case refuse:
		frame = []byte("PING\r\n") // whose reply comes in the order of the others
	case repeatCommand:
		c.send(frame, e)
		e.drop = true
		e.rule.fire()
	case cutAfterCommand:
		e.drop = true // a fast server may answer before the cut
	}
	c.send(frame, e)
	if e.rule.does() == cutAfterCommand {
		_ = c.toServer.Flush()
		c.Cut()
		e.rule.fire()
	}
}

func (c *Conn) send(frame []byte, e expected) {
	c.mu.Lock()
	c.queue = append(c.queue, e) // before the server can answer it
	c.mu.Unlock()
	_, _ = c.toServer.Write(frame)
}

// reply passes a reply on, unless a rule has other plans for it.
func (c *Conn) reply(frame []byte) {
	e, last := c.match(frame)
	if last {
		defer e.settles.settle() // behind the fault, if one befalls the reply
	}
	if e.rule.does() == waitReply {
		_ = c.toClient.Flush()
		e.rule.wait()
	}
	if !c.passes() || e.drop {
		return
	}
	switch what := e.rule.does(); what {
	case loseReplyAndCut, blackHoleReply:
		_ = c.toClient.Flush()
		if what == blackHoleReply {
			c.BlackHole()
		} else {
			c.Cut()
		}
		e.rule.fire()
		return
	case editReply, refuse:
		frame = e.rule.edit(e.cmd, frame)
		defer e.rule.fire()
	}
	_, _ = c.toClient.Write(frame)
}

// match finds the command that a frame answers, if one does, and tells whether that is all of the
// answer.
func (c *Conn) match(frame []byte) (e expected, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind := pushKind(frame, c.pubsub)
	if len(c.queue) == 0 || kind != "" && kind != c.queue[0].confirm {
		return expected{}, false
	}
	head := &c.queue[0]
	if kind != "" {
		if head.left--; head.left > 0 {
			return *head, false
		}
	}
	e = *head // answered, or a subscription refused as a whole
	c.queue = c.queue[1:]
	return e, true
}

// does returns what a rule does, if there is one.
func (r *Rule) does() action {
	if r == nil {
		return observe
	}
	return r.what
}

// wait is a hold or a delay.
func (r *Rule) wait() {
	var over <-chan time.Time
	if r.delay >= 0 {
		t := time.NewTimer(r.delay)
		defer t.Stop()
		over = t.C
	}
	r.fire()
	select {
	case <-over:
	case <-r.released:
	case <-r.proxy.done:
	}
}
