package lockmgr_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// Names that are only remembered are bounded too: there are at most MaxLocks of them, besides those
// that are held or waited for. Remembered names keep no other name out.
func TestName_RememberedOnesHaveABound(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		const most = 3
		other, _ := w.manager(lockmgr.Options{})
		m, _ := w.manager(lockmgr.Options{MaxLocks: most, Linger: time.Hour})
		name := func(i int) string { return fmt.Sprint("remembered:", i) }
		for i := range 2 * most {
			l := mustLock(t, other, name(i))
			f := m.LockAsync(name(i))
			time.Sleep(second) // it subscribes
			mustUnlock(t, l)
			mustUnlock(t, mustAwait(t, f))
		}
		require.Equal(t, 2*most, m.Stats().Locks, "their subscriptions linger")
		require.ErrorIs(t, errOf(m.TryLock(ctx, "another")), lockmgr.ErrOverloaded)
		mustUnlock(t, must(m.TryLock(ctx, name(0)))(t, "a name that is known"))
	})
}

// A closed client stays closed, so a request fails at once and not after RetryTime.
func TestError_ClosedClientIsFinal(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		n := &network{server: w.server}
		client := must(rueidis.NewClient(lockmgr.TuneClient(rueidis.ClientOption{InitAddress: []string{"pipe:0"}, DialCtxFn: n.dial})))(t)
		m := must(lockmgr.New(client, lockmgr.Options{RetryTime: time.Hour}))(t)
		client.Close()
		start := time.Now()
		_, err := m.Lock(ctx, "a")
		requireServerError(t, lockmgr.ErrUnavailable, err)
		require.ErrorIs(t, err, rueidis.ErrClosing)
		require.ErrorContains(t, err, "the client was closed")
		require.Less(t, time.Since(start), second)
		require.ErrorIs(t, m.Close(ctx), lockmgr.ErrUnavailable, "what may have run cannot be released")
	})
}
