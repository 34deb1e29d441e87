package certmagic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A Locker takes and releases locks by their names. It implements the Locker, TryLocker and
// LockLeaseRenewer interfaces of certmagic. Its methods are safe for concurrent use.
type Locker struct {
	manager *lockmgr.Manager
	prefix  string

	mu sync.Mutex
	// held are the locks that were not unlocked yet. A name has more than one only if locks of it
	// were lost: another caller may have got the name then.
	held map[string][]*lockmgr.Lock
}

// NewLocker returns a locker that takes locks from m. It does no I/O.
func NewLocker(m *lockmgr.Manager, options Options) *Locker {
	return &Locker{manager: m, prefix: options.Prefix, held: map[string][]*lockmgr.Lock{}}
}

// Lock waits until it holds a lock, or ctx ends. The errors are those of [lockmgr.Manager.Lock].
// The owner of ctx is ignored: certmagic counts on a name being locked once.
func (l *Locker) Lock(ctx context.Context, name string) error {
	lock, err := l.manager.Lock(lockmgr.WithoutOwner(ctx), l.prefix+name)
	if err != nil {
		return err
	}
	l.keep(name, lock)
	return nil
}

// TryLock tries once to take a lock, and reports whether it holds it. It blocks for a round trip. A
// lock that is held elsewhere, or by the same owner, is no error.
func (l *Locker) TryLock(ctx context.Context, name string) (bool, error) {
	lock, err := l.manager.TryLock(lockmgr.WithoutOwner(ctx), l.prefix+name)
	switch {
	case err == nil:
		l.keep(name, lock)
		return true, nil
	case ctx.Err() == nil && errors.Is(err, lockmgr.ErrNotAcquired):
		return false, nil
	}
	return false, err
}

// Unlock releases a lock. It blocks as [lockmgr.Lock.Unlock] does. The error matches
// lockmgr.ErrNotHeld if this locker did not lock the name, and lockmgr.ErrLeaseLost if the lock was
// lost before.
func (l *Locker) Unlock(ctx context.Context, name string) error {
	lock := l.take(name)
	if lock == nil {
		return fmt.Errorf("certmagic: unlock %q: %w", name, lockmgr.ErrNotHeld)
	}
	return lock.Unlock(ctx)
}

// RenewLockLease reports an error if the lock is not held: it matches lockmgr.ErrNotHeld if this
// locker did not lock the name, and lockmgr.ErrLeaseLost if the lock was lost. It does no I/O and
// ignores the duration, because the manager renews the lock by itself. A longer lease would only
// delay other processes after this one died.
func (l *Locker) RenewLockLease(_ context.Context, name string, _ time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	locks := l.held[name]
	if len(locks) == 0 {
		return fmt.Errorf("certmagic: renew %q: %w", name, lockmgr.ErrNotHeld)
	}
	if err := locks[len(locks)-1].Err(); err != nil {
		return fmt.Errorf("certmagic: renew %q: %w", name, err)
	}
	return nil
}

func (l *Locker) keep(name string, lock *lockmgr.Lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[name] = append(l.held[name], lock)
}

// take removes a lock of the name, or returns nil. Callers can't be told apart, so it takes those
// that were lost first: nobody then unlocks the lock that another caller still uses.
func (l *Locker) take(name string) *lockmgr.Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	locks := l.held[name]
	if len(locks) == 0 {
		return nil
	}
	i := max(0, slices.IndexFunc(locks, func(l *lockmgr.Lock) bool { return !l.Valid() }))
	lock := locks[i]
	if l.held[name] = slices.Delete(locks, i, i+1); len(l.held[name]) == 0 {
		delete(l.held, name)
	}
	return lock
}
