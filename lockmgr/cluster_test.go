package lockmgr_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
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
	wires "github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// namesOn returns names whose slots each master serves, some for each.
func namesOn(c *redistest.Cluster, each int) map[*redistest.Server][]string {
	out := map[*redistest.Server][]string{}
	for i := 0; ; i++ {
		name := fmt.Sprintf("job-%d", i)
		owner := c.Owner(name)
		if len(out[owner]) < each {
			out[owner] = append(out[owner], name)
		}
		full := 0
		for _, names := range out {
			if len(names) == each {
				full++
			}
		}
		if full == c.Masters {
			return out
		}
	}
}

// startMasters starts a cluster of three masters, and connects two managers. The test is parallel.
func startMasters(t *testing.T, o lockmgr.Options) (c *redistest.Cluster, m, other *lockmgr.Manager) {
	t.Helper()
	t.Parallel()
	c = redistest.StartCluster(t, 3, 0)
	return c, dialCluster(t, c, o), dialCluster(t, c, o)
}

var allChannels = []lockmgr.Channels{lockmgr.ShardedChannels, lockmgr.ClassicChannels}

// All kinds of locks work on all shards. A waiter of another manager is woken by a message, long
// before it would poll.
func TestCluster_EveryKind(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	for _, key := range []string{"a", "{a}b", "a{b}c{d}", "{}a", "a{", "a}", "a{}{b}", "a{{b}}c", "}a{", "é\x00", strings.Repeat("x", 300)} {
		require.Equal(t, faults.Do(t, c.Nodes[0], "CLUSTER", "KEYSLOT", key), strconv.Itoa(wires.SlotOf(key)), key)
	}
	for _, channels := range allChannels {
		t.Run(fmt.Sprintf("channels=%d", channels), func(t *testing.T) {
			o := lockmgr.Options{Channels: channels}
			m, other := dialCluster(t, c, o), dialCluster(t, c, o)
			ctx := faults.Patient(t)
			for owner, names := range namesOn(c, 2) {
				for _, name := range names {
					for kind, opts := range map[string][]lockmgr.LockOption{
						"plain": nil, "fenced": {lockmgr.Fenced()}, "shared": {lockmgr.Shared()}, "exclusive": {lockmgr.Exclusive()}, "fair": {lockmgr.Fair()},
					} {
						name := fmt.Sprintf("%s:{%s}", kind, name)
						l := must(m.Lock(ctx, name, opts...))(t, name)
						if kind == "shared" {
							opts = []lockmgr.LockOption{lockmgr.Exclusive()}
						}
						f := other.LockAsync(name, opts...)
						if channels != lockmgr.ClassicChannels {
							awaitSubscribers(t, owner, false)
						}
						if channels != lockmgr.ShardedChannels {
							awaitSubscribers(t, owner, true)
						}
						mustUnlock(t, mustPass(t, l, other, f))
						require.Empty(t, ownKeys(t, c, name))
					}
					mustUnlock(t, mustTryLock(t, m, name, lockmgr.KeepFor(time.Minute)))
					require.ErrorIs(t, errOf(other.TryLock(ctx, name)), lockmgr.ErrNotAcquired)
					require.True(t, must(other.ForceUnlock(ctx, name))(t))
					p := "permits:{" + name + "}"
					l := mustAcquire(t, m.Permits(p, 2), 2)
					mustUnlock(t, l)
					set := lockmgr.Set{Names: []string{"{" + name + "}1", "{" + name + "}2"}, Shared: []string{"{" + name + "}3"}}
					l = mustLockAll(t, m, set)
					require.ErrorIs(t, errOf(other.TryLock(ctx, "{"+name+"}2")), lockmgr.ErrNotAcquired)
					mustUnlock(t, l)
					require.Zero(t, mustInspect(t, m, name).TTL)
				}
			}
		})
	}
}

// awaitSubscribers waits until a node has a channel with a subscriber.
func awaitSubscribers(t *testing.T, s *redistest.Server, classic bool) {
	t.Helper()
	sub := "SHARDCHANNELS"
	if classic {
		sub = "CHANNELS"
	}
	faults.Eventually(t, func() bool {
		out, err := s.Do("PUBSUB", sub)
		return err == nil && out != ""
	})
}

// ownKeys returns what is left of a lock's record.
func ownKeys(t *testing.T, c *redistest.Cluster, name string) string {
	t.Helper()
	return must(c.Owner(name).Do("HGETALL", name))(t)
}

