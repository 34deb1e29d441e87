package holdfastprom

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// The reasons of failures and losses.
const (
	reasonBusy        = "busy"
	reasonTimeout     = "timeout"
	reasonCanceled    = "canceled"
	reasonUnavailable = "unavailable"
	reasonOverloaded  = "overloaded"
	reasonDeadlock    = "deadlock"
	reasonClosed      = "closed"
	reasonPermission  = "permission"
	reasonMisuse      = "misuse"
	reasonServer      = "server"
	reasonOther       = "other"
	reasonLease       = "lease" // of a loss
)

// reasons are those of failures. The first variable that an error matches
// decides: an error may match several.
var reasons = []struct {
	reason string
	errs   []error
}{
	{reasonUnavailable, []error{lockmgr.ErrUnavailable}},
	{reasonCanceled, []error{lockmgr.ErrCanceled}},
	{reasonTimeout, []error{lockmgr.ErrWaitTimeout}},
	{reasonBusy, []error{lockmgr.ErrNotAcquired}},
	{reasonOverloaded, []error{lockmgr.ErrOverloaded}},
	{reasonDeadlock, []error{lockmgr.ErrDeadlock}},
	{reasonClosed, []error{lockmgr.ErrClosed}},
	{reasonPermission, []error{lockmgr.ErrPermission}},
	{reasonMisuse, []error{
		lockmgr.ErrKind, lockmgr.ErrWrongType, lockmgr.ErrNotFenced, lockmgr.ErrTopology, lockmgr.ErrNotHeld,
		lockmgr.ErrInvalidName, lockmgr.ErrInvalidLease, lockmgr.ErrInvalidWait, lockmgr.ErrInvalidOwner, lockmgr.ErrInvalidOption,
	}},
	{reasonServer, []error{lockmgr.ErrOutOfMemory, lockmgr.ErrReadOnly, lockmgr.ErrReplicas, lockmgr.ErrServer}},
	{reasonLease, []error{lockmgr.ErrLeaseLost}},
}

// Reasons returns all values that the label reason of holdfast_failures_total
// can have:
//
//   - busy: another owner has the lock, and the request did not wait.
//   - timeout: the time of MaxWait, or the deadline of the context, passed.
//   - canceled: the caller cancelled the future or the context.
//   - unavailable: the server did not answer.
//   - overloaded: Options.MaxLocks is reached. Requests beyond
//     Options.MaxWaiters make no event.
//   - deadlock: owners wait for each other in a circle.
//   - closed: the manager is closed.
//   - permission: the access rules of the server forbid it.
//   - misuse: the name is in use as another kind, or another mistake of the
//     caller.
//   - server: the server is out of memory, read-only, short of replicas, or
//     sent a reply that the library does not know.
//   - other: everything else.
func Reasons() []string {
	out := make([]string, 0, len(reasons))
	for _, r := range reasons {
		if r.reason != reasonLease {
			out = append(out, r.reason)
		}
	}
	out = append(out, reasonOther)
	slices.Sort(out)
	return out
}

// reasonOf returns the reason of an error.
func reasonOf(err error) string {
	for _, r := range reasons {
		for _, target := range r.errs {
			if errors.Is(err, target) {
				return r.reason
			}
		}
	}
	return reasonOther
}

// failureReason returns the reason of a failed request. A request whose context
// ended was cancelled by the manager. Its context tells whether that was the
// deadline.
func failureReason(e lockmgr.EventFailed) string {
	reason := reasonOf(e.Err)
	switch {
	case reason == reasonLease:
		return reasonOther
	case reason == reasonCanceled && e.Context != nil && errors.Is(e.Context.Err(), context.DeadlineExceeded):
		return reasonTimeout
	}
	return reason
}

// endedByLoss reports whether the error of an unlock says that the hold had
// been lost before.
func endedByLoss(err error) bool {
	return errors.Is(err, lockmgr.ErrLeaseLost) || errors.Is(err, lockmgr.ErrClosed)
}

// lossReason returns the reason of a lost hold.
func lossReason(err error) string {
	if errors.Is(err, lockmgr.ErrClosed) {
		return reasonClosed
	}
	return reasonLease
}
