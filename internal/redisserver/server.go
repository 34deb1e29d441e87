// Package redisserver runs redis-server and valkey-server processes on free loopback ports. Tests
// use it through internal/redistest, which skips a test where there is no server. The bench has no
// test and uses it directly.
package redisserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/child"
	"github.com/holdfast-go/holdfast/internal/resp"
)

var (
	// ErrNone says that no server is installed.
	ErrNone = errors.New("no redis-server or valkey-server on PATH")
	// ErrEnded says that the server ended while it started.
	ErrEnded = errors.New("the server ended while it started")
)

const (
	// startTimeout is generous: the machine may be busy with other tests.
	startTimeout = 20 * time.Second
	// attempts is how many ports Start tries. A free port can be taken before the child binds it,
	// and a cluster node refuses the upper ports, as its bus listens 10000 above.
	attempts = 10
	// pause is the time between two looks at a server that starts.
	pause = 5 * time.Millisecond
	// tailLines is how many lines Log returns.
	tailLines = 20
	// bindTime is more than a child needs to notice that its port is taken, and to end.
	bindTime = 500 * time.Millisecond
)

// Find returns the path of the server's binary: of the one that is asked for by name or path, or if
// asked is empty, of the first that PATH has. It fails with ErrNone in the second case only.
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

// A Server is a child redis-server or valkey-server. Its fields must be set before Start. Its
// methods may be called from any goroutine, after Start has returned.
type Server struct {
	Binary   string   // path of the program
	Dir      string   // an existing folder for its data and its log
	Config   string   // path of a configuration file, or empty; args override it
	Detached bool     // Ctrl-C does not reach the child: it is in a process group of its own
	Env      []string // of the child, "NAME=value", beside those of this process

	port int

	mu   sync.Mutex     // guards what follows
	proc *child.Process // the newest child, running or not; nil before Start
	name string
}

// Start runs a child on a free loopback port and returns when it answers. It keeps nothing on disk
// unless args say so; args come last on its command line. The user that Start looks at it as must
// be allowed PING and INFO.
func (s *Server) Start(as resp.Login, args ...string) error {
	var err error
	for range attempts {
		if s.port, err = freePort(); err != nil {
			return err
		}
		if err = s.launch(as, args); !errors.Is(err, ErrEnded) {
			return err
		}
	}
	return err
}

// Restart kills the child if it runs and starts another on the same port. Its data is gone, unless
// args keep it ("--appendonly", "yes"). Restart returns when the child answers and has loaded its
// data.
func (s *Server) Restart(as resp.Login, args ...string) error {
	s.Kill()
	return s.launch(as, args)
}

// Addr returns the server's address, "127.0.0.1:port". It stays the same over a Restart.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Port returns the server's port.
func (s *Server) Port() int { return s.port }

// PID returns the process id of the newest child.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.PID()
}

// Name returns the kind and version of the server: "redis 7.0.15". It is empty if the server
// refuses to tell.
func (s *Server) Name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name
}

// Kill ends the child as a crash would (SIGKILL) and returns when it has ended. Without a running
// child it does nothing.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.Kill()
	}
}

// Running reports whether there is a child that has not ended.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc != nil && !ended(s.proc)
}

// Signal sends sig to the child. It fails with [os.ErrProcessDone] if the child has ended.
func (s *Server) Signal(sig os.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.Signal(sig)
}

// Log returns the last lines that the server printed.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

func (s *Server) logFile() string { return filepath.Join(s.Dir, "server.log") }

// launch starts a child on s.port and waits until it answers.
func (s *Server) launch(as resp.Login, args []string) error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own copy
	var first []string
	if s.Config != "" {
		first = []string{s.Config}
	}
	cmd := exec.Command(s.Binary, slices.Concat(first, []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port),
		"--save", "", "--appendonly", "no", "--dir", s.Dir, "--daemonize", "no",
	}, args)...)
	cmd.Dir, cmd.Env = s.Dir, append(os.Environ(), s.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if s.Detached {
		child.Detach(cmd)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := child.Start(cmd)
	if err != nil {
		return err
	}
	s.proc = p
	if err := s.awaitReady(as); err != nil {
		s.proc.Kill()
		return fmt.Errorf("%s: %w\n%s", filepath.Base(s.Binary), err, s.Log())
	}
	return nil
}

// awaitReady returns when s.proc answers PING.
func (s *Server) awaitReady(as resp.Login) error {
	for deadline := time.Now().Add(startTimeout); ; {
		_, err := resp.Do(s.Addr(), as, time.Second, "PING")
		// While it loads its data, a server answers with an error. Rules in args may forbid PING to
		// the default user. A user with a name is refused only by another server.
		refused, answered := err.(resp.Error)
		if err == nil || answered && as.User == "" && !strings.HasPrefix(string(refused), "LOADING") {
			if s.owns(as) {
				return nil
			}
			err = errors.New("another server answers")
		}
		select {
		case <-s.proc.Done():
			return fmt.Errorf("%w: %v", ErrEnded, s.proc.Err())
		case <-time.After(pause):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no answer from %s in %v: %w", s.Addr(), startTimeout, err)
		}
	}
}

// owns reports whether it is s.proc that answers, and not another server that took the port first
// while s.proc is about to end for that reason. A server that refuses to tell its pid counts as
// ours if s.proc goes on for bindTime.
func (s *Server) owns(as resp.Login) bool {
	info, err := resp.Do(s.Addr(), as, time.Second, "INFO", "server")
	if err != nil {
		select {
		case <-s.proc.Done():
			return false
		case <-time.After(bindTime):
			return true
		}
	}
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[key] = value
	}
	if fields["process_id"] != strconv.Itoa(s.proc.PID()) {
		return false
	}
	s.name = "redis " + fields["redis_version"]
	if v := fields["valkey_version"]; v != "" {
		s.name = "valkey " + v
	}
	return true
}

func ended(p *child.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// freePort asks the system for a port that nobody listens on. It may be taken again before the
// child binds it: see attempts.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
