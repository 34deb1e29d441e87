package lockmgr_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// makeForeign replaces a node by one of another cluster, which serves all slots by itself.
func makeForeign(t *testing.T, n *redistest.Server) {
	t.Helper()
	n.Restart()
	faults.Do(t, n, "CLUSTER", "RESET", "HARD")
	faults.Do(t, n, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
}

// A master may become the node of another cluster while connections to it stay open. No script does
// anything there.
func TestCluster_NodeBecomesForeignUnseen(t *testing.T) {
	t.Parallel()
	for what, dial := range map[string]func(testing.TB, *redistest.Cluster, lockmgr.Options) *lockmgr.Manager{
		"Dial": dialCluster,
		"New": func(t testing.TB, c *redistest.Cluster, o lockmgr.Options) *lockmgr.Manager {
			client := must(rueidis.NewClient(lockmgr.TuneClient(rueidis.ClientOption{InitAddress: c.Addrs()})))(t)
			t.Cleanup(client.Close)
			m := must(lockmgr.New(client, o))(t)
			t.Cleanup(func() { _ = m.Close(context.Background()) })
			return m
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := redistest.StartCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
			ctx := faults.Patient(t)
			m := dial(t, c, lockmgr.Options{RetryTime: time.Second})
			stolen := c.Nodes[1]
			names := namesOn(c, 3)[stolen]
			l := must(m.Lock(ctx, names[0]))(t)
			for _, words := range [][]string{{"FLUSHALL"}, {"CLUSTER", "RESET", "HARD"}, {"CLUSTER", "ADDSLOTSRANGE", "0", "16383"}} {
				faults.Do(t, stolen, words...)
			}
			require.Eventually(t, func() bool { return strings.Contains(faults.Do(t, stolen, "CLUSTER", "INFO"), "cluster_state:ok") }, faults.Patience, 10*time.Millisecond)
			faults.Do(t, stolen, "HSET", names[1], "theirs:1", "1")
			require.ErrorIs(t, errOf(m.TryLock(ctx, names[2])), lockmgr.ErrUnavailable)
			require.ErrorIs(t, errOf(m.ForceUnlock(ctx, names[1])), lockmgr.ErrUnavailable)
			require.ErrorIs(t, errOf(m.Inspect(ctx, names[1])), lockmgr.ErrUnavailable)
			require.Error(t, l.Unlock(ctx))
			// A slow machine may have written the record of the manager since.
			for _, name := range []string{names[0], names[2]} {
				require.Equal(t, "0", faults.Do(t, stolen, "EXISTS", name), name)
			}
			require.Equal(t, "theirs:1\n1", faults.Do(t, stolen, "HGETALL", names[1]))
		})
	}
}

// The address of a master may come to belong to a node of another cluster. Managers go on with
// their own cluster, also one that knew no other address at first. No lock at another master is
// lost, and none is granted twice.
func TestCluster_NodeOfAnotherCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1, "--cluster-node-timeout", "500")
	names := namesOn(c, 3)
	stolen := c.Nodes[0]
	o := lockmgr.Options{Lease: 3 * time.Second}
	ctx := faults.Patient(t)
	holder, other := dialTroubled(t, stolen.Addr(), o), dialCluster(t, c, o)
	var held []*lockmgr.Lock
	for owner, all := range names {
		for _, name := range all {
			l := must(holder.Lock(ctx, name))(t)
			if owner != stolen {
				held = append(held, l)
			}
		}
	}
	stolen.Kill()
	require.Eventually(t, func() bool { // before its address is used again: the others would take it for alive
		owner := c.Owner(names[stolen][0])
		return owner != nil && owner != stolen
	}, 20*time.Second, 10*time.Millisecond)
	makeForeign(t, stolen)

	end := time.Now().Add(8 * time.Second)
	for time.Now().Before(end) {
		for _, l := range held {
			require.NoError(t, l.Err(), "held at a healthy master")
			require.Error(t, errOf(other.TryLock(ctx, l.Name())), "another manager got a lock that is held")
		}
		for _, name := range names[stolen] {
			for _, m := range []*lockmgr.Manager{holder, other} {
				l := must(m.Lock(ctx, "{"+name+"}:other"))(t, "the replica has taken over")
				require.NoError(t, l.Unlock(ctx))
			}
		}
		require.Equal(t, "0", faults.Do(t, stolen, "DBSIZE"), "a record at the other cluster")
		time.Sleep(50 * time.Millisecond)
	}
	mustUnlock(t, held...)
}

