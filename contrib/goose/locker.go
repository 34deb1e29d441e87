// Package goose keeps the migrations of two processes from overlapping.
//
//	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations,
//		goose.WithLocker(holdfastgoose.NewLocker(mgr, "migrations:shop")))
//
// It works with every database, as the lock is on Redis. A process that finds the lock held waits,
// and then finds the migrations done.
//
// goose is not told that the lock was lost while migrations ran. What it was called for then
// returns an error that matches lockmgr.ErrLeaseLost: another process may have run migrations at
// the same time.
package goose

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"

	"github.com/pressly/goose/v3/lock"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A Locker takes a lock for the migrations of a database. It implements lock.Locker of goose. Its
// methods are safe for concurrent use, and several providers may share one.
type Locker struct {
	manager *lockmgr.Manager
	name    string
	options []lockmgr.LockOption

	mu   sync.Mutex
	held []*lockmgr.Lock // more than one only if some were lost
}

var _ lock.Locker = (*Locker)(nil)

// NewLocker returns a locker for the lock of the name. It does no I/O. Give each database a name of
// its own, the same in all processes. With lockmgr.MaxWait a process gives up after some time, and
// its migrations fail. With lockmgr.Shared or lockmgr.AsOwner, others could have the lock, too:
// Lock fails with lockmgr.ErrInvalidOption.
func NewLocker(m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *Locker {
	return &Locker{manager: m, name: name, options: opts}
}

// undoes reports whether an option lets others have the lock at the same time.
func undoes(o lockmgr.LockOption) bool { return o.Name() == "Shared" || o.Name() == "AsOwner" }

// Lock waits until it holds the lock, or ctx ends. The owner of ctx is ignored. Lock does not use
// the database. The errors are those of [lockmgr.Manager.Lock].
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	if i := slices.IndexFunc(l.options, undoes); i >= 0 {
		return fmt.Errorf("goose: %w: %s", lockmgr.ErrInvalidOption, l.options[i].Name())
	}
	held, err := l.manager.Lock(lockmgr.WithoutOwner(ctx), l.name, l.options...)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, held)
	return nil
}

// Unlock releases the lock. It blocks as [lockmgr.Lock.Unlock] does. The error matches
// lockmgr.ErrNotHeld if the locker holds no lock, and lockmgr.ErrLeaseLost if the lock was lost
// before.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error {
	held := l.take()
	if held == nil {
		return fmt.Errorf("goose: unlock %q: %w", l.name, lockmgr.ErrNotHeld)
	}
	return held.Unlock(ctx)
}

// take removes a lock, or returns nil. Callers can't be told apart, so it takes those that were
// lost first: nobody then unlocks the lock that another caller still uses.
func (l *Locker) take() *lockmgr.Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) == 0 {
		return nil
	}
	i := max(0, slices.IndexFunc(l.held, func(l *lockmgr.Lock) bool { return !l.Valid() }))
	held := l.held[i]
	l.held = slices.Delete(l.held, i, i+1)
	return held
}
