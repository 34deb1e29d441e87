package locktest

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Freeze stops the server, as SIGSTOP stops a process: it answers nothing until Thaw. Connections
// stay open, and new ones are accepted. Commands that arrive meanwhile run after Thaw, even those
// of clients that have given up.
func (s *Server) Freeze() { s.freeze(true) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw() { s.freeze(false) }

func (s *Server) freeze(frozen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = frozen
	for _, l := range s.links {
		for p := range l.pairs {
			p.hold(frozen)
		}
	}
}

// Partition cuts a manager off without an error on any connection: see [Link.Silence]. Other
// managers go on. For connections that break, use [Link.Refuse].
func (s *Server) Partition(m *lockmgr.Manager) { s.t.Helper(); s.Link(m).Silence() }

// Heal ends the faults of a manager's link: see [Link.Heal].
func (s *Server) Heal(m *lockmgr.Manager) { s.t.Helper(); s.Link(m).Heal() }

// Restart ends all connections and starts the server again, with its data. Subscriptions and cached
// scripts are gone. A frozen server is thawed. Clients can connect at once.
func (s *Server) Restart() {
	s.t.Helper()
	s.restart()
	if err := s.flushScripts(); err != nil {
		s.t.Fatalf("locktest: restart: %v", err)
	}
}

// RestartEmpty is Restart without the data: all locks, tokens and limits are gone.
func (s *Server) RestartEmpty() {
	s.t.Helper()
	next := newMini(s.t)
	s.mu.Lock()
	old := s.mini
	s.mini = next
	s.mu.Unlock()
	s.restart()
	old.Close()
}

func (s *Server) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = false
	for _, l := range s.links {
		l.reset()
	}
}

// flushTimeout bounds SCRIPT FLUSH.
const flushTimeout = 10 * time.Second

// flushScripts empties the cache of scripts.
func (s *Server) flushScripts() error {
	c, err := s.mini.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = resp.NewConn(c, flushTimeout).DoText("SCRIPT", "FLUSH")
	return err
}
