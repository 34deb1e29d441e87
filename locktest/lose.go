package locktest

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// LoseLock takes a held lock away, as [lockmgr.Manager.ForceUnlock] of another process does, or
// [lockmgr.Permits.Return] for permits. It makes the lock's manager look, and returns when the lock
// is lost. Waiters may have the lock then. All readers of a read-write lock lose it.
//
// If the lock's manager can't reach the server, LoseLock blocks in fake time until the lock's
// deadline. LoseLock ends the test with t.Fatal if the lock is not held, or if the server is
// frozen.
func (s *Server) LoseLock(l *lockmgr.Lock) {
	s.t.Helper()
	if !l.Valid() {
		s.t.Fatalf("locktest: LoseLock: %q is not held: %v", l.Name(), l.Err())
	}
	ids := l.PermitIDs()
	for _, name := range l.Names() {
		if !s.takeAway(s.adminManager(), name, ids) && l.Extend(context.Background(), lockmgr.MinLease) == nil {
			s.takeAway(s.adminManager(), name, ids) // Extend told the server of a handoff in memory
		}
	}
	// Extend makes the manager renew the lock at once, and so find it gone.
	if err := l.Extend(context.Background(), lockmgr.MinLease); !errors.Is(err, lockmgr.ErrLeaseLost) {
		s.t.Fatalf("locktest: LoseLock: %q is not lost: %v", l.Name(), err)
	}
	<-l.Lost()
}

// LoseName takes name away from its holders. It is LoseLock for code that does not give its locks
// to the test. A holder whose manager comes from [Server.Manager] loses the lock at once: a round
// trip after LoseName has returned. If readers of several managers hold it, those of one lose it at
// once. All others learn of the loss at their next renewal, within 46 % of lockmgr.Options.Lease.
//
// LoseName ends the test with t.Fatal if nobody holds name, or if the server or the holder's
// manager can't be reached.
func (s *Server) LoseName(name string) {
	s.t.Helper()
	ids := s.Holders(name)
	if len(ids) == 0 {
		s.t.Fatalf("locktest: LoseName: nobody holds %q", name)
	}
	if s.server().Type(name) == "hash" {
		s.takeAway(s.managerOf(ids[0]), name, nil)
		return
	}
	for _, id := range ids {
		s.takeAway(s.managerOf(id), name, []string{id})
	}
}

// Forget removes the records of name, as DEL by hand does, and tells nobody. A holder notices at
// its next renewal, within 46 % of lockmgr.Options.Lease, or with FixedLease at Unlock. Until then
// its lock is Valid, and another manager may get it too. Waiters get no message. Fencing tokens go
// on rising.
//
// Forget ends the test with t.Fatal if nobody holds name.
func (s *Server) Forget(name string) {
	s.t.Helper()
	if !s.Held(name) {
		s.t.Fatalf("locktest: Forget: nobody holds %q", name)
	}
	m := s.server()
	m.Del(name)
	m.Del(takenKey(name))
}

// takeAway removes the holders of a lock, or the permits with these IDs, by a command of m.
// takeAway reports whether the server knew them.
func (s *Server) takeAway(m *lockmgr.Manager, name string, permits []string) (known bool) {
	s.t.Helper()
	var err error
	if ctx := context.Background(); len(permits) > 0 {
		known, err = m.Permits(name, 1).Return(ctx, permits...)
	} else {
		known, err = m.ForceUnlock(ctx, name)
	}
	if err != nil {
		s.t.Fatalf("locktest: %q can't be taken away: %v", name, err)
	}
	return known
}

// managerOf returns the manager that made a holder ID or a permit ID, or another one if the Server
// does not know it.
func (s *Server) managerOf(id string) *lockmgr.Manager {
	s.t.Helper()
	s.mu.Lock()
	for m := range s.managers {
		half := strings.ReplaceAll(m.ID(), "-", "")[:16]
		if strings.HasPrefix(id, m.ID()+":") || len(id) == 32 && strings.HasPrefix(id, half) {
			s.mu.Unlock()
			return m
		}
	}
	s.mu.Unlock()
	return s.adminManager()
}

// adminManager returns a manager that holds nothing. The first call starts it.
func (s *Server) adminManager() *lockmgr.Manager {
	s.t.Helper()
	if s.admin == nil {
		s.admin = s.Manager(s.t, lockmgr.Options{})
	}
	return s.admin
}
