package lockmgr

import (
	"context"
	"errors"
	"slices"
)

// reasons are the words of Reason. The first variable that an error matches decides: an error may
// match several.
var reasons = []struct {
	word string
	errs []error
}{
	{"unavailable", []error{ErrUnavailable}},
	{"canceled", []error{ErrCanceled}},
	{"timeout", []error{ErrWaitTimeout}},
	{"lost", []error{ErrLeaseLost}},
	{"overloaded", []error{ErrOverloaded}},
	{"deadlock", []error{ErrDeadlock}},
	{"closed", []error{ErrClosed}},
	{"permission", []error{ErrPermission}},
	{"misuse", []error{
		ErrKind, ErrLimit, ErrWrongType, ErrNotFenced, ErrTopology, ErrNotHeld,
		ErrInvalidName, ErrInvalidLease, ErrInvalidWait, ErrInvalidOwner, ErrInvalidOption,
	}},
	{"server", []error{ErrOutOfMemory, ErrReadOnly, ErrReplicas, ErrServer}},
	// The error of a wait ended by its context matches ErrNotAcquired, too.
	{"canceled", []error{context.Canceled}},
	{"timeout", []error{context.DeadlineExceeded}},
	{"busy", []error{ErrNotAcquired}},
}

// Reason returns a word for an error, for the label of a metric or the type of an error in a trace.
// The word is from [Reasons], or "" for nil:
//
//   - unavailable: the server did not answer.
//   - canceled: the caller cancelled the future or the context.
//   - timeout: the time of MaxWait passed, or the deadline of the context.
//   - lost: the lock was lost.
//   - busy: another owner has the lock, and the request did not wait.
//   - overloaded: too many requests or locks.
//   - deadlock: owners wait for each other in a circle.
//   - closed: the manager is closed.
//   - permission: the access rules of the server forbid it.
//   - misuse: a mistake of the caller, such as a name that is in use as another kind.
//   - server: the server is out of memory, read-only, short of replicas, or sent a reply that the
//     library does not know.
//   - other: everything else.
func Reason(err error) string {
	if err == nil {
		return ""
	}
	for _, r := range reasons {
		for _, target := range r.errs {
			if errors.Is(err, target) {
				return r.word
			}
		}
	}
	return "other"
}

// Reasons returns all words of [Reason], sorted.
func Reasons() []string {
	words := []string{"other"}
	for _, r := range reasons {
		words = append(words, r.word)
	}
	slices.Sort(words)
	return slices.Compact(words)
}
