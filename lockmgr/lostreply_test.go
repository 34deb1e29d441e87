package lockmgr_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// warm makes the server know the scripts.
func warm(t *testing.T, m *lockmgr.Manager) {
	mustUnlock(t, mustLock(t, m, "warm"))
}

// The reply to an acquire is lost, but the script ran: the request must be
// granted all the same, and be the only owner.
func TestAcquire_LostReply(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		warm(t, m)
		start := time.Now()
		net.lose.Store(true)
		l := mustLock(t, m, "a")
		require.Less(t, time.Since(start), second)
		require.Equal(t, []string{l.HolderID()}, w.owners("a"))
		mustUnlock(t, l)
		require.Empty(t, w.owners("a"))
		time.Sleep(10 * second)
		require.Zero(t, m.Stats().Locks)
	})
}

// The same, but the caller leaves: the record must not stay until its lease ends.
func TestAcquire_LostReplyAndCancel(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		warm(t, m)
		net.lose.Store(true)
		f := m.LockAsync("a")
		synctest.Wait()
		require.Len(t, w.owners("a"), 1, "the script ran")
		require.True(t, f.Cancel())
		time.Sleep(second)
		require.Empty(t, w.owners("a"))
		time.Sleep(10 * second)
		require.Zero(t, m.Stats().Locks)
	})
}

func TestTryLock_LostReply(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		warm(t, m)
		net.lose.Store(true)
		require.ErrorIs(t, errOf(m.TryLock(ctx, "a")), lockmgr.ErrUnavailable)
		time.Sleep(second)
		require.Empty(t, w.owners("a"))
	})
}

func TestRelease_LostReply(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		warm(t, m)
		l := mustLock(t, m, "a")
		net.lose.Store(true)
		require.NoError(t, l.Unlock(ctx), "the repeated release finds no record, which is what the caller wants")
		require.Empty(t, w.owners("a"))
	})
}
