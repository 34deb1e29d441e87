package faultproxy

import (
	"crypto/tls"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
)

// Proxy stands between clients and one server. See the package documentation.
type Proxy struct {
	listener *net.TCPListener
	server   string
	tls      *tls.Config
	done     chan struct{} // closed by the end of the test
	wg       sync.WaitGroup

	mu       sync.Mutex // never held while anything blocks
	rules    []*Rule
	conns    []*Conn    // open, the oldest first
	parked   []net.Conn // accepted, and left alone until Heal
	accepted int
	lastID   int
	commands map[string]int
	refuse   bool
	hole     bool
	mute     bool // handshakes are left unanswered
	stall    bool
}

// An Option changes a proxy.
type Option func(*Proxy)

// WithTLS makes clients speak TLS to the proxy.
func WithTLS(config *tls.Config) Option { return func(p *Proxy) { p.tls = config } }

// Start runs a proxy in front of the server at an address until t ends. The server need not be
// there yet: a client whose connection can't be passed on has it reset.
func Start(t testing.TB, server string, options ...Option) *Proxy {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatalf("faultproxy: %v", err)
	}
	p := &Proxy{listener: l, server: server, done: make(chan struct{}), commands: make(map[string]int)}
	for _, o := range options {
		o(p)
	}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr returns where clients connect, "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// To makes the proxy pass new connections on to another server. Those that are open stay where they
// are.
func (p *Proxy) To(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
}

// Connections returns how many connections were accepted, the refused ones too.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Conns returns the connections that are open, the oldest first.
func (p *Proxy) Conns() []*Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.conns)
}

// PubSub returns the open connections that have subscribed to something.
func (p *Proxy) PubSub() []*Conn {
	return slices.DeleteFunc(p.Conns(), func(c *Conn) bool { return !c.PubSub() })
}

// Count returns how many commands of a name (in upper case) were read.
func (p *Proxy) Count(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.commands[name]
}

// Commands returns how many commands were read, by their names in upper case.
func (p *Proxy) Commands() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.commands)
}

// Cut breaks all connections. New ones work.
func (p *Proxy) Cut() {
	for _, c := range p.Conns() {
		c.Cut()
	}
}

// BlackHole makes all bytes vanish until Heal, those of new connections too.
func (p *Proxy) BlackHole() {
	p.mu.Lock()
	p.hole = true
	conns := slices.Clone(p.conns)
	p.mu.Unlock()
	for _, c := range conns {
		c.BlackHole()
	}
}

// Stall keeps all bytes back until Heal, those of new connections too.
func (p *Proxy) Stall() {
	p.mu.Lock()
	p.stall = true
	conns := slices.Clone(p.conns)
	p.mu.Unlock()
	for _, c := range conns {
		c.Stall()
	}
}

// Refuse resets new connections until Heal.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = true
}

// StallHandshakes accepts new connections and leaves them unanswered until Heal, which resets them.
func (p *Proxy) StallHandshakes() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = true
}

// Heal ends all faults: rules are removed, what was held or stalled goes on its way, and
// connections that have lost bytes are reset.
func (p *Proxy) Heal() {
	p.mu.Lock()
	rules, parked := p.rules, p.parked
	p.rules, p.parked = nil, nil
	p.refuse, p.hole, p.mute, p.stall = false, false, false, false
	conns := slices.Clone(p.conns)
	p.mu.Unlock()
	for _, r := range rules {
		r.Release()
	}
	for _, c := range parked {
		reset(c)
	}
	for _, c := range conns {
		c.Heal()
	}
}

// close ends everything and waits for it.
func (p *Proxy) close() {
	p.listener.Close()
	close(p.done)
	p.Heal()
	for _, c := range p.Conns() {
		c.kill()
	}
	p.wg.Wait()
}

// decide counts a command and returns the rule that it falls under, if any.
func (p *Proxy) decide(c Cmd) *Rule {
	var chosen *Rule
	var observers []*Rule
	p.mu.Lock()
	p.commands[c.Name]++
	for _, r := range p.rules {
		if !r.chooses(c) {
			continue
		}
		if r.what == observe {
			observers = append(observers, r)
		} else if chosen == nil {
			chosen = r
		}
	}
	p.mu.Unlock()
	for _, r := range observers {
		r.fire()
	}
	return chosen
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.AcceptTCP()
		if err != nil {
			return // closed: nothing else ends a listener on loopback
		}
		if !p.park(client) {
			p.wg.Go(func() { p.serve(client) })
		}
	}
}

// park deals with a connection that is not to be passed on.
func (p *Proxy) park(client *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted++
	switch {
	case p.refuse:
		reset(client)
	case p.hole || p.mute:
		p.parked = append(p.parked, client)
	default:
		return false
	}
	return true
}

// serve passes a connection on until both its sides have ended.
func (p *Proxy) serve(client *net.TCPConn) {
	p.mu.Lock()
	to := p.server
	p.mu.Unlock()
	server, err := net.Dial("tcp", to)
	if err != nil {
		reset(client)
		return
	}
	c := newConn(p, client, server.(*net.TCPConn))
	p.mu.Lock()
	p.lastID++
	c.id = p.lastID
	p.conns = append(p.conns, c)
	if p.stall {
		c.Stall()
	}
	if p.hole { // it was accepted before
		c.BlackHole()
	}
	p.mu.Unlock()
	select {
	case <-p.done: // close may have missed it
		c.kill()
	default:
	}
	p.wg.Go(c.readServer)
	c.readClient()
}

func (p *Proxy) forget(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = slices.DeleteFunc(p.conns, func(x *Conn) bool { return x == c })
}

// reset ends a connection by RST.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only if it has ended
	}
	c.Close()
}
