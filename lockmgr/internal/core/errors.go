package core

import (
	"errors"
	"fmt"
)

// The errors of requests and holds. The public package exports and documents most of them.
var (
	ErrNotAcquired = errors.New("lockmgr: lock not acquired")
	ErrWaitTimeout = fmt.Errorf("%w: wait timed out", ErrNotAcquired)
	ErrNotHeld     = errors.New("lockmgr: lock not held")
	ErrLeaseLost   = errors.New("lockmgr: lease lost")
	ErrClosed      = errors.New("lockmgr: manager closed")
	ErrDeadlock    = errors.New("lockmgr: deadlock")
	ErrOverloaded  = errors.New("lockmgr: overloaded")
	ErrKind        = errors.New("lockmgr: name in use by another kind of lock")
	ErrLimit       = errors.New("lockmgr: more permits than there are")
	ErrNotFenced   = errors.New("lockmgr: re-entry asks for a fencing token, but the hold has none")

	// ErrTooLate is wrapped by the public package.
	ErrTooLate = errors.New("the answer took longer than the lease")

	errExpired  = fmt.Errorf("%w: it ran out before a renewal was confirmed", ErrLeaseLost)
	errOver     = fmt.Errorf("%w: its fixed lease is over", ErrLeaseLost)
	errMaxHold  = fmt.Errorf("%w: its MaxHold is over", ErrLeaseLost)
	errGone     = fmt.Errorf("%w: the key was removed or taken over", ErrLeaseLost)
	errReturned = fmt.Errorf("%w: a permit was given back by its ID, or removed", ErrLeaseLost)
	errCancel   = errors.New("lockmgr: request cancelled")
)

// A Wait is one edge of a deadlock: an owner that waits for a name of which another owner has a
// hold. Of a set, Name is the item for which the owner waits.
type Wait struct {
	Owner  uint64
	Name   string
	Holder uint64
}

// A DeadlockError names the cycle that the failed request would have closed. It matches
// ErrDeadlock. The public package makes the text for users.
type DeadlockError struct{ Cycle []Wait }

func (e *DeadlockError) Error() string { return fmt.Sprintf("%v: %+v", ErrDeadlock, e.Cycle) }

// Unwrap makes errors.Is(err, ErrDeadlock) true.
func (e *DeadlockError) Unwrap() error { return ErrDeadlock }
