package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// holdWait is how long Hold waits for a lock, in fake time.
const holdWait = time.Minute

// A Rival is a lock that another process holds.
type Rival struct {
	// Manager is the other process. Its watchdog renews the lock.
	Manager *lockmgr.Manager
	// Lock is its lock.
	Lock *lockmgr.Lock
	s    *Server
	t    testing.TB
}

// Hold takes a lock with a manager of its own, as another process would. It waits for the lock for
// a minute of fake time, and ends the test with t.Fatal if it does not get it. opts are those of a
// request, such as lockmgr.Shared or lockmgr.Fair. The lock is released at the end of t.
func (s *Server) Hold(t testing.TB, name string, opts ...lockmgr.LockOption) *Rival {
	t.Helper()
	m := s.Manager(t, lockmgr.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), holdWait)
	defer cancel()
	l, err := m.Lock(ctx, name, opts...)
	if err != nil {
		t.Fatalf("locktest: Hold: %v (held by %q)", err, s.Holders(name))
	}
	return &Rival{Manager: m, Lock: l, s: s, t: t}
}

// Release unlocks the lock. It blocks until the server has confirmed that. Any error ends the test
// with t.Fatal, so Release works once.
func (r *Rival) Release() {
	r.t.Helper()
	if err := r.Lock.Unlock(context.Background()); err != nil {
		r.t.Fatalf("locktest: Release: %v", err)
	}
}

// Die makes the other process fall silent for ever, as a crash of its host does. Its lock is free
// when its lease has run out.
func (r *Rival) Die() { r.t.Helper(); r.s.Partition(r.Manager) }
