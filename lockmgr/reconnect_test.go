package lockmgr_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

type dialFunc = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// slowly returns a function that dials as dial does after a time. As any dial, it ends with its
// context.
func slowly(takes *atomic.Int64, dial dialFunc) dialFunc {
	return func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		select {
		case <-time.After(time.Duration(takes.Load())):
			return dial(ctx, addr, d, config)
		case <-ctx.Done():
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
		}
	}
}

// slowManager starts a manager. Each dial takes a time, from the call of slow on.
func (w *scene) slowManager(o lockmgr.Options) (m *lockmgr.Manager, n *network, slow func(takes time.Duration)) {
	n = &network{server: w.server}
	var takes atomic.Int64
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{"pipe:0"}, ForceSingleClient: true, DialCtxFn: slowly(&takes, n.dial)}, o)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { mustClose(w.t, m) })
	return m, n, func(d time.Duration) { takes.Store(int64(d)) }
}

// A dial takes longer than a command may. The manager connects again all the same, and keeps its
// locks.
func TestReconnect_DialTakesLongerThanACommand(t *testing.T) {
	t.Parallel()
	o := lockmgr.Options{Lease: 6 * second, CommandTimeout: 400 * milli}
	const takes = 600 * milli
	t.Run("one server", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *scene) {
			m, n, slow := w.slowManager(o)
			held := mustLock(t, m, "held")
			slow(takes)
			n.cut()
			n.heal()
			time.Sleep(milli)
			begin := time.Now()
			l := mustLock(t, m, "a")
			require.Less(t, time.Since(begin), 2*takes)
			mustUnlock(t, l)
			time.Sleep(10 * o.Lease)
			require.True(t, held.Valid())
			mustUnlock(t, held)
		})
	})
	t.Run("a cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t, 3, 0)
		var slow atomic.Int64
		dial := func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", addr)
		}
		m := must(lockmgr.Dial(rueidis.ClientOption{InitAddress: c.Addrs(), DialCtxFn: slowly(&slow, dial)}, o))(t)
		defer func() { mustClose(t, m) }()
		name := namesOn(c, 2)[c.Nodes[0]]
		held := mustLock(t, m, name[0])
		slow.Store(int64(takes))
		before := m.Stats().Renewals
		faults.Do(t, c.Nodes[0], "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		mustUnlock(t, mustLock(t, m, name[1]))
		faults.Eventually(t, func() bool { return m.Stats().Renewals > before }, "a renewal")
		mustUnlock(t, held)
	})
}

// The command that finds no connection runs into its time-out. Commands that wait for the same dial
// do not fail with it: TryLock would, at its first failure.
func TestReconnect_CommandEndsNoDial(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, n, slow := w.slowManager(lockmgr.Options{Lease: 9 * second, CommandTimeout: second})
		slow(1200 * milli)
		n.cut()
		n.heal()
		time.Sleep(milli)
		var all sync.WaitGroup
		all.Go(func() {
			require.ErrorIs(t, errOf(m.Inspect(ctx, "a")), lockmgr.ErrUnavailable)
		})
		time.Sleep(800 * milli)
		for _, name := range []string{"a", "b", "c"} {
			all.Go(func() {
				mustUnlock(t, mustTryLock(t, m, name))
			})
		}
		all.Wait()
	})
}
