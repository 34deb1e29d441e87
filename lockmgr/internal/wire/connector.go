package wire

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A Connector is a Server that is reached through the client of one server. After a connection has
// ended, a Connector sends a PING before the next command, so that the client dials for the PING.
// Without the PING the client would dial for the command, and end the dial with the time-out of the
// command. A longer dial would never succeed. Every command that waits for the same dial would fail
// with the dial, before the command's own time-out.
//
//	connected ──Ended──▶ broken ──a command──▶ PING under way ──answer──▶ connected
//	                       ▲                        │
//	                       └──────── no answer ─────┘  the commands that wait fail
//
// Commands wait for the PING with their own time-outs. If a time-out ends, the PING goes on, for
// questionTime at most.
type Connector struct {
	ended     atomic.Uint64 // connections that have ended
	connected atomic.Uint64 // what ended was when the client was last known to be connected

	redis      Redis
	ctx        context.Context // of PINGs; ends with Close
	stop       context.CancelFunc
	background sync.WaitGroup

	mu     sync.Mutex
	ping   *ping // under way; nil: none
	closed bool
}

// mostPings is how many PINGs are sent in a row if a connection ends during each.
const mostPings = 5

// A ping is a PING under way, for which commands wait.
type ping struct {
	done    chan struct{} // closed at the end; failure is set then
	failure *Failure
}

// NewConnector returns a Connector without a client.
func NewConnector() *Connector {
	c := &Connector{}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// Use sets the client. Use must be called before the first command.
func (c *Connector) Use(client rueidis.Client) { c.redis.Client = client }

// Exec makes Connector a Server.
func (c *Connector) Exec(limit *Deadline, commands []Command, answers []Answer) {
	if c.ended.Load() != c.connected.Load() {
		if f := c.connect(limit.Start()); f != nil {
			refuse(answers, f)
			return
		}
	}
	c.redis.Exec(limit, commands, answers)
}

// Dedicate is Redis.Dedicate.
func (c *Connector) Dedicate() (Connection, error) { return c.redis.Dedicate() }

// Ended notes the end of a connection that all commands of the client share. Ended never blocks.
func (c *Connector) Ended() { c.ended.Add(1) }

// Close ends the PING under way, and waits for the end.
func (c *Connector) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.background.Wait()
}

// connect waits for the answer to a PING, or until ctx ends. connect returns the failure of
// commands that can't be sent, or nil.
func (c *Connector) connect(ctx context.Context) *Failure {
	p := c.join()
	if p == nil {
		return afterClose
	}
	select {
	case <-p.done:
		return p.failure
	case <-ctx.Done():
		return unsent(ctx.Err())
	}
}

// join returns the PING under way, and begins a PING if there is none. join returns nil after
// Close.
func (c *Connector) join() *ping {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if c.ping == nil {
		p := &ping{done: make(chan struct{})}
		c.ping = p
		c.background.Go(func() {
			f := c.try()
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ping, p.failure = nil, f
			close(p.done)
		})
	}
	return c.ping
}

// try sends PINGs until a PING is answered during which no connection has ended. If no PING is, try
// returns the failure of commands.
func (c *Connector) try() *Failure {
	ctx, end := startOnce(c.ctx, questionTime)
	defer end()
	client := c.redis.Client
	for range mostPings {
		ended := c.ended.Load()
		err := client.Do(ctx, client.B().Ping().Build()).Error()
		e, refused := rueidis.IsRedisErr(err)
		if err != nil && !refused {
			return unsent(err)
		}
		if c.ended.Load() == ended {
			c.connected.Store(ended)
			return nil
		}
		if refused && !strings.HasPrefix(e.Error(), "NOPERM") { // the connection was refused, not the PING
			return unsent(err)
		}
	}
	return &Failure{Kind: Unavailable, Ran: core.No, Err: errors.New("the connections to the server do not last")}
}

// OfCommand reports whether a context belongs to a command or a question of this package. A dial
// with a context of this package is for the connection that all commands share.
func OfCommand(ctx context.Context) bool {
	_, ok := ctx.(*limit)
	return ok
}
