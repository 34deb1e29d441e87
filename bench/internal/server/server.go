// Package server gives the bench a Redis to measure: a child process of its own, so that nobody
// else's load is in the figures, and the counters that the server keeps of itself.
package server

import (
	"os"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast/internal/redisserver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// A Server listens on a free loopback port until Stop.
type Server struct {
	Addr     string
	Name     string // "redis 7.0.15"
	Embedded bool   // miniredis, inside this process: no measure of Redis

	stop func()
}

// Stop ends the server, however it is, and waits for it.
func (s *Server) Stop() { s.stop() }

// Embedded runs miniredis in this process.
func Embedded() (*Server, error) {
	m, err := miniredis.Run()
	if err != nil {
		return nil, err
	}
	return &Server{Addr: m.Addr(), Name: "miniredis (embedded)", Embedded: true, stop: m.Close}, nil
}

// Start runs a child that keeps nothing on disk, and returns when it answers.
func Start(binary string) (*Server, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	// Ctrl-C is for the bench: it needs its server until it has cleaned up.
	s := &redisserver.Server{Binary: binary, Dir: dir, Detached: true}
	if err := s.Start(resp.Login{}); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return &Server{Addr: s.Addr(), Name: s.Name(), stop: func() {
		s.Kill() // it has nothing to save
		os.RemoveAll(dir)
	}}, nil
}
