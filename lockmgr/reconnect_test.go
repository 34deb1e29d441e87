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

// A slowNetwork is a network on which a dial takes a time. As any dial does, it ends with its context.
type slowNetwork struct {
	takes atomic.Int64 // nanoseconds
	began atomic.Int64 // dials
}

func (n *slowNetwork) dial(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	n.began.Add(1)
	select {
	case <-time.After(time.Duration(n.takes.Load())):
		return d.DialContext(ctx, "tcp", addr)
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
	}
}

// slowManagers calls test with a manager of one server and with one of a cluster, whose connections have
// ended and whose dials take a time from then on. The manager has used all names of test before.
func slowManagers(t *testing.T, o lockmgr.Options, takes time.Duration, test func(*testing.T, *lockmgr.Manager, *slowNetwork, []string)) {
	s, c := redistest.Start(t), redistest.StartCluster(t, 3, 0)
	for name, at := range map[string]struct {
		addrs []string
		nodes []*redistest.Server
		names []string // all at one server
	}{
		"one server": {[]string{s.Addr()}, []*redistest.Server{s}, []string{"a", "b", "c", "d", "e"}},
		"a cluster":  {c.Addrs(), c.Nodes, namesOn(c, 5)[c.Nodes[0]]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &slowNetwork{}
			m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: at.addrs, DialCtxFn: n.dial}, o)
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Close(faults.Patient(t))) }()
			for _, name := range at.names {
				l, err := m.Lock(faults.Patient(t), name)
				require.NoError(t, err)
				require.NoError(t, l.Unlock(faults.Patient(t)))
			}
			n.takes.Store(int64(takes))
			before := n.began.Load()
			for _, node := range at.nodes {
				faults.Do(t, node, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			}
			test(t, m, n, at.names)
			require.Less(t, n.began.Load()-before, int64(30), "dials")
		})
	}
}

// A dial takes longer than a command may. The manager connects again all the same, and locks are kept.
func TestReconnect_DialTakesLongerThanACommand(t *testing.T) {
	t.Parallel()
	o := lockmgr.Options{Lease: 6 * time.Second, CommandTimeout: 400 * time.Millisecond}
	slowManagers(t, o, 3*o.CommandTimeout/2, func(t *testing.T, m *lockmgr.Manager, _ *slowNetwork, names []string) {
		for _, name := range names[:2] {
			l, err := m.Lock(faults.Patient(t), name)
			require.NoError(t, err)
			require.True(t, l.Valid())
			require.NoError(t, l.Unlock(faults.Patient(t)))
		}
	})
}

// The command that finds no connection runs into its time-out. Commands that wait for the same dial do not
// fail with it: TryLock would, at its first failure.
func TestReconnect_CommandEndsNoDial(t *testing.T) {
	t.Parallel()
	o := lockmgr.Options{Lease: 9 * time.Second, CommandTimeout: 2 * time.Second}
	slowManagers(t, o, 5*o.CommandTimeout/4, func(t *testing.T, m *lockmgr.Manager, n *slowNetwork, names []string) {
		before := n.began.Load()
		var first, others sync.WaitGroup
		first.Go(func() {
			for n.began.Load() == before { // the first may be sent before the client knows that the connection has ended
				_, _ = m.Inspect(faults.Patient(t), names[0])
			}
		})
		faults.Eventually(t, func() bool { return n.began.Load() > before }, "a dial")
		time.Sleep(o.CommandTimeout / 2)
		for _, name := range names[1:] {
			others.Go(func() {
				l, err := m.TryLock(faults.Patient(t), name)
				require.NoError(t, err)
				require.NoError(t, l.Unlock(faults.Patient(t)))
			})
		}
		first.Wait()
		others.Wait()
	})
}