// Without a replica the address stays that of the master. Its names fail with ErrUnavailable after
// RetryTime, those of other masters work, and Check and the log tell which node it is.
func TestCluster_NodeOfAnotherClusterStays(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	names := namesOn(c, 2)
	stolen := c.Nodes[1]
	var log lockedBuffer
	o := lockmgr.Options{RetryTime: 3 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	ctx := faults.Patient(t)
	m := dialTroubled(t, stolen.Addr(), o)
	held := map[string]*lockmgr.Lock{}
	for _, all := range names {
		held[all[0]] = mustLock(t, m, all[0])
	}
	require.NoError(t, errOf(m.Check(ctx, "check:")))
	makeForeign(t, stolen)

	for range 2 {
		for owner, all := range names {
			begin := time.Now()
			l, err := m.Lock(ctx, all[1])
			if owner == stolen {
				require.ErrorIs(t, err, lockmgr.ErrUnavailable)
				require.Less(t, time.Since(begin), 3*o.RetryTime, "RetryTime, and some for a busy machine")
				continue
			}
			mustUnlock(t, must(l, err)(t))
		}
	}
	_, err := m.Check(ctx, "check:")
	require.ErrorIs(t, err, lockmgr.ErrTopology)
	require.ErrorContains(t, err, stolen.Addr())
	for range 5 { // which seed answers first is a matter of luck
		started := dialCluster(t, c, o)
		for owner, all := range names {
			if owner != stolen {
				require.ErrorIs(t, errOf(started.TryLock(ctx, all[0])), lockmgr.ErrNotAcquired, "it is held")
			}
		}
	}
	require.ErrorIs(t, errOf(lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{stolen.Addr(), c.Nodes[0].Addr()}}, o)), lockmgr.ErrTopology, "as many of one cluster as of the other")
	require.Contains(t, log.String(), "another node answers at the address of this master")
	require.Equal(t, "0", faults.Do(t, stolen, "DBSIZE"))
	for owner, all := range names {
		if owner != stolen {
			require.NoError(t, held[all[0]].Unlock(ctx))
		}
	}
	stolen.Kill()
	require.ErrorIs(t, errOf(m.Check(ctx, "check:")), lockmgr.ErrUnavailable, "nobody is at that address any more")
}

// A cluster loses most of its masters, and an administrator gives their slots to the one that is
// left. The manager goes on with that one.
func TestCluster_OneMasterIsLeft(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	names := namesOn(c, 2)
	m := dialCluster(t, c, lockmgr.Options{})
	ctx := faults.Patient(t)
	for _, all := range names {
		require.NoError(t, errOf(m.Lock(ctx, all[0])))
	}
	left := c.Nodes[0]
	var gone []string
	for _, n := range c.Nodes[1:] {
		gone = append(gone, faults.Do(t, n, "CLUSTER", "MYID"))
		n.Kill()
	}
	for _, id := range gone {
		faults.Do(t, left, "CLUSTER", "FORGET", id)
	}
	faults.Do(t, left, "CLUSTER", "ADDSLOTSRANGE", "5461", "16383")
	for _, all := range names {
		mustUnlock(t, must(m.Lock(ctx, all[1]))(t))
	}
}

// A slot may be on its way to a master whose address leads to another cluster. A redirection to
// there grants nothing.
func TestCluster_RedirectionToAnotherCluster(t *testing.T) {
	t.Parallel()
	c, other := redistest.StartCluster(t, 3, 0), redistest.StartCluster(t, 1, 0)
	name := c.Movable(t, "ask-%d")
	m := c.BeginMove(t, name)
	stranger := other.Nodes[0].Addr()
	faults.Eventually(t, func() bool {
		return strings.Contains(faults.Do(t, other.Nodes[0], "CLUSTER", "INFO"), "cluster_state:ok")
	}, "the other cluster serves")
	var stolen atomic.Bool
	manager := dialOption(t, rueidis.ClientOption{
		InitAddress: []string{m.From.Addr()},
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if stolen.Load() && addr == m.To.Addr() {
				addr = stranger
			}
			return d.DialContext(ctx, "tcp", addr)
		},
	}, lockmgr.Options{RetryTime: time.Second})
	stolen.Store(true)
	faults.Do(t, m.To, "CLIENT", "KILL", "TYPE", "normal")
	require.ErrorIs(t, errOf(manager.Lock(faults.Patient(t), name)), lockmgr.ErrUnavailable)
}
