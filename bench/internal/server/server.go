// Package server gives the bench a Redis to measure: a child process of its own, so that nobody
// else's load is in the figures, and the counters that the server keeps of itself.
package server

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/internal/redisserver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// A Server listens on a free loopback port until Stop.
type Server struct{ *redisserver.Server }

// Start runs a child that keeps nothing on disk, and returns when it answers.
func Start(binary string) (*Server, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	// Ctrl-C is for the bench: it needs its server until it has cleaned up.
	s := &Server{&redisserver.Server{Binary: binary, Dir: dir, Detached: true}}
	if err := s.Start(resp.Login{}); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

// Stop ends the server, however it is, and waits for it.
func (s *Server) Stop() {
	s.Kill() // it has nothing to save
	os.RemoveAll(s.Dir)
}

// A Conn is the barest client: one blocking connection, no goroutine, no pool. It reads counters
// without adding to what is measured, and its round trip is the unit of the release figures.
type Conn struct{ *resp.Conn }

const replyTimeout = 10 * time.Second

// Dial connects to a server.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	c, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{resp.NewConn(c, replyTimeout)}, nil
}

// Do sends a command and returns its reply as text. It blocks for 10 s at most.
func (c *Conn) Do(args ...string) (string, error) { return c.DoText(args...) }

// Ping measures one round trip.
func (c *Conn) Ping() (time.Duration, error) {
	begin := time.Now()
	_, err := c.Do("PING")
	return time.Since(begin), err
}
