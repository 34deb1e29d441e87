package clientsim

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// A host is where a client runs, as the network and the server see it. Managers that share a client
// share its host. The fields are guarded by w.mu.
type host struct {
	w       *world
	index   int
	latency time.Duration // one way, the least
	conns   []*conn       // that the client has not closed
	dialed  int

	mute    bool            // may not subscribe
	refused map[string]int  // keys that it may not touch
	nap     [2]atomic.Int64 // how long its log handlers and observers block, in ns
	blackh  int             // partitions: nothing gets through, new connections neither
	down    int             // new connections are refused
	opened  chan struct{}   // closed when the partition ends

	ran        time.Time // when the server last ran a command of it
	silent     int       // faults that keep the server from answering
	silentFrom time.Time // since when; zero if it may answer
	excuses    []excuse
}

// A span is a stretch of time, both ends included.
type span struct{ from, to time.Time }

// A conn is both ends of one connection. Its mutex is w.mu.
type conn struct {
	from *host
	to   *server
	n    int
	rng  *rand.Rand
	up   queue // to the server
	down queue // to the client

	partial    []byte // of a command, at the server
	subscribed map[string]bool
	written    int64 // the offset of the last change that came on it
	asking     bool  // the last command was ASKING
	broken     bool  // by the server or the network

	in       []byte // what the client can read
	eof      bool
	closed   bool // by the client
	deadline time.Time
	wake     chan struct{} // one buffered: the client's reader looks again
}

// A queue holds what is on its way in one direction.
type queue struct {
	packets []packet
	hold    time.Time // nothing arrives before
	timer   *time.Timer
	deliver func(packet)
	mu      *sync.Mutex
}

type packet struct {
	at    time.Time
	bytes []byte // nil: the end
	name  string // of the lock that it is about; for replies
}

func (q *queue) send(p packet) {
	if n := len(q.packets); n > 0 {
		p.at = later(p.at, q.packets[n-1].at)
	}
	q.packets = append(q.packets, p)
	q.schedule()
}

func (q *queue) schedule() {
	if q.timer != nil || len(q.packets) == 0 {
		return
	}
	at := later(q.packets[0].at, q.hold)
	q.timer = time.AfterFunc(time.Until(at), q.arrive)
}

func (q *queue) arrive() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timer = nil
	now := time.Now()
	for len(q.packets) > 0 && !q.packets[0].at.After(now) && !q.hold.After(now) {
		p := q.packets[0]
		q.packets = q.packets[1:]
		q.deliver(p)
	}
	q.schedule()
}

// stop drops what is on its way.
func (q *queue) stop() {
	q.packets = nil
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
}

