package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// New starts a hub that subscribes over a dedicated connection of client. The first Watch opens the
// connection. The caller still owns the client, may use the client for anything else, and must
// close the hub before the client.
//
// The client should use RESP3, with a Dialer.KeepAlive and a ConnWriteTimeout of seconds at most.
// After the sum of the two, the client notices a silent server. The client's retry settings do not
// matter.
//
// The error matches [ErrInvalidOption]. New does no I/O.
func New(client rueidis.Client, opts Options) (*Hub, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: the client is nil", ErrInvalidOption)
	}
	if err := opts.check(); err != nil {
		return nil, err
	}
	return start(&redisDialer{client: client, node: opts.Node, sharded: opts.Sharded}, opts), nil
}

// redisDialer dials over a client. The mutex guards abandoned and the conn of every dedication.
type redisDialer struct {
	client  rueidis.Client
	node    string
	sharded bool

	mu        sync.Mutex
	abandoned *dedication // in progress, and no link waits for it; at most one call is in progress
}

// A dedication is a call of the client's Dedicate. The call takes no context. The call blocks until
// the client's pool has a free connection and the connection has been dialled. If other users of
// the client keep all connections, the call blocks for ever.
type dedication struct {
	conn rueidis.DedicatedClient // set once done is closed; nil with err
	err  error
	done chan struct{}
}

// dedicate returns the abandoned call, or begins a new call. So there is at most one call, however
// often the hub dials.
func (d *redisDialer) dedicate() *dedication {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.abandoned
	if c == nil {
		c = &dedication{done: make(chan struct{})}
		go d.run(c)
	}
	d.abandoned = nil
	return c
}

func (d *redisDialer) run(c *dedication) {
	client, err := d.client, error(nil)
	if d.node != "" {
		client, err = nodeOf(d.client, d.node)
	}
	var conn rueidis.DedicatedClient
	if err == nil {
		// If the dial fails, conn answers every command with the error.
		conn, _ = client.Dedicate()
	}
	d.mu.Lock()
	unwanted := d.abandoned == c
	d.abandoned = nil
	c.conn, c.err = conn, err
	d.mu.Unlock()
	close(c.done)
	if unwanted && conn != nil {
		conn.Close()
	}
}

// nodeOf returns the client of a node of a cluster. A client's own method Node, if any, finds the
// node or returns the error.
func nodeOf(c rueidis.Client, addr string) (rueidis.Client, error) {
	if finder, ok := c.(interface {
		Node(addr string) (rueidis.Client, error)
	}); ok {
		return finder.Node(addr)
	}
	if node := c.Nodes()[addr]; node != nil {
		return node, nil
	}
	return nil, fmt.Errorf("the client of the cluster does not know the node %s", addr)
}

// abandon gives up waiting for c. The connection of c is closed as soon as opened, unless the next
// dial takes c over before.
func (d *redisDialer) abandon(c *dedication) {
	d.mu.Lock()
	conn := c.conn
	if conn == nil && c.err == nil { // still under way
		d.abandoned = c
	}
	d.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

func (d *redisDialer) dial(f *feed) link {
	ctx, cancel := context.WithCancelCause(context.Background())
	l := &redisLink{dialer: d, feed: f, ctx: ctx, cancel: cancel, commands: make(chan pubsubCommand, 1)}
	go l.run()
	return l
}

// redisLink is a link over rueidis. The calls of rueidis block, so a goroutine makes the calls, and
// lives as long as the connection. A second goroutine waits for the connection to break meanwhile.
type redisLink struct {
	dialer   *redisDialer
	feed     *feed
	ctx      context.Context // ends with the connection; its cause is why
	cancel   context.CancelCauseFunc
	commands chan pubsubCommand // one buffered: the hub sends one at a time
}

type pubsubCommand struct {
	subscribe bool
	names     []string
}

// errHungUp is the error of a connection closed by the hub.
var errHungUp = errors.New("hung up")

func (l *redisLink) subscribe(names []string)   { l.commands <- pubsubCommand{true, names} }
func (l *redisLink) unsubscribe(names []string) { l.commands <- pubsubCommand{false, names} }
func (l *redisLink) hangUp()                    { l.cancel(errHungUp) }

// run opens the connection, executes commands until the connection ends, and closes the connection.
func (l *redisLink) run() {
	call := l.dialer.dedicate()
	select {
	case <-call.done:
	case <-l.ctx.Done():
		l.dialer.abandon(call)
		l.feed.ended(context.Cause(l.ctx))
		return
	}
	if call.err != nil {
		l.cancel(call.err)
		l.feed.ended(call.err)
		return
	}
	conn := call.conn
	broken := conn.SetPubSubHooks(rueidis.PubSubHooks{
		// On the connection's reader goroutine, in the order of the wire.
		OnMessage: func(m rueidis.PubSubMessage) { l.feed.message(m.Channel, m.Message) },
		OnSubscription: func(s rueidis.PubSubSubscription) {
			switch s.Kind {
			case "subscribe", "ssubscribe":
				l.feed.confirmed(s.Channel)
			case "sunsubscribe": // our own, or the slot has moved
				l.feed.gone(s.Channel)
			}
		},
	})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case err := <-broken:
			// Ends a command in flight as well. With RESP2 nothing else would: rueidis keeps the
			// subscriptions on a separate connection, and goes on trying to send after the separate
			// connection broke.
			l.cancel(cause(err))
		case <-l.ctx.Done():
		}
	}()
	l.serve(conn)
	// Call Close, and never the release function of Dedicate: a connection used for pub/sub must
	// not go back to the pool.
	conn.Close()
	<-watched
	l.feed.ended(context.Cause(l.ctx))
}

