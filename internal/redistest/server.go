package redistest

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redisserver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// roundTripTimeout bounds one admin command. It is only reached when the server hangs or is
// stopped.
const roundTripTimeout = 20 * time.Second

// Server is a child redis-server or valkey-server. Its methods may be called from any goroutine.
type Server struct {
	t        testing.TB
	args     []string
	password string // of --requirepass, for Do
	server   *redisserver.Server

	mu         sync.Mutex // guards what follows
	restricted bool       // see acl.go
}

// Start runs a server on a free loopback port and returns when it answers. It keeps nothing on disk
// unless args say so; args come last on its command line ("--maxmemory", "10mb"). The server is
// killed when t ends. Where there is no server to run, t is skipped, or fails if
// HOLDFAST_REQUIRE_SERVER=1.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, args: args, restricted: leastPrivilege(args)}
	s.server = &redisserver.Server{Binary: find(t), Dir: t.TempDir()}
	if i := slices.Index(args, "--requirepass"); i >= 0 && i+1 < len(args) {
		s.password = args[i+1]
	}
	// After TempDir, so that the child is gone when its folder is removed.
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("redistest: last lines of %s at %s:\n%s", s.server.Binary, s.Addr(), s.server.Log())
		}
	})
	if err := s.launch(s.server.Start); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return s
}

// launch has start run a child, with what args and acl.go ask for.
func (s *Server) launch(start func(as resp.Login, args ...string) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	as := s.admin()
	err := start(as, slices.Concat(s.args, s.rules())...)
	if err == nil && s.restricted {
		s.grantSetInfo(as)
	}
	return err
}

// Addr returns the server's address, "127.0.0.1:port". It stays the same over a Restart.
func (s *Server) Addr() string { return s.server.Addr() }

// Port returns the server's port.
func (s *Server) Port() int { return s.server.Port() }

// PID returns the process id of the newest child. It changes with a Restart.
func (s *Server) PID() int { return s.server.PID() }

// Kill ends the server as a crash would (SIGKILL) and returns when it is gone, its connections with
// it. Killing a dead server does nothing.
func (s *Server) Kill() { s.server.Kill() }

// Restart kills the server if it runs and starts it again on the same port, with the same
// arguments. Its data is gone, unless the arguments keep it ("--appendonly", "yes"). Restart
// returns when the server answers and has loaded its data, and marks the test as failed when it
// does not.
func (s *Server) Restart() {
	s.t.Helper()
	// Errorf, as Fatalf may be called from the test's own goroutine only.
	if err := s.launch(s.server.Restart); err != nil {
		s.t.Errorf("redistest: restart: %v", err)
	}
}

// Signal sends sig to the server, SIGSTOP and SIGCONT for instance, and marks the test as failed if
// there is no server to get it.
func (s *Server) Signal(sig os.Signal) {
	s.t.Helper()
	if err := s.server.Signal(sig); err != nil {
		s.t.Errorf("redistest: signal %v: %v", sig, err)
	}
}

// Do sends one command over a connection of its own and waits up to 5 s for the reply: admin tasks
// such as CLIENT KILL, CONFIG SET or ACL SETUSER. The reply comes as text; an array's elements on
// lines of their own, a null as "". An error of the server ("ERR ...") is returned as an error.
func (s *Server) Do(args ...string) (string, error) {
	s.mu.Lock()
	as := s.admin()
	s.mu.Unlock()
	return s.do(as, args...)
}

func (s *Server) do(as resp.Login, args ...string) (string, error) {
	return resp.Do(s.Addr(), as, roundTripTimeout, args...)
}

// Commands returns how often each command was called since the server started or CONFIG RESETSTAT,
// by its name in lower case, a subcommand as "config|get". What Do sends counts too. So do the
// commands that scripts call.
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

// Must returns the value of a call, and ends the test if the call failed: Must(s.Do("PING"))(t,
// "why").
func Must[T any](v T, err error) func(t testing.TB, what ...any) T {
	return func(t testing.TB, what ...any) T {
		t.Helper()
		require.NoError(t, err, what...)
		return v
	}
}
