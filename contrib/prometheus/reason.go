package holdfastprom

import (
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// The reasons of losses, and some of failures.
const (
	reasonOther  = "other"
	reasonLost   = "lost"
	reasonClosed = "closed"
	reasonLease  = "lease"
)

// Reasons returns all values that the label reason of holdfast_failures_total can have. They are
// those of lockmgr.Reasons, without "lost".
func Reasons() []string {
	return slices.DeleteFunc(lockmgr.Reasons(), func(r string) bool { return r == reasonLost })
}

// failureReason returns the reason of a failed request.
func failureReason(err error) string {
	reason := lockmgr.Reason(err)
	if reason == reasonLost || reason == "" {
		return reasonOther
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
