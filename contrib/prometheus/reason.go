package holdfastprom

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// The reasons of losses, and some of failures.
const (
	reasonTimeout  = "timeout"
	reasonCanceled = "canceled"
	reasonOther    = "other"
	reasonLost     = "lost"
	reasonClosed   = "closed"
	reasonLease    = "lease"
)

// Reasons returns all values that the label reason of holdfast_failures_total can have. They are
// those of lockmgr.Reasons, without "lost". A request whose context passed its deadline has the
// reason timeout.
func Reasons() []string {
	return slices.DeleteFunc(lockmgr.Reasons(), func(r string) bool { return r == reasonLost })
}

// failureReason returns the reason of a failed request. A request whose context has passed its
// deadline counts as timed out, though its error says that it was cancelled.
func failureReason(e lockmgr.EventFailed) string {
	reason := lockmgr.Reason(e.Err)
	switch {
	case reason == reasonLost, reason == "":
		return reasonOther
	case reason == reasonCanceled && e.Context != nil && errors.Is(e.Context.Err(), context.DeadlineExceeded):
		return reasonTimeout
	}
	return reason
}

// endedByLoss reports whether the error of an unlock says that the hold had been lost before.
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
