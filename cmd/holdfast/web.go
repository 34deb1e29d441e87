package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

//go:embed page.html
var page []byte

// serve serves the page until ctx ends.
func serve(ctx context.Context, log io.Writer, s *source, addr string, every time.Duration) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("top: --web: %w", err)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("top: --web %s is not an address of loopback", addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return &exit{exitFailed, err}
	}
	fmt.Fprintf(log, "http://%s/\n", l.Addr())
	server := &http.Server{Handler: newPages(s, every), ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return &exit{exitFailed, err}
	}
	return nil
}

// pages serves the page and its data. It looks at the server when somebody asks, and no more often
// than every.
type pages struct {
	http.ServeMux
	source *source
	every  time.Duration

	mu   sync.Mutex
	snap snapshot
}

func newPages(s *source, every time.Duration) http.Handler {
	p := &pages{source: s, every: every}
	p.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	})
	p.HandleFunc("GET /locks.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = encode(w, p.look(r.Context()))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A page of another site can make a browser ask under a name of its own for this address.
		if !isLocal(r.Host) {
			http.Error(w, "ask by an address of loopback", http.StatusForbidden)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		p.ServeHTTP(w, r)
	})
}

// isLocal reports whether a Host header names this machine by an address of loopback.
func isLocal(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// look returns the last snapshot, or a new one if that is old.
func (p *pages) look(ctx context.Context) snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.snap.At) >= p.every {
		if snap := p.source.look(ctx, now); ctx.Err() == nil {
			p.snap = snap
		}
	}
	return p.snap
}
