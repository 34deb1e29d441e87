package lockmgr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A DeadlockError names the circle that a request would have closed: each owner waits for a lock
// that the next one holds. It matches ErrDeadlock.
type DeadlockError struct{ Cycle []Edge }

// An Edge is one owner's wait for another.
type Edge struct {
	Owner  string // the waiting owner, as Owner.String prints it
	Name   string // the lock that it waits for: of a set, the name that Holder has
	Holder string // the owner that holds it
}

// Error names the owners and the locks.
func (e *DeadlockError) Error() string {
	var b strings.Builder
	b.WriteString(ErrDeadlock.Error())
	sep := ": "
	for _, w := range e.Cycle {
		fmt.Fprintf(&b, "%s%s waits for %q, which %s holds", sep, w.Owner, w.Name, w.Holder)
		sep = "; "
	}
	return b.String()
}

// Unwrap makes errors.Is(err, ErrDeadlock) true.
func (e *DeadlockError) Unwrap() error { return ErrDeadlock }

// public returns the error for users that an error of the core stands for. The core knows owners by
// number, and knows no ServerError.
func (id *identity) public(err error) error {
	if errors.Is(err, core.ErrTooLate) {
		return &ServerError{Kind: ErrUnavailable, Hint: "ask for a longer lease", Err: err}
	}
	var d *core.DeadlockError
	if !errors.As(err, &d) {
		return err
	}
	out := &DeadlockError{}
	for _, w := range d.Cycle {
		out.Cycle = append(out.Cycle, Edge{Owner{id, w.Owner}.String(), w.Name, Owner{id, w.Holder}.String()})
	}
	return out
}
