package lockmgr_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// Each error of the package has a word of its own group, also if it is wrapped or is of several kinds.
func TestReason(t *testing.T) {
	for word, errs := range map[string][]error{
		"unavailable": {lockmgr.ErrUnavailable, errors.Join(lockmgr.ErrUnavailable, lockmgr.ErrCanceled)},
		"canceled":    {lockmgr.ErrCanceled, context.Canceled, fmt.Errorf("%w: %w", lockmgr.ErrNotAcquired, context.Canceled)},
		"timeout":     {lockmgr.ErrWaitTimeout, context.DeadlineExceeded, fmt.Errorf("%w: %w", lockmgr.ErrNotAcquired, context.DeadlineExceeded)},
		"lost":        {lockmgr.ErrLeaseLost, errors.Join(lockmgr.ErrLeaseLost, context.Canceled)},
		"busy":        {lockmgr.ErrNotAcquired, &lockmgr.LockError{Op: "lock", Name: "a", Err: lockmgr.ErrNotAcquired}},
		"overloaded":  {lockmgr.ErrOverloaded},
		"deadlock":    {lockmgr.ErrDeadlock},
		"closed":      {lockmgr.ErrClosed},
		"permission":  {lockmgr.ErrPermission},
		"misuse": {
			lockmgr.ErrKind, lockmgr.ErrLimit, lockmgr.ErrWrongType, lockmgr.ErrNotFenced, lockmgr.ErrTopology, lockmgr.ErrNotHeld, lockmgr.ErrInvalidName,
			lockmgr.ErrInvalidLease, lockmgr.ErrInvalidWait, lockmgr.ErrInvalidOwner, lockmgr.ErrInvalidOption,
		},
		"server": {lockmgr.ErrOutOfMemory, lockmgr.ErrReadOnly, lockmgr.ErrReplicas, lockmgr.ErrServer},
		"other":  {errors.New("x")},
		"":       {nil},
	} {
		for _, err := range errs {
			require.Equal(t, word, lockmgr.Reason(err), err)
			if err != nil {
				require.Equal(t, word, lockmgr.Reason(fmt.Errorf("orders: %w", err)), err)
				require.Contains(t, lockmgr.Reasons(), word)
			}
		}
	}
	require.Len(t, lockmgr.Reasons(), 12)
}