// serve executes commands, in sequence, until the connection ends.
func (l *redisLink) serve(conn rueidis.DedicatedClient) {
	// Dedicate reports no error, so only an answer proves the connection.
	if err := l.ping(conn); err != nil {
		l.cancel(cause(err))
		return
	}
	l.feed.up()
	for {
		var cmd pubsubCommand
		select {
		case <-l.ctx.Done():
			return
		case cmd = <-l.commands:
		}
		var err error
		if cmd.subscribe {
			err = l.send(conn, cmd)
		} else if err = l.ping(conn); err == nil {
			// The client sends a PING behind each UNSUBSCRIBE and panics, on a goroutine of its
			// own, if the server refuses the PING in unknown words: MISCONF, MASTERDOWN. A server
			// that has just answered a PING will hardly begin to refuse PINGs within a round trip.
			err = l.send(conn, cmd)
		}
		if isBroken(err) {
			l.cancel(cause(err))
			return
		}
		l.feed.answered(err)
	}
}

// send sends a command and returns the error of the connection or of the server. Sharded channels
// may be in different slots, and a command has a single slot, so each channel gets its own command.
// If the server refuses a channel, send returns the refusal.
func (l *redisLink) send(conn rueidis.DedicatedClient, cmd pubsubCommand) error {
	b := conn.B()
	if !l.dialer.sharded {
		if cmd.subscribe {
			return conn.Do(l.ctx, b.Subscribe().Channel(cmd.names...).Build()).Error()
		}
		return conn.Do(l.ctx, b.Unsubscribe().Channel(cmd.names...).Build()).Error()
	}
	all := make(rueidis.Commands, len(cmd.names))
	for i, name := range cmd.names {
		if cmd.subscribe {
			all[i] = b.Ssubscribe().Channel(name).Build()
		} else {
			all[i] = b.Sunsubscribe().Channel(name).Build()
		}
	}
	var refusal error
	for _, r := range conn.DoMulti(l.ctx, all...) {
		err := r.Error()
		if isBroken(err) {
			return err
		}
		refusal = cmp.Or(refusal, err)
	}
	return refusal
}

// ping returns nil if the server answers, even if the user may not PING.
func (l *redisLink) ping(conn rueidis.DedicatedClient) error {
	err := conn.Do(l.ctx, conn.B().Ping().Build()).Error()
	if deniedPing(err) {
		return nil
	}
	return err
}

// deniedPing reports whether the server is alive and merely keeps the user from using PING.
func deniedPing(err error) bool {
	e, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(e.Error(), "NOPERM") && strings.Contains(e.Error(), "'ping'")
}

// isBroken reports whether err is of the connection, and not the server's reply.
func isBroken(err error) bool {
	_, replied := rueidis.IsRedisErr(err)
	return err != nil && !replied
}

// cause returns err, or io.EOF if a connection ended without an error.
func cause(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}
