package lockmgr_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/rediscluster"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// oneShard runs a cluster with one master and its replica. It returns managers that were dialled
// with the address of the master, with that of the replica, and with both.
func oneShard(t *testing.T, o lockmgr.Options) (*redistest.Cluster, map[string]*lockmgr.Manager) {
	t.Helper()
	c := redistest.StartCluster(t, 1, 1)
	managers := map[string]*lockmgr.Manager{}
	for which, addrs := range map[string][]string{"master": c.Addrs()[:1], "replica": c.Addrs()[1:], "both": c.Addrs()} {
		managers[which] = dialOption(t, rueidis.ClientOption{InitAddress: addrs}, o)
	}
	return c, managers
}

// Managers of a cluster with one master wake each other, whichever address they were dialled with.
func TestCluster_OneShardWakes(t *testing.T) {
	t.Parallel()
	for _, channels := range allChannels {
		t.Run(fmt.Sprintf("channels=%d", channels), func(t *testing.T) {
			t.Parallel()
			refused := make(chan string, 1024)
			c, managers := oneShard(t, lockmgr.Options{Channels: channels, Observer: func(e lockmgr.Event) {
				if r, ok := e.(lockmgr.EventRefused); ok {
					refused <- r.Name
				}
			}})
			for by, m := range managers {
				for at, other := range managers {
					if m == other {
						continue
					}
					for kind, opts := range map[string][]lockmgr.LockOption{"plain": nil, "exclusive": {lockmgr.Exclusive()}, "fair": {lockmgr.Fair()}} {
						name := kind + " " + by + " " + at
						l := mustLock(t, m, name, opts...)
						f := other.LockAsync(name, opts...)
						// The second try comes when the subscription is confirmed.
						for tries := 0; tries < 2; {
							if <-refused == name {
								tries++
							}
						}
						awaitSubscribers(t, c.Nodes[0], channels == lockmgr.ClassicChannels)
						mustUnlock(t, mustPass(t, l, other, f))
					}
				}
			}
		})
	}
}

// Managers of different channels do not hear each other. All the same, they get a lock in the order
// of the line.
func TestCluster_LineOfDifferentChannels(t *testing.T) {
	t.Parallel()
	for i, channels := range allChannels {
		c := redistest.StartCluster(t, 1, 0)
		others := lockmgr.Options{Channels: allChannels[1-i]}
		a, b := dialCluster(t, c, others), dialCluster(t, c, others)
		lone := dialCluster(t, c, lockmgr.Options{Channels: channels})
		for _, k := range lineKinds() {
			if k.name == "reader" { // b's request is granted together with it
				continue
			}
			t.Run(fmt.Sprint(k.name, ", channels: ", channels), func(t *testing.T) {
				t.Parallel()
				faults.Eventually(t, func() bool {
					held := mustAwait(t, k.holds(a))
					first := k.waits(lone)
					k.awaitInLine(t, c.Nodes[0], "1")
					second := k.waits(b)
					k.awaitInLine(t, c.Nodes[0], "2")
					mustUnlock(t, held)
					inOrder := true
					select {
					case <-first.Done():
					case <-second.Done(): // on a busy machine the first one is late
						inOrder = false
						mustUnlock(t, mustAwait(t, second))
					}
					mustUnlock(t, mustAwait(t, first))
					if inOrder {
						mustUnlock(t, mustAwait(t, second))
					}
					return inOrder
				}, "overtaken")
			})
		}
	}
}

// Managers of a cluster with one master follow a planned failover, and one after the master has
// died.
func TestCluster_OneShardFailover(t *testing.T) {
	t.Parallel()
	c, managers := oneShard(t, lockmgr.Options{RetryTime: 20 * time.Second})
	ctx := faults.Patient(t)
	held := map[string]*lockmgr.Lock{}
	takeAll := func() {
		for which, m := range managers {
			held[which] = must(m.Lock(ctx, which))(t, which)
		}
		must(c.Owner("a").Do("WAIT", "1", "2000"))(t)
	}
	requireAll := func() {
		for which, l := range held {
			require.NoError(t, l.Extend(ctx, 30*time.Second), which)
			require.NoError(t, l.Unlock(ctx), which)
		}
	}
	takeAll()
	faults.Do(t, c.Nodes[1], "CLUSTER", "FAILOVER")
	faults.Eventually(t, func() bool { return strings.Contains(faults.Do(t, c.Nodes[1], "INFO", "replication"), "role:master") }, "failover")
	requireAll()
	require.NoError(t, c.Agree(time.Now().Add(10*time.Second)))
	takeAll()
	c.Nodes[1].Kill()
	faults.Do(t, c.Nodes[0], "CLUSTER", "FAILOVER", "TAKEOVER")
	requireAll()
}

// A manager of a cluster with one master follows slots to a master that joins.
func TestCluster_OneShardGrows(t *testing.T) {
	t.Parallel()
	c, managers := oneShard(t, lockmgr.Options{RetryTime: 20 * time.Second})
	ctx := faults.Patient(t)
	joining := redistest.Start(t, rediscluster.Args()...).Unrestricted()
	faults.Do(t, joining, "CLUSTER", "SET-CONFIG-EPOCH", "9")
	for _, n := range c.Nodes {
		faults.Do(t, joining, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(n.Port()))
	}
	c.Nodes = append(c.Nodes, joining)
	faults.Eventually(t, func() bool {
		for _, n := range c.Nodes {
			if strings.Count(faults.Do(t, n, "CLUSTER", "NODES"), "connected") != len(c.Nodes) {
				return false
			}
		}
		return strings.Contains(faults.Do(t, joining, "CLUSTER", "INFO"), "cluster_state:ok")
	}, "it joins")
	for which, m := range managers {
		l := mustLock(t, m, which)
		f := managers["both"].LockAsync(which)
		c.Move(t, which, joining)
		require.NoError(t, l.Extend(ctx, 30*time.Second), which)
		require.NoError(t, l.Unlock(ctx), which)
		mustUnlock(t, mustAwait(t, f))
		mustUnlock(t, must(m.Lock(ctx, which, lockmgr.Fair()))(t, which))
	}
}
