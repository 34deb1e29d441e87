package locktest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/rueidis"
)

// A Link is the network between one client and a [Server]. Its methods do not block and are safe
// for concurrent use.
type Link struct {
	s     *Server
	delay atomic.Int64

	// Guarded by the mutex of s.
	pairs   map[pair]struct{}
	refused bool
	silent  bool
	changed chan struct{} // closed when refused or silent changes
}

// ClientOption returns the options with which a client connects over the link. It is for code that
// calls lockmgr.Dial or rueidis.NewClient itself. The test must close that manager or client before
// the bubble ends.
func (l *Link) ClientOption() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{memory{}.String()}, ForceSingleClient: true, DisableCache: true, DialCtxFn: l.dial,
	}
}

// Cut breaks all connections. New ones work.
func (l *Link) Cut() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.reset()
}

// Refuse breaks all connections, and refuses new ones until Heal.
func (l *Link) Refuse() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.refused = true
	l.reset()
	l.wake()
}

// Silence makes all bytes vanish in both directions until Heal. Neither side gets an error. New
// connections get no answer, so a dial fails at its time-out.
func (l *Link) Silence() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.silent = true
	for p := range l.pairs {
		p.lose()
	}
	l.wake()
}

// Delay makes bytes that are sent from now on arrive d later, in each direction. A round trip then
// takes 2d. Zero ends the delay.
func (l *Link) Delay(d time.Duration) { l.delay.Store(int64(d)) }

// Heal ends Refuse, Silence and Delay. After Silence it breaks the connections that have lost
// bytes, and the client connects again.
func (l *Link) Heal() {
	l.Delay(0)
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.silent {
		l.reset()
	}
	l.refused, l.silent = false, false
	l.wake()
}

// reset breaks all connections. The server's mutex is held.
func (l *Link) reset() {
	for p := range l.pairs {
		p.reset()
	}
	clear(l.pairs)
}

// wake tells the dials that wait of a change. The server's mutex is held.
func (l *Link) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// dial connects to the server. It blocks while the link is silent, up to the dial time-out.
func (l *Link) dial(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	if d != nil && d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	for {
		c, changed, err := l.connect()
		if c != nil || err != nil {
			return c, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, dialError(ctx.Err())
		}
	}
}

// connect returns a connection, an error, or a channel to wait for.
func (l *Link) connect() (net.Conn, <-chan struct{}, error) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	switch {
	case l.s.closed:
		return nil, nil, dialError(errors.New("the test has ended"))
	case l.refused:
		return nil, nil, dialError(syscall.ECONNREFUSED)
	case l.silent:
		return nil, l.changed, nil
	}
	p := pair{newStream(l.s.frozen), newStream(l.s.frozen)}
	l.pairs[p] = struct{}{}
	delay := func() time.Duration { return time.Duration(l.delay.Load()) }
	l.s.mini.Server().ServeConn(&conn{in: p.up, out: p.down, delay: delay, closed: func() { l.forget(p) }})
	return &conn{in: p.down, out: p.up, delay: delay, closed: func() {}}, nil, nil
}

// forget drops a connection that the server has closed.
func (l *Link) forget(p pair) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	delete(l.pairs, p)
}

func dialError(err error) error {
	return &net.OpError{Op: "dial", Net: "memory", Addr: memory{}, Err: fmt.Errorf("locktest: %w", err)}
}
