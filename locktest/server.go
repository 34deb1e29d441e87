package locktest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// cleanupTime bounds the Close of a manager at the end of a test, in fake time.
const cleanupTime = time.Minute

// A Server is an embedded Redis server in the fake time of a bubble. Clients reach it through
// memory. Use its methods from the goroutine of the test.
type Server struct {
	t     testing.TB
	admin *lockmgr.Manager // nil until it is needed

	mu       sync.Mutex // held for short only, and by dials too
	mini     *miniredis.Miniredis
	frozen   bool
	closed   bool
	links    []*Link
	managers map[*lockmgr.Manager]*Link
}

// Start runs an embedded server until t ends. It must be called in a bubble of testing/synctest;
// elsewhere it ends the test with t.Fatal. A TTL runs out when the bubble's time has come, without
// any call.
func Start(t testing.TB) *Server {
	t.Helper()
	if !inBubble() {
		t.Fatal("locktest: Start needs fake time: call it in synctest.Test(t, func(t *testing.T) { ... }), with the t of that function")
	}
	s := &Server{t: t, mini: newMini(t), managers: make(map[*lockmgr.Manager]*Link)}
	t.Cleanup(s.close)
	return s
}

// inBubble reports whether the caller is in a bubble.
func inBubble() (yes bool) {
	defer func() { yes = recover() == nil }()
	synctest.Wait() // panics outside
	return
}

// newMini starts miniredis without a port.
func newMini(t testing.TB) *miniredis.Miniredis {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	c, err := m.Dial() // starts it
	if err != nil {
		t.Fatalf("locktest: %v", err)
	}
	c.Close()
	return m
}

// Manager returns a manager of the server, with a [Link] of its own. At the end of t the server is
// thawed, the link healed and the manager closed. An error of that Close fails the test, unless the
// manager was closed before. To tell processes apart, give each a manager of its own. Bad options
// end the test with t.Fatal.
func (s *Server) Manager(t testing.TB, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	l := s.NewLink()
	m, err := lockmgr.Dial(l.ClientOption(), o)
	if err != nil {
		t.Fatalf("locktest: a manager does not start: %v", err)
	}
	s.mu.Lock()
	s.managers[m] = l
	s.mu.Unlock()
	t.Cleanup(func() {
		s.Thaw()
		l.Heal()
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
		defer cancel()
		_, gone := m.Locks(ctx) // who has closed m has the error of Close
		if err := m.Close(ctx); err != nil && !errors.Is(gone, lockmgr.ErrClosed) {
			t.Errorf("locktest: closing a manager: %v", err)
		}
	})
	return m
}

// NewLink returns a link for a client that the test does not get from [Server.Manager].
func (s *Server) NewLink() *Link {
	l := &Link{s: s, pairs: make(map[pair]struct{}), changed: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = append(s.links, l)
	return l
}

// Link returns the link of a manager that [Server.Manager] returned. For another one it ends the
// test with t.Fatal.
func (s *Server) Link(m *lockmgr.Manager) *Link {
	s.t.Helper()
	s.mu.Lock()
	l := s.managers[m]
	s.mu.Unlock()
	if l == nil {
		s.t.Fatal("locktest: the manager is not one of Server.Manager")
	}
	return l
}

// close ends the server. Managers have been closed by later Cleanups.
func (s *Server) close() {
	s.Thaw()
	s.mu.Lock()
	s.closed = true
	for _, l := range s.links {
		l.reset()
		l.wake()
	}
	m := s.mini
	s.mu.Unlock()
	m.Close()
}
