package locktest

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
)

// A NetProxy stands between clients and a real server, in real time. Its methods do not block and
// are safe for concurrent use.
type NetProxy struct {
	proxy *faultproxy.Proxy

	mu      sync.Mutex
	delayed *faultproxy.Rule
}

// Proxy runs a proxy until t ends, in front of the Redis or Valkey server at addr, which is
// host:port. The connection to the server has no TLS. A port of 127.0.0.1 is used, so Proxy does
// not work in a bubble. Clients connect to [NetProxy.Addr]. Without a fault every byte passes
// unchanged.
func Proxy(t testing.TB, addr string) *NetProxy {
	t.Helper()
	return &NetProxy{proxy: faultproxy.Start(t, addr)}
}

// Addr returns the address for clients, "127.0.0.1:port".
func (p *NetProxy) Addr() string { return p.proxy.Addr() }

// Cut breaks all connections. New ones work. The server runs the commands that it has been sent.
func (p *NetProxy) Cut() { p.proxy.Cut() }

// Refuse breaks all connections, and resets new ones until Heal.
func (p *NetProxy) Refuse() {
	p.proxy.Refuse()
	p.proxy.Cut()
}

// Silence makes all bytes vanish in both directions until Heal. Neither side gets an error. New
// connections are accepted and get no answer.
func (p *NetProxy) Silence() { p.proxy.BlackHole() }

// Delay makes each reply wait for d, and the replies behind it too. It replaces an earlier Delay;
// zero ends it.
func (p *NetProxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.delayed != nil {
		p.delayed.Remove()
		p.delayed = nil
	}
	if d > 0 {
		p.delayed = p.proxy.On(faultproxy.Any()).DelayReply(d)
	}
}

// Heal ends Refuse, Silence and Delay. Connections that have lost bytes are reset.
func (p *NetProxy) Heal() {
	p.Delay(0)
	p.proxy.Heal()
}
