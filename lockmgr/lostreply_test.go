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
	l, err := m.Lock(ctx, "warm")
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
}

// The reply to an acquire is lost, but the script ran: the request must be
// granted all the same, and be the only owner.
func TestAcquire_LostReply(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		warm(t, m)
		start := time.Now()
		net.lose.Store(true)
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		require.Less(t, time.Since(start), second)
		require.Equal(t, []string{l.HolderID()}, w.owners("a"))
		require.NoError(t, l.Unlock(ctx))
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
		_, err := m.TryLock(ctx, "a")
		require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		time.Sleep(second)
		require.Empty(t, w.owners("a"))
	})
}

func TestRelease_LostReply(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{})
		warm(t, m)
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		net.lose.Store(true)
		require.NoError(t, l.Unlock(ctx), "the repeated release finds no record, which is what the caller wants")
		require.Empty(t, w.owners("a"))
	})
}
