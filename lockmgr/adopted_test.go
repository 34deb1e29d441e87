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
		x, err := m.Lock(ctx, "x")
		require.NoError(t, err)
		y, err := m.Lock(ctx, "y")
		require.NoError(t, err)
		f := m.LockAsync("y", lockmgr.AsOwner(x.Owner()))
		_, err = m.Lock(ctx, "x", lockmgr.AsOwner(y.Owner()))
		require.ErrorIs(t, err, lockmgr.ErrDeadlock)
		require.NoError(t, y.Unlock(ctx))
		y, err = f.Await(ctx)
		require.NoError(t, err)
		require.NoError(t, y.Unlock(ctx))
		require.NoError(t, x.Unlock(ctx))
	})
}