// After a failover waiters go on at the new master, and a hold that it knows stays.
func TestCluster_Failover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	o := lockmgr.Options{RetryTime: 20 * time.Second}
	m, other := dialCluster(t, c, o), dialCluster(t, c, o)
	// The address of a replica is enough, too: after a failover it is that of a former master.
	for _, n := range c.Nodes[3:] {
		one := must(lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{n.Addr()}}, o))(t)
		for _, names := range namesOn(c, 1) {
			mustUnlock(t, mustLock(t, one, names[0]))
		}
		mustClose(t, one)
	}
	name := "a"
	owner := c.Owner(name)
	l := mustLock(t, m, name)
	f := other.LockAsync(name)
	awaitSubscribers(t, owner, false)
	must(owner.Do("WAIT", "1", "2000"))(t)
	owner.Kill()
	faults.Eventually(t, func() bool { now := c.Owner(name); return now != nil && now != owner })
	require.True(t, l.Valid())
	awaitSubscribers(t, c.Owner(name), false)
	mustUnlock(t, mustPass(t, l, other, f))
}

// A slot that moves while somebody holds a lock in it, and somebody waits, takes both along.
func TestCluster_SlotMoves(t *testing.T) {
	c, m, other := startMasters(t, lockmgr.Options{})
	name := "a"
	for range 4 {
		from := c.Owner(name)
		to := c.Nodes[0]
		if to == from {
			to = c.Nodes[1]
		}
		l := mustLock(t, m, name)
		f := other.LockAsync(name)
		awaitSubscribers(t, from, false)
		c.Move(t, name, to)
		require.Equal(t, to, c.Owner(name))
		awaitSubscribers(t, to, false)
		require.True(t, l.Valid())
		mustUnlock(t, mustPass(t, l, other, f))
	}
}

// Names in slots that no master serves are unavailable. Others of the same manager are granted and
// renewed as before.
func TestCluster_UncoveredSlots(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	var gone atomic.Value
	gone.Store("")
	o := lockmgr.Options{Lease: 4 * time.Second, CommandTimeout: 1300 * time.Millisecond, RetryTime: time.Second} // a busy machine is no trouble
	o.Observer = func(e lockmgr.Event) {
		if e, is := e.(lockmgr.EventCommandFailed); is && e.Name != gone.Load() {
			t.Errorf("%s: %v", e.Name, e.Err)
		}
	}
	m := dialCluster(t, c, o)
	var held []*lockmgr.Lock
	names := namesOn(c, 20)
	for _, list := range names {
		held = append(held, mustLockEach(t, m, list[1:10])...)
	}
	lost := names[c.Nodes[0]][0]
	gone.Store(lost)
	slot := strconv.Itoa(wires.SlotOf(lost))
	for _, n := range c.Nodes {
		faults.Do(t, n, "CLUSTER", "DELSLOTS", slot)
	}
	begin := time.Now()
	var group sync.WaitGroup
	for _, name := range names[c.Nodes[0]][10:] {
		group.Go(func() {
			for time.Since(begin) < 4*time.Second { // some renewals
				mustUnlock(t, mustLock(t, m, name))
			}
		})
	}
	for time.Since(begin) < 4*time.Second {
		require.ErrorIs(t, errOf(m.Lock(faults.Patient(t), lost, lockmgr.MaxWait(1500*time.Millisecond))), lockmgr.ErrUnavailable)
	}
	group.Wait()
	for _, l := range held {
		require.NoError(t, l.Err(), l.Name())
		require.True(t, l.Valid(), l.Name())
	}
	for _, n := range c.Nodes {
		if n != c.Nodes[0] {
			faults.Do(t, n, "CLUSTER", "SETSLOT", slot, "NODE", faults.Do(t, c.Nodes[0], "CLUSTER", "MYID"))
		}
	}
	faults.Do(t, c.Nodes[0], "CLUSTER", "ADDSLOTS", slot)
	mustUnlock(t, mustLock(t, m, lost))
}

// Close does not wait for the greeting of a stopped master. A question in the background does.
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
	m := must(lockmgr.Dial(rueidis.ClientOption{InitAddress: c.Addrs(), BlockingPoolSize: 1}, acked(1)))(t)
	held := mustLock(t, dialCluster(t, c, lockmgr.Options{}), "x")
	waiting := m.LockAsync("x")
	awaitSubscribers(t, c.Owner("x"), false)
	for _, name := range []string{"{x}2", "{x}3"} {
		mustUnlock(t, must(m.Lock(endsIn(t, 5*time.Second), name))(t))
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
		_, _ = m.TryLock(faults.Patient(t), name) // it shows that the slot has moved
		return c.Owner(name) == replica && connections() < before
	}, 40*time.Second, 50*time.Millisecond)
	awaitSubscribers(t, replica, false)
	waiting.Cancel()
}
