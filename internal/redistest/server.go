package redistest

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
	"testing"
	"time"
)

const (
	// startTimeout is generous: the machine may be busy with other tests.
	startTimeout = 20 * time.Second
	// attempts is how many ports Start tries. A free port can be taken before
	// the child binds it, and a cluster node refuses the upper ports, as its
	// bus listens 10000 above.
	attempts = 10
)

// Server is a child redis-server or valkey-server. Its methods may be called
// from any goroutine.
type Server struct {
	t        testing.TB
	binary   string
	args     []string
	dir      string
	port     int
	password string // of --requirepass, for Do

	mu         sync.Mutex // guards what follows
	proc       *process   // the newest child, running or not
	restricted bool       // see acl.go
}

// Start runs a server on a free loopback port and returns when it answers. It
// keeps nothing on disk unless args say so; args come last on its command line
// ("--maxmemory", "10mb"). The server is killed when t ends. Where there is no
// server to run, t is skipped, or fails if HOLDFAST_REQUIRE_SERVER=1.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := newServer(t, find(t), args)
	// After TempDir, so that the child is gone when its folder is removed.
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("redistest: last lines of %s at %s:\n%s", s.binary, s.Addr(), s.logTail())
		}
	})
	var err error
	for range attempts {
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.launch(); err == nil {
			return s
		}
		if !errors.Is(err, errChildEnded) {
			break
		}
	}
	t.Fatalf("redistest: %v\n%s", err, s.logTail())
	return nil
}

// newServer returns a server that has no port yet and does not run.
func newServer(t testing.TB, binary string, args []string) *Server {
	t.Helper()
	s := &Server{t: t, binary: binary, args: args, dir: t.TempDir()}
	if i := slices.Index(args, "--requirepass"); i >= 0 && i+1 < len(args) {
		s.password = args[i+1]
	}
	s.restricted = leastPrivilege(args)
	return s
}

// Addr returns the server's address, "127.0.0.1:port". It stays the same over
// a Restart.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Port returns the server's port.
func (s *Server) Port() int { return s.port }

// PID returns the process id of the newest child. It changes with a Restart.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.pid()
}

// Kill ends the server as a crash would (SIGKILL) and returns when it is gone,
// its connections with it. Killing a dead server does nothing.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.kill()
	}
}

// Restart kills the server if it runs and starts it again on the same port,
// with the same arguments. Its data is gone, unless the arguments keep it
// ("--appendonly", "yes"). Restart returns when the server answers and has
// loaded its data, and marks the test as failed when it does not.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	// Errorf, as Fatalf may be called from the test's own goroutine only.
	if err := s.launch(); err != nil {
		s.t.Errorf("redistest: restart: %v\n%s", err, s.logTail())
	}
}

// Signal sends sig to the server, SIGSTOP and SIGCONT for instance, and marks
// the test as failed if there is no server to get it.
func (s *Server) Signal(sig os.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.proc.signal(sig); err != nil {
		s.t.Errorf("redistest: signal %v: %v", sig, err)
	}
}

// Do sends one command over a connection of its own and waits up to 5 s for
// the reply: admin tasks such as CLIENT KILL, CONFIG SET or ACL SETUSER. The
// reply comes as text; an array's elements on lines of their own, a null as
// "". An error of the server ("ERR ...") is returned as an error.
func (s *Server) Do(args ...string) (string, error) {
	return do(s.Addr(), s.admin(), roundTripTimeout, args...)
}

// Commands returns how often each command was called since the server started
// or CONFIG RESETSTAT, by its name in lower case, a subcommand as
// "config|get". What Do sends counts too. So do the commands that scripts
// call.
func (s *Server) Commands(t testing.TB) map[string]int {
	t.Helper()
	info, err := s.Do("INFO", "commandstats")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return parseCommandStats(info)
}

// parseCommandStats reads lines such as "cmdstat_get:calls=3,usec=12,...".
func parseCommandStats(info string) map[string]int {
	calls := make(map[string]int)
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		n, _, _ := strings.Cut(rest, ",")
		if count, err := strconv.Atoi(n); err == nil {
			calls[strings.ToLower(name)] = count
		}
	}
	return calls
}

var errChildEnded = errors.New("the server ended while it started")

// launch starts a child on s.port and waits until it answers.
func (s *Server) launch() error {
	args := []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port),
		"--save", "", "--appendonly", "no", "--dir", s.dir,
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own copy
	args = append(args, s.args...)
	cmd := exec.Command(s.binary, append(args, s.rules()...)...)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = log, log

	admin := s.admin()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc, err = spawn(cmd); err != nil {
		return err
	}
	if err := s.awaitReady(s.proc, admin); err != nil {
		s.proc.kill()
		return err
	}
	if s.restricted {
		s.grantSetInfo(admin)
	}
	return nil
}

// awaitReady returns when p answers PING.
func (s *Server) awaitReady(p *process, admin login) error {
	deadline := time.Now().Add(startTimeout)
	for {
		_, err := do(s.Addr(), admin, time.Second, "PING")
		// While it loads its data, a server answers with an error. Rules in args
		// may forbid PING, but a user of our own is refused by strangers only.
		refused, answered := err.(replyError)
		ready := err == nil || answered && admin.user == "" && !strings.HasPrefix(string(refused), "LOADING")
		if ready && s.owns(p, admin) {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%w: %v", errChildEnded, p.err)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no answer from %s in %v: %w", s.Addr(), startTimeout, err)
		}
	}
}

// owns makes sure that it is p which answers, and not a stranger that took the
// port first while p is about to end for that reason. A server that refuses to
// tell its pid (an ACL in args) is given the benefit of the doubt.
func (s *Server) owns(p *process, admin login) bool {
	info, err := do(s.Addr(), admin, time.Second, "INFO", "server")
	if err != nil {
		return !p.ended()
	}
	return strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", p.pid()))
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "server.log") }

// logTail returns the last lines that the server printed.
func (s *Server) logTail() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// freePort asks the system for a port that nobody listens on. It may be taken
// again before the child binds it: see attempts.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
