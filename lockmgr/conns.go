package lockmgr

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A dialFunc connects to an address.
type dialFunc func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error)

// conns are the open connections of a client. A client closed during a dial may keep the new
// connection, and send pings for ever. So conns close the connections before the client is closed,
// and refuse later dials.
type conns struct {
	// ended is called when a connection has ended. shared is set if all commands share the
	// connection. ended must not block. ended may be nil.
	ended func(addr string, shared bool)

	ctx  context.Context // of dials; ends with close
	stop context.CancelFunc

	mu   sync.Mutex
	open map[*trackedConn]bool // nil before the first
}

// newConns returns conns without a connection. For ended see conns.
func newConns(ended func(addr string, shared bool)) *conns {
	c := &conns{ended: ended}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// track returns a dialFunc that dials by dial until close is called. close ends a dial under way,
// if dial heeds its context.
func (c *conns) track(dial dialFunc) dialFunc {
	return func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		refused := &net.OpError{Op: "dial", Net: "tcp", Err: net.ErrClosed}
		if c.ctx.Err() != nil {
			return nil, refused
		}
		dialling, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()
		conn, err := dial(dialling, addr, d, config)
		if err != nil {
			return nil, err
		}
		if t := c.add(conn, addr, wire.OfCommand(ctx)); t != nil {
			return t, nil
		}
		abort(conn)
		return nil, refused
	}
}

// add adds a connection. add returns nil after close. shared is set if a command needed the
// connection. All commands share such connections, and the first connection of a client.
func (c *conns) add(conn net.Conn, addr string, shared bool) *trackedConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil // close has seen all that were added before
	}
	t := &trackedConn{Conn: conn, of: c, addr: addr, shared: shared || c.open == nil}
	if c.open == nil {
		c.open = make(map[*trackedConn]bool)
	}
	c.open[t] = true
	return t
}

// close closes the open connections, and ends dials. No dial succeeds from then on. close does not
// block.
func (c *conns) close() {
	c.stop()
	c.mu.Lock()
	left := c.open
	c.open = nil
	c.mu.Unlock()
	for t := range left {
		abort(t.Conn)
	}
}

// abortAll closes the open connections. The client dials again. abortAll does not block.
func (c *conns) abortAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.open {
		abort(t.Conn)
	}
}

// abort closes a connection. Close of a TLS connection sends a message first, which may take
// seconds. So abort closes the connection below TLS.
func abort(conn net.Conn) { _ = belowTLS(conn).Close() }

// belowTLS returns the connection below a TLS connection, or conn itself for a connection without
// TLS.
func belowTLS(conn net.Conn) net.Conn {
	if t, ok := conn.(*tls.Conn); ok {
		return t.NetConn()
	}
	return conn
}

// A trackedConn is a connection in conns until closed.
type trackedConn struct {
	net.Conn
	of     *conns
	addr   string
	shared bool

	greeted atomic.Bool // what the server has said is more than a single error
	said    []byte      // all that the server has said, until greeted is set
}

// Read reads from the connection. If the server ends the connection after a single error or
// nothing, Read returns a [wire.HangUp] with the server's words: the client would report only the
// end. Read also returns a HangUp if the server does not speak the protocol of Redis. Read must not
// be called concurrently.
func (t *trackedConn) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if t.greeted.Load() {
		return n, err
	}
	t.said = append(t.said, p[:min(n, wire.MostSaid-len(t.said))]...)
	var late net.Error
	ours := errors.Is(err, net.ErrClosed) || errors.As(err, &late) && late.Timeout()
	switch h := wire.ReadHangUp(t.said); {
	case h == nil:
		t.said = nil
		t.greeted.Store(true)
	case h.Foreign:
		return 0, h
	case n == 0 && err != nil && !ours:
		h.Err = err
		return 0, h
	}
	return n, err
}

// Write writes to the connection. Write passes over a reset of a connection on which the server has
// not said more than an error: Read tells why the server has ended the connection, for instance
// because it wants another certificate of the client. After Close, Write fails: so the client's
// writer ends.
func (t *trackedConn) Write(p []byte) (int, error) {
	n, err := t.Conn.Write(p)
	if err != nil && !t.greeted.Load() && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)) {
		return len(p), nil
	}
	return n, err
}

func (t *trackedConn) Close() error {
	t.of.mu.Lock()
	known := t.of.open[t]
	delete(t.of.open, t)
	t.of.mu.Unlock()
	if known && t.of.ended != nil {
		t.of.ended(t.addr, t.shared)
	}
	return t.Conn.Close()
}
