package lockmgr_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A scene is an embedded server in fake time, and managers that reach it over pipes which can fail.
// The client library and all actors are the real ones.
type scene struct {
	t      *testing.T
	server *miniredis.Miniredis
}

// bubble runs a test in fake time: hours of life take milliseconds, and goroutines that are left at
// the end fail it.
func bubble(t *testing.T, test func(t *testing.T, w *scene)) {
	synctest.Test(t, func(t *testing.T) {
		w := &scene{t, miniredis.NewMiniRedis()}
		w.server.ClockTTL(true)
		t.Cleanup(func() { // after the managers, which are closed by later Cleanups
			w.server.Close()
			time.Sleep(second) // fake: a Read may still wait for its delay, and the fake clock stops with the test
		})
		test(t, w)
	})
}

// inBubble is bubble for a subtest.
func inBubble(t *testing.T, name string, test func(t *testing.T, w *scene)) {
	t.Run(name, func(t *testing.T) { bubble(t, test) })
}

// manager starts a manager with a network of its own. It is closed at the end of the bubble.
func (w *scene) manager(o lockmgr.Options) (*lockmgr.Manager, *network) {
	n := &network{server: w.server}
	m := dialNetwork(w.t, n, o)
	w.t.Cleanup(func() {
		n.heal()
		mustClose(w.t, m)
	})
	return m, n
}

// managers starts two.
func (w *scene) managers(o lockmgr.Options) (m, other *lockmgr.Manager) {
	m, _ = w.manager(o)
	other, _ = w.manager(o)
	return m, other
}

func dialNetwork(t *testing.T, n *network, o lockmgr.Options) *lockmgr.Manager {
	m := must(lockmgr.Dial(rueidis.ClientOption{
		InitAddress: []string{"pipe:0"}, ForceSingleClient: true, DialCtxFn: n.dial,
	}, o))(t)
	return m
}

// owners lists the owners in a record.
func (w *scene) owners(name string) []string {
	if !w.server.Exists(name) {
		return nil
	}
	return must(w.server.HKeys(name))(w.t)
}

// network is what lies between one manager and the server.
type network struct {
	server *miniredis.Miniredis
	down   atomic.Bool // new connections are refused
	silent atomic.Bool // bytes vanish in both directions
	// lose makes the reply to the next EVALSHA or EVAL vanish, with the connection.
	lose  atomic.Bool
	delay atomic.Int64 // of the server's replies, in nanoseconds

	mu    sync.Mutex
	conns map[*conn]struct{}
}

func (n *network) dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	if n.down.Load() {
		return nil, &net.OpError{Op: "dial", Err: io.ErrClosedPipe}
	}
	inner, err := n.server.Dial()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: unblocked(inner), n: n, closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conns == nil {
		n.conns = make(map[*conn]struct{})
	}
	n.conns[c] = struct{}{}
	return c, nil
}

// unblocked returns a connection over which the server's writes never wait for the reader. The
// server holds a mutex while it writes to a subscriber. If that reader sleeps in fake time, and the
// server's goroutine waits for the mutex, fake time would stand still: a wait for a mutex does not
// count as idle.
func unblocked(server net.Conn) net.Conn {
	near, far := net.Pipe()
	answers := make(chan []byte, 1<<12)
	go func() {
		_, _ = io.Copy(server, far)
		server.Close()
	}()
	go func() {
		defer close(answers)
		for {
			b := make([]byte, 4<<10)
			k, err := server.Read(b)
			if k > 0 {
				answers <- b[:k]
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer far.Close()
		for b := range answers {
			_, _ = far.Write(b) // what cannot be written is dropped, until the server is closed, too
		}
	}()
	return near
}

// cut breaks every connection, and refuses new ones until heal.
func (n *network) cut() {
	n.down.Store(true)
	n.mu.Lock()
	conns := n.conns
	n.conns = nil
	n.mu.Unlock()
	for c := range conns {
		c.Close()
	}
}

// hush makes every byte vanish until heal.
func (n *network) hush() { n.silent.Store(true) }

// heal ends cut and hush. It breaks connections that were hushed, because bytes of their streams
// are missing. It does so before bytes pass again: otherwise the answer to a later command could be
// taken for that to one which has vanished.
func (n *network) heal() {
	if n.silent.Load() {
		n.cut()
		n.silent.Store(false)
	}
	n.down.Store(false)
	n.delay.Store(0)
}

type conn struct {
	net.Conn
	n      *network
	once   sync.Once
	closed chan struct{}
	losing atomic.Bool
}

func (c *conn) Write(b []byte) (int, error) {
	select {
	case <-c.closed:
		return 0, io.ErrClosedPipe
	default:
	}
	if c.n.silent.Load() {
		return len(b), nil
	}
	if bytes.Contains(b, []byte("EVAL")) && c.n.lose.Swap(false) {
		c.losing.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	k, err := c.Conn.Read(b)
	time.Sleep(time.Duration(c.n.delay.Load()))
	for c.n.silent.Load() && err == nil { // until the end of the connection, or a deadline
		_, err = c.Conn.Read(b)
	}
	if err != nil {
		return 0, err
	}
	if c.losing.Load() && err == nil {
		c.Close()
		return 0, io.EOF
	}
	return k, err
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// closedNow reports whether a channel is closed once all goroutines of the bubble are blocked.
func closedNow(c <-chan struct{}) bool {
	synctest.Wait()
	return faults.Closed(c)
}

const (
	second = time.Second
	milli  = time.Millisecond
)
