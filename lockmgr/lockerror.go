package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The operations that a LockError names.
const (
	opLock        = "lock"
	opUnlock      = "unlock"
	opExtend      = "extend"
	opInspect     = "inspect"
	opForceUnlock = "force unlock"
)

// A LockError records which operation on which lock failed, and why. Every error
// of a method that takes or gives back one lock is a LockError. So is the error of
// a future of LockAsync or UnlockAsync, except futures.ErrPending. Not a LockError
// is what the function given to Manager.Do returns, and the end of the context of
// an Await of futures.All or futures.Any.
type LockError struct {
	// Op is "lock" (Lock, TryLock and LockAsync), "unlock", "extend",
	// "inspect" or "force unlock".
	Op string
	// Name is the name of the lock.
	Name string
	// Waited is the time from the request to its end. It is zero for requests
	// that were cancelled, that were refused before anything was sent or that
	// try only once, and for all operations but "lock".
	Waited time.Duration
	// Err is the reason. It matches one of the Err variables of this package,
	// the error of a context that ended, or both.
	Err error
}

// Error puts the operation, the name, the reason and the wait into one line. A
// name longer than 128 bytes is cut.
func (e *LockError) Error() string {
	var b strings.Builder
	reason := strings.TrimPrefix(strings.TrimPrefix(e.Err.Error(), "lockmgr: "), "futures: ")
	fmt.Fprintf(&b, "lockmgr: %s %s: %s", e.Op, shortName(e.Name), reason)
	if e.Waited > 0 {
		fmt.Fprintf(&b, " (waited %v)", roundWait(e.Waited))
	}
	return b.String()
}

// Unwrap returns the reason.
func (e *LockError) Unwrap() error { return e.Err }

// shortName quotes a name for an error text.
func shortName(name string) string {
	const most = 128
	if len(name) <= most {
		return fmt.Sprintf("%q", name)
	}
	return fmt.Sprintf("%q… (%d bytes)", name[:most], len(name))
}

// roundWait rounds a wait to about three digits.
func roundWait(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d
}

// contextError returns the error of a context that has ended. It matches both
// ctx.Err() and context.Cause(ctx), and prints each of them once.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// waitError returns the error of a request that ended at now without a lock.
// While the server is silent, a wait that ran out does not mean that another
// owner holds the lock.
func (t *ticket) waitError(now time.Duration, err error) error {
	if t.request.Once {
		return &LockError{Op: opLock, Name: t.request.Name, Err: err}
	}
	if errors.Is(err, ErrWaitTimeout) {
		if down := t.manager.failing(t.asked, now); down != nil {
			err = down
		} else {
			err = fmt.Errorf("%w: another owner held it", err)
		}
	}
	return &LockError{opLock, t.request.Name, max(0, now-t.asked), err}
}

// Explain returns the error of a future that was cancelled, or whose Await ended
// with its context.
func (t *ticket) Explain(err error) error {
	if errors.Is(err, ErrCanceled) {
		return &LockError{Op: opLock, Name: t.request.Name, Err: err}
	}
	now := t.manager.now()
	reason := error(errHeld)
	if down := t.manager.failing(t.asked, now); down != nil {
		reason = down
	}
	return &LockError{opLock, t.request.Name, max(0, now-t.asked), fmt.Errorf("%w: %w", reason, err)}
}

var errHeld = fmt.Errorf("%w: another owner held it", ErrNotAcquired)

// An unlocking is a ticket as the source of its unlock's future. Cancel and
// Drop do nothing: the release goes on in any case.
type unlocking ticket

func (r *unlocking) Cancel()       {}
func (r *unlocking) Drop(struct{}) {}

func (r *unlocking) Explain(err error) error {
	if !errors.Is(err, ErrCanceled) {
		err = r.manager.whileFailing(err)
	}
	return &LockError{Op: opUnlock, Name: r.request.Name, Err: err}
}

// whileFailing adds the server's failure, if there is one, to the error of a
// context.
func (m *Manager) whileFailing(err error) error {
	if down := m.failing(0, m.now()); down != nil {
		return fmt.Errorf("%w: %w", down, err)
	}
	return err
}

// Temporary reports whether the same call may succeed later although the caller
// changes nothing: the lock was held by another owner, or the server or the
// manager could not serve the request just then. A caller should wait a moment
// before it tries again. Temporary is false for a nil error, for a cancelled
// future, and for a context that had ended before the call.
//
// ErrDeadlock is not temporary: the caller must first release what it holds.
func Temporary(err error) bool {
	for _, kind := range temporary {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

var temporary = [...]error{ErrNotAcquired, ErrUnavailable, ErrOverloaded, ErrOutOfMemory, ErrReadOnly}
