package lockmgr_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A client of Redisson forces a lock open: it deletes the record alone. A reader that unlocks after
// that takes its own key with it, whose fixed lease may be long.
func TestReadWrite_RecordIsGoneBeforeTheUnlock(t *testing.T) {
	for _, set := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *scene) {
			m, _ := w.manager(lockmgr.Options{})
			var l *lockmgr.Lock
			if set {
				l = mustLockAll(t, m, lockmgr.Set{Shared: []string{"doc"}}, lockmgr.FixedLease(time.Hour))
			} else {
				l = mustLock(t, m, "doc", lockmgr.Shared(), lockmgr.FixedLease(time.Hour))
			}
			time.Sleep(second)
			w.server.Del("doc")
			require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
			time.Sleep(time.Minute)
			require.Empty(t, w.server.Keys(), "set: %v", set)
		})
	}
}
