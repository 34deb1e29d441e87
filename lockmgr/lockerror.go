package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/clean"
)

// The operations of a LockError.
const (
	opLock        = "lock"
	opHold        = "hold"
	opUnlock      = "unlock"
	opExtend      = "extend"
	opInspect     = "inspect"
	opForceUnlock = "force unlock"
	opReturn      = "return permits"
	opLimit       = "limit permits"
	opDelete      = "delete permits"
)

// A LockError records which operation on which lock failed, and why. Every error of a method that
// takes or gives back a lock is a LockError. So are the loss of a lock, which Lock.Err returns, and
// the error of a future of LockAsync or UnlockAsync, except futures.ErrPending. Two errors are not:
// the error of the function given to Manager.Do, and the error of an Await of futures.All or
// futures.Any whose context ended.
type LockError struct {
	// Op is "lock" (Lock, TryLock, LockAsync and the like for a Set or for Permits), "hold" if a
	// lock was lost or Lock.Do had none, "unlock", "extend", "inspect", "force unlock", "return
	// permits", "limit permits" or "delete permits".
	Op string
	// Name is the name of the lock. For a Set, Name has all names, quoted, with their sides.
	Name string
	// Waited is the time from the request to the end of the request. Waited is zero for a
	// cancelled future, for a request refused at its only try, and for all operations but "lock".
	Waited time.Duration
	// Err is the reason. Err matches an Err variable of package lockmgr, the error of a context
	// that ended, or both.
	Err error
	// Holders are the holders that [Manager.Explain] found, or nil before Explain.
	Holders []Holder

	set bool // Name is the text of a set
}

// mostReason is how long a reason may be: the reason of a deadlock names many locks.
const mostReason = 64 << 10

// Error puts the operation, the name, the reason and the wait into a line. A name longer than 128
// bytes is cut, the names of a set at 256 bytes.
func (e *LockError) Error() string {
	var b strings.Builder
	reason := strings.TrimPrefix(strings.TrimPrefix(e.Err.Error(), "lockmgr: "), "futures: ")
	reason = clean.Text(reason, mostReason)
	fmt.Fprintf(&b, "lockmgr: %s %s: %s", e.Op, shownName(e.Name, e.set), reason)
	if e.Waited > 0 {
		fmt.Fprintf(&b, " (waited %v)", roundWait(e.Waited))
	}
	if len(e.Holders) > 0 {
		b.WriteString(": " + heldBy(e.Holders))
	}
	return b.String()
}

// Unwrap returns the reason.
func (e *LockError) Unwrap() error { return e.Err }

// Is reports whether target is a LockError that tells nothing else: of the same operation on the
// same name, and errors.Is finds target's reason in e's. So errors.Is(lock.Err(), err) reports
// whether a function has returned the loss of its lock.
func (e *LockError) Is(target error) bool {
	t, ok := target.(*LockError)
	if !ok || t == nil {
		return false
	}
	sameLock := t.Name == e.Name && t.set == e.set
	return sameLock && t.Op == e.Op && errors.Is(e.Err, t.Err)
}

// shownName returns a name, or the text of a set, for an error text.
func shownName(name string, isSet bool) string {
	switch {
	case !isSet:
		return shortName(name)
	case name == "":
		return "of no names"
	}
	return shortText(name)
}

// shortName quotes a name, and cuts a long one.
func shortName(name string) string {
	const most = 128
	if len(name) <= most {
		return fmt.Sprintf("%q", name)
	}
	return fmt.Sprintf("%q… (%d bytes)", name[:most], len(name))
}

// shortText cuts the text of a set, which is quoted already.
func shortText(text string) string {
	const most = 256
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", cut(text, most), len(text))
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

// contextError returns the error of a context that has ended. The error matches both ctx.Err() and
// context.Cause(ctx), and prints each once.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// Temporary reports whether the same request may succeed later although the caller changes nothing:
// the lock was held by another owner, or the server or the manager could not serve the request just
// then. A caller should wait a moment before the next try. Temporary is false for a nil error, for
// a cancelled future, and for a context that had ended before the call.
//
// ErrDeadlock is not temporary: the caller must first release its locks. Nor is an error of Do that
// matches ErrLeaseLost or ErrClosed, whatever else matches: another owner may have had the lock
// while the function ran. Nor is an error of Unlock: do not call Unlock again. A call of
// Permits.AddLimit with ErrUnavailable may have changed the limit: look at Permits.Inspect before
// you repeat the call.
func Temporary(err error) bool {
	var failed *LockError
	if errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrClosed) || errors.As(err, &failed) && failed.Op == opUnlock {
		return false
	}
	for _, kind := range temporary {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

var temporary = [...]error{ErrNotAcquired, ErrUnavailable, ErrOverloaded, ErrOutOfMemory, ErrReadOnly, ErrReplicas}