// dial is the DialCtxFn of a host's client.
func (h *host) dial(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	w := h.w
	w.mu.Lock()
	pause := h.delay(w.rng(h.index, h.dialed))
	for h.blackh > 0 {
		if h.opened == nil {
			h.opened = make(chan struct{})
		}
		opened := h.opened
		w.mu.Unlock()
		select {
		case <-opened:
		case <-ctx.Done():
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
		}
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	if h.down > 0 || w.over {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	h.dialed++
	c := &conn{
		from: h, to: w.serverAt(addr), n: h.dialed, rng: w.rng(1000+h.index, h.dialed),
		subscribed: make(map[string]bool), wake: make(chan struct{}, 1),
	}
	c.up = queue{mu: &w.mu, deliver: c.arrive}
	c.down = queue{mu: &w.mu, deliver: c.receive}
	// The handshake of TCP: nothing is read or written before.
	c.up.hold, c.down.hold = time.Now().Add(2*pause), time.Now().Add(2*pause)
	h.conns = append(h.conns, c)
	w.tracef("  network: %s opened", c)
	return c, nil
}

// delay draws how long a packet takes. Odd nanoseconds keep two packets from arriving at the same
// instant, whose order would be the scheduler's.
func (h *host) delay(r *rand.Rand) time.Duration {
	return h.latency + time.Duration(r.Int64N(int64(h.latency)/3+1000))
}

func (c *conn) String() string { return fmt.Sprintf("connection %d.%d", c.from.index, c.n) }

// arrive is called with what has reached the server.
func (c *conn) arrive(p packet) {
	w := c.from.w
	if p.bytes == nil {
		c.to.arrive(arrival{from: c})
		return
	}
	if c.closed {
		w.late++
		w.tracef("  network: %s delivers %d bytes after it was closed", c, len(p.bytes))
	}
	c.partial = append(c.partial, p.bytes...)
	for {
		var args []string
		if args, c.partial = resp.CutCommand(c.partial); args == nil {
			return
		}
		c.to.arrive(arrival{c, args})
	}
}

// reply sends what the server says.
func (c *conn) reply(b []byte, name string) {
	if c.closed || c.broken {
		if name != "" {
			c.from.w.note(lostReply, c.from, name, 0)
		}
		return
	}
	c.down.send(packet{time.Now().Add(c.from.delay(c.rng)), b, name})
}

// lose drops the replies that are on their way.
func (c *conn) lose() {
	for _, p := range c.down.packets {
		if p.name != "" {
			c.from.w.note(lostReply, c.from, p.name, 0)
		}
	}
	c.down.stop()
}

// receive is called with what has reached the client.
func (c *conn) receive(p packet) {
	if p.bytes == nil {
		c.eof = true
	}
	c.in = append(c.in, p.bytes...)
	c.look()
}

func (c *conn) look() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Read blocks until there is something to read, the end, or the deadline.
func (c *conn) Read(b []byte) (int, error) {
	mu := &c.from.w.mu
	for {
		mu.Lock()
		switch {
		case c.closed:
			mu.Unlock()
			return 0, net.ErrClosed
		case len(c.in) > 0:
			n := copy(b, c.in)
			c.in = c.in[n:]
			mu.Unlock()
			return n, nil
		case c.eof:
			mu.Unlock()
			return 0, io.EOF
		case !c.deadline.IsZero() && !time.Now().Before(c.deadline):
			mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		}
		mu.Unlock()
		<-c.wake
	}
}

// Write never blocks: the buffers of the network have room.
func (c *conn) Write(b []byte) (int, error) {
	mu := &c.from.w.mu
	mu.Lock()
	defer mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	if c.eof || c.broken {
		return 0, io.ErrClosedPipe
	}
	c.up.send(packet{time.Now().Add(c.from.delay(c.rng)), append([]byte(nil), b...), ""})
	return len(b), nil
}

// Close ends the client's side. What it has written is still on its way.
func (c *conn) Close() error {
	w := c.from.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.from.conns = slices.DeleteFunc(c.from.conns, func(o *conn) bool { return o == c })
	c.lose()
	if !c.broken {
		c.up.send(packet{at: time.Now().Add(c.from.delay(c.rng))})
	}
	c.look()
	w.tracef("  network: %s closed by the client", c)
	return nil
}

// cut breaks a connection. Bytes on their way to the server arrive only if arrives is true.
func (c *conn) cut(arrives bool) {
	if c.broken {
		return
	}
	c.broken = true
	if !arrives {
		c.up.stop()
		c.to.arrive(arrival{from: c})
	} else {
		c.up.send(packet{at: time.Now().Add(c.from.delay(c.rng))})
	}
	c.lose()
	c.eof = true
	c.look()
	c.from.w.tracef("  network: %s cut", c)
}

// SetDeadline wakes the reader when t comes.
func (c *conn) SetDeadline(t time.Time) error {
	mu := &c.from.w.mu
	mu.Lock()
	defer mu.Unlock()
	c.deadline = t
	if !t.IsZero() {
		time.AfterFunc(time.Until(t), c.look)
	}
	c.look()
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }
func (c *conn) SetWriteDeadline(time.Time) error  { return nil }
func (c *conn) LocalAddr() net.Addr               { return simAddr }
func (c *conn) RemoteAddr() net.Addr              { return simAddr }

var simAddr = &net.UnixAddr{Net: "sim", Name: "sim:0"}
