package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/server"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A process has a manager of its own. To the server and to the other processes, kill looks as the
// death of a real process does: all connections end, and nothing is given back.
type process struct {
	id  int
	mgr *lockmgr.Manager

	mu     sync.Mutex
	killed bool
	open   []net.Conn
}

// begin starts a process.
func begin(srv *server.Server, id int) (p *process, err error) {
	p = &process{id: id}
	option := srv.Option()
	option.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		if config != nil {
			return p.keep((&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", addr))
		}
		return p.keep(d.DialContext(ctx, "tcp", addr))
	}
	p.mgr, err = lockmgr.Dial(option, lockmgr.Options{Lease: lease})
	return p, err
}

// keep remembers a connection, or closes the connection of a process that is dead.
func (p *process) keep(c net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return nil, errors.Join(errors.New("the process is dead"), c.Close())
	}
	p.open = append(p.open, c)
	return c, nil
}

// kill ends all connections, and lets no new one begin.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	for _, c := range p.open {
		_ = c.Close()
	}
}

// end closes the manager. A dead process can give nothing back, so end does not wait for long.
func (p *process) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = p.mgr.Close(ctx)
}
