package lockmgr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A lock was taken without AsOwner, and later requests name its owner. That owner
// can be part of a deadlock like any other.
func TestDeadlock_OfAdoptedOwners(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		x := mustLock(t, m, "x")
		y := mustLock(t, m, "y")
		f := m.LockAsync("y", lockmgr.AsOwner(x.Owner()))
		require.ErrorIs(t, errOf(m.Lock(ctx, "x", lockmgr.AsOwner(y.Owner()))), lockmgr.ErrDeadlock)
		mustUnlock(t, y)
		mustUnlock(t, mustAwait(t, f))
		mustUnlock(t, x)
	})
}
