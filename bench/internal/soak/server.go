package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	benchserver "github.com/holdfast-go/holdfast/bench/internal/server"
)

const (
	startTimeout = 20 * time.Second
	startPorts   = 10 // a free port may be taken again before the child binds it
)

// A redisServer is a child that keeps what it acknowledged: a restart loses
// nothing.
type redisServer struct {
	binary, dir string
	port        int
	name        string // "redis 7.0.15"

	mu    sync.Mutex // one fault at a time starts or ends the child
	child *child
}

// startServer blocks until the server answers.
func startServer(binary, dir string) (*redisServer, error) {
	s := &redisServer{binary: binary, dir: dir}
	var err error
	for range startPorts {
		if s.port, err = freePort(); err != nil {
			return nil, err
		}
		if err = s.start(); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func (s *redisServer) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *redisServer) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	log, err := os.Create(filepath.Join(s.dir, "server.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.binary, "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-min-size", "16mb", "--daemonize", "no")
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	if s.child, err = startChild(cmd); err != nil {
		return err
	}
	for deadline := time.Now().Add(startTimeout); ; {
		pid, name, err := about(s.addr())
		if err == nil && pid == s.child.cmd.Process.Pid {
			s.name = name
			return nil
		}
		select {
		case <-s.child.done:
			return fmt.Errorf("%s ended while it started:\n%s", filepath.Base(s.binary), s.lastWords())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.child.kill()
			return fmt.Errorf("%s does not answer: %w", filepath.Base(s.binary), errors.Join(err, errors.New(s.lastWords())))
		}
	}
}

// stop ends the server as a crash would.
func (s *redisServer) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != nil {
		s.child.kill()
	}
}

// forget removes the data of a server that is stopped.
func (s *redisServer) forget() error { return os.RemoveAll(filepath.Join(s.dir, "appendonlydir")) }

func (s *redisServer) signal(sig os.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child.signal(sig)
}

func (s *redisServer) lastWords() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "server.log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// do sends commands one after the other over a connection of its own, and
// returns the last reply.
func (s *redisServer) do(commands ...[]string) (string, error) {
	c, err := benchserver.Dial(context.Background(), s.addr())
	if err != nil {
		return "", err
	}
	defer c.Close()
	var reply string
	for _, args := range commands {
		if reply, err = c.Do(args...); err != nil {
			return "", fmt.Errorf("%s: %w", args[0], err)
		}
	}
	return reply, nil
}

func about(addr string) (pid int, name string, err error) {
	c, err := benchserver.Dial(context.Background(), addr)
	if err != nil {
		return 0, "", err
	}
	defer c.Close()
	if _, err = c.Do("EXISTS", "x"); err != nil { // still loading
		return 0, "", err
	}
	text, err := c.Do("INFO", "server")
	if err != nil {
		return 0, "", err
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch key {
		case "process_id":
			if pid, err = strconv.Atoi(value); err != nil {
				return 0, "", err
			}
		case "redis_version":
			if name == "" {
				name = "redis " + value
			}
		case "valkey_version":
			name = "valkey " + value
		}
	}
	return pid, name, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
