// Package server gives the bench a Redis to measure: a child process of its
// own, so that nobody else's load is in the figures, and the counters that the
// server keeps of itself.
package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// ErrNone says that there is no server on PATH.
var ErrNone = errors.New("no redis-server or valkey-server on PATH")

const startTimeout = 10 * time.Second

// A Server listens on a free loopback port until Stop.
type Server struct {
	Addr     string
	Name     string // "redis 7.0.15"
	Embedded bool   // miniredis, inside this process: no measure of Redis

	stop func()
}

// Stop ends the server, however it is, and waits for it.
func (s *Server) Stop() { s.stop() }

// Find returns the server's binary: the one that was asked for, or the first
// that PATH has.
func Find(asked string) (string, error) {
	if asked != "" {
		return exec.LookPath(asked)
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNone
}

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
	// A free port may be taken again before the child binds it.
	for range 5 {
		var s *Server
		if s, err = start(binary, dir); err == nil {
			return s, nil
		}
	}
	os.RemoveAll(dir)
	return nil, err
}

func start(binary, dir string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, "--bind", "127.0.0.1", "--port", strconv.Itoa(port),
		"--save", "", "--appendonly", "no", "--dir", dir, "--daemonize", "no")
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	detach(cmd) // Ctrl-C is for the bench: it needs its server until it has cleaned up
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	s.stop = func() {
		_ = cmd.Process.Kill() // it has nothing to save
		<-ended
		os.RemoveAll(dir)
	}
	for deadline := time.Now().Add(startTimeout); ; {
		info, err := about(s.Addr)
		if err == nil && info["process_id"] == strconv.Itoa(cmd.Process.Pid) {
			s.Name = "redis " + info["redis_version"]
			if v := info["valkey_version"]; v != "" {
				s.Name = "valkey " + v
			}
			return s, nil
		}
		select {
		case <-ended:
			return nil, fmt.Errorf("%s ended while it started: %s", filepath.Base(binary), strings.TrimSpace(out.String()))
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			<-ended
			return nil, fmt.Errorf("%s does not answer: %w", filepath.Base(binary), err)
		}
	}
}

func about(addr string) (map[string]string, error) {
	c, err := Dial(context.Background(), addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	text, err := c.Do("INFO", "server")
	if err != nil {
		return nil, err
	}
	return fields(text), nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
