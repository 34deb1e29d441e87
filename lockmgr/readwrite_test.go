package lockmgr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A thousand local readers that come and go within a moment cost two scripts.
func TestReadWrite_ManyReadersTwoScripts(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		var locks []*lockmgr.Lock
		for range 1000 {
			l, err := m.Lock(ctx, "doc", lockmgr.Shared())
			require.NoError(t, err)
			locks = append(locks, l)
		}
		require.EqualValues(t, 1, m.Stats().Scripts)
		for _, l := range locks {
			require.NoError(t, l.Unlock(ctx))
		}
		require.EqualValues(t, 2, m.Stats().Scripts)
	})
}
