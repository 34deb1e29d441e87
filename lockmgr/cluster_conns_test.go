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

// A manager that is closed while a stopped master owes it the answer to the first words of a
// connection does not wait for that answer, although a question in the background does.
func TestClose_DuringAGreetingOfAStoppedMaster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	stopped, dials := c.Nodes[0], atomic.Int32{}
	m := must(lockmgr.Dial(rueidis.ClientOption{
		InitAddress: c.Addrs(), Dialer: net.Dialer{Timeout: faults.Patience}, ConnWriteTimeout: faults.Patience,
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if addr == stopped.Addr() {
				dials.Add(1)
			}
			return d.DialContext(ctx, "tcp", addr)
		},
	}, lockmgr.Options{}))(t)
	names := namesOn(c, 1)
	for _, names := range names {
		mustUnlock(t, mustLock(t, m, names[0]))
	}
	faults.Do(t, stopped, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	stopped.Freeze()
	defer stopped.Thaw()
	before := dials.Load()
	var asking sync.WaitGroup
	asking.Go(func() { _, _ = m.Inspect(faults.Patient(t), names[stopped][0]) })
	faults.Eventually(t, func() bool { return dials.Load() > before }, "a dial")
	begin := time.Now()
	mustClose(t, m)
	require.Less(t, time.Since(begin), faults.Patience/2, "the time-outs of a dial are faults.Patience")
	asking.Wait()
}

// Dial ignores BlockingPoolSize. With one connection in the pool, a wait for replicas would not end
// while somebody waits for a message.
func TestDial_BlockingPoolSizeOfACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	ctx := faults.Patient(t)
	m := must(lockmgr.Dial(rueidis.ClientOption{InitAddress: c.Addrs(), BlockingPoolSize: 1}, acked(1)))(t)
	held := mustLock(t, dialCluster(t, c, lockmgr.Options{}), "x")
	waiting := m.LockAsync("x")
	awaitSubscribers(t, c.Owner("x"), false)
	for _, name := range []string{"{x}2", "{x}3"} {
		soon, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		mustUnlock(t, must(m.Lock(soon, name))(t))
	}
	waiting.Cancel()
	mustClose(t, m)
	mustUnlock(t, held)
}

// The connection for messages at a master that has left is closed, also if nobody watches a channel
// when the slots move.
func TestCluster_ConnectionToAMasterThatLeft(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	m := dialCluster(t, c, lockmgr.Options{})
	ctx := faults.Patient(t)
	master, replica := c.Nodes[0], c.Nodes[3]
	name := namesOn(c, 1)[master][0]
	mustLock(t, m, name)
	waiting := dialCluster(t, c, lockmgr.Options{}).LockAsync(name)
	awaitSubscribers(t, master, false)
	connections := func() int {
		return strings.Count(faults.Do(t, master, "CLIENT", "LIST", "TYPE", "normal")+faults.Do(t, master, "CLIENT", "LIST", "TYPE", "pubsub"), "addr=")
	}
	before := connections()
	faults.Do(t, replica, "CLUSTER", "FAILOVER")
	require.Eventually(t, func() bool {
		_, _ = m.TryLock(ctx, name) // it shows that the slot has moved
		return c.Owner(name) == replica && connections() < before
	}, 40*time.Second, 50*time.Millisecond)
	awaitSubscribers(t, replica, false)
	waiting.Cancel()
}
