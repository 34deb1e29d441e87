package lockmgr_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
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

// A manager 60 ms away with a lease of 1 s, and so a command time-out of 100 ms, gets its
// subscription, keeps it, and is woken by messages.
func TestSubscription_OfAFarManager(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		seen := faults.NewWitness()
		near, _ := w.manager(lockmgr.Options{Lease: second})
		far, net := w.manager(lockmgr.Options{Lease: second, Linger: 10 * milli, Observer: seen.Observe})
		net.delay.Store(int64(60 * milli))
		defer func() {
			net.delay.Store(0)
			time.Sleep(second)
		}()
		for round := range 20 {
			held := mustLock(t, near, "a")
			f := far.LockAsync("a")
			time.Sleep(700 * milli)
			unlocked := time.Now()
			mustUnlock(t, held)
			l := mustAwait(t, f)
			require.LessOrEqual(t, time.Since(unlocked), 300*milli, "round %d: a message and a try", round)
			mustUnlock(t, l)
			time.Sleep(500 * milli) // the subscription ends
		}
		var states []string
		faults.Count(seen, func(e lockmgr.EventSubscription) bool { states = append(states, e.State); return true })
		require.Equal(t, []string{"connecting", "connected"}, states)
	})
}

// Check waits for its subscription for longer than a command may take, because a subscription takes
// several round trips.
func TestCheck_OfAFarServerFindsItsSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, net := w.manager(lockmgr.Options{Lease: second})
		net.delay.Store(int64(40 * milli))
		for _, warning := range must(m.Check(ctx, "a"))(t).Warnings {
			require.NotContains(t, warning, "subscription")
		}
	})
}

// Two managers share a client whose pool has one connection. The second one gets no subscription:
// it says so, polls, and its Close does not hang.
func TestServer_PoolOfOne(t *testing.T) {
	s := redistest.Start(t)
	opt := lockmgr.TuneClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}})
	opt.BlockingPoolSize = 1
	client := must(rueidis.NewClient(opt))(t)
	defer client.Close()
	first := must(lockmgr.New(client, lockmgr.Options{}))(t)
	second := must(lockmgr.New(client, lockmgr.Options{}))(t)

	other := dial(t, s.Addr(), lockmgr.Options{})
	for _, name := range []string{"a", "b"} {
		mustLock(t, other, name)
	}
	forB := first.LockAsync("b")
	faults.Eventually(t, func() bool {
		return strings.HasSuffix(faults.Do(t, s, "PUBSUB", "NUMSUB", "redisson_lock__channel:{b}"), "1")
	})
	forA := second.LockAsync("a")
	faults.Eventually(t, func() bool { return second.Stats().Subscriptions == 3 })
	must(other.ForceUnlock(faults.Patient(t), "a"))(t)
	mustUnlock(t, must(forA.Await(faults.Patient(t)))(t, "it polls"))

	begin := time.Now()
	mustClose(t, second)
	require.Less(t, time.Since(begin), faults.Patience/2)
	forB.Cancel()
	mustClose(t, first)
}

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
	inBubble(t, "one server", func(t *testing.T, w *scene) {
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
