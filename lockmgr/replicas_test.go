package lockmgr_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// acked are options for grants that a replica has.
func acked(n int) lockmgr.Options {
	return lockmgr.Options{Replicas: lockmgr.Replicas{Acks: n, Timeout: 5 * time.Second}}
}

// A lock of any kind is on the replicas when it is granted.
func TestReplicas_HaveWhatIsGranted(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicas(t, 2)
	m := dial(t, servers[0].Addr(), acked(2))
	ctx := faults.Patient(t)
	for i := range 20 {
		for kind, take := range map[string]func(name string) (*lockmgr.Lock, error){
			"plain":   func(name string) (*lockmgr.Lock, error) { return m.Lock(ctx, name) },
			"fenced":  func(name string) (*lockmgr.Lock, error) { return m.Lock(ctx, name, lockmgr.Fenced()) },
			"try":     func(name string) (*lockmgr.Lock, error) { return m.TryLock(ctx, name) },
			"read":    func(name string) (*lockmgr.Lock, error) { return m.Lock(ctx, name, lockmgr.Shared()) },
			"write":   func(name string) (*lockmgr.Lock, error) { return m.Lock(ctx, name, lockmgr.Exclusive()) },
			"fair":    func(name string) (*lockmgr.Lock, error) { return m.Lock(ctx, name, lockmgr.Fair()) },
			"permits": func(name string) (*lockmgr.Lock, error) { return m.Permits(name, 3).Acquire(ctx, 2) },
			"several": func(name string) (*lockmgr.Lock, error) {
				return m.LockAll(ctx, lockmgr.Set{Names: []string{name, name + "2"}})
			},
			"fixed": func(name string) (*lockmgr.Lock, error) {
				return m.Lock(ctx, name, lockmgr.FixedLease(10*time.Second))
			},
		} {
			name := kind + string(rune('a'+i))
			l, err := take(name)
			require.NoError(t, err, kind)
			key := name
			if kind == "permits" {
				key = "{" + name + "}:timeout"
			}
			for _, s := range servers[1:] {
				require.Equal(t, "1", faults.Do(t, s, "EXISTS", key), kind)
			}
			require.True(t, l.Valid())
			require.NoError(t, l.Unlock(ctx))
		}
	}
}

// While the replica is stopped, requests fail and leave nothing. What was held before stays.
func TestReplicas_TooFew(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicas(t, 1)
	o := acked(1)
	o.Lease, o.CommandTimeout, o.Replicas.Timeout = 3*time.Second, 900*time.Millisecond, 800*time.Millisecond
	m, other := dial(t, servers[0].Addr(), o), dial(t, servers[0].Addr(), lockmgr.Options{})
	ctx := faults.Patient(t)
	held, err := m.Lock(ctx, "held")
	require.NoError(t, err)

	servers[1].Freeze()
	// A wait that is shorter than Replicas.Timeout is told the same.
	wait := lockmgr.MaxWait(o.Replicas.Timeout / 2)
	_, err = m.Lock(ctx, "short", wait)
	require.ErrorIs(t, err, lockmgr.ErrReplicas)
	require.NotErrorIs(t, err, lockmgr.ErrNotAcquired)
	_, err = m.LockAll(ctx, lockmgr.All("short1", "short2"), wait)
	require.ErrorIs(t, err, lockmgr.ErrReplicas)
	_, err = m.Permits("shortp", 2).Acquire(ctx, 1, wait)
	require.ErrorIs(t, err, lockmgr.ErrReplicas)
	short, cancel := context.WithTimeout(ctx, o.Replicas.Timeout/2)
	_, err = m.Lock(short, "short3")
	cancel()
	require.ErrorIs(t, err, lockmgr.ErrReplicas)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	waiting := m.LockAsync("a")
	for range 2 {
		begin := time.Now()
		_, err = m.Lock(ctx, "a")
		require.ErrorIs(t, err, lockmgr.ErrReplicas)
		require.NotErrorIs(t, err, lockmgr.ErrUnavailable)
		t.Logf("refused after %v: %v", time.Since(begin), err)
		_, err = m.TryLock(ctx, "b", lockmgr.Fair())
		require.ErrorIs(t, err, lockmgr.ErrReplicas)
		_, err = m.Permits("p", 2).Acquire(ctx, 1)
		require.ErrorIs(t, err, lockmgr.ErrReplicas)
	}
	_, err = waiting.Await(ctx)
	require.ErrorIs(t, err, lockmgr.ErrReplicas)
	for _, name := range []string{"a", "b"} { // given back
		l, err := other.Lock(ctx, name, lockmgr.MaxWait(o.Lease/2))
		require.NoError(t, err)
		require.NoError(t, l.Unlock(ctx))
	}
	begin := time.Now()
	for time.Since(begin) < o.Lease { // renewals go on
		require.True(t, held.Valid())
		time.Sleep(50 * time.Millisecond)
	}
	servers[1].Thaw()
	require.Eventually(t, func() bool {
		l, err := m.TryLock(ctx, "a")
		return err == nil && l.Unlock(ctx) == nil
	}, 10*time.Second, 50*time.Millisecond)
	require.NoError(t, held.Unlock(ctx))
}

// A hold survives a failover right after its grant.
func TestReplicas_FailoverKeepsTheLock(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	o := acked(1)
	o.RetryTime = 20 * time.Second
	m := dialCluster(t, c, o)
	ctx := faults.Patient(t)
	owner := c.Owner("a")
	var held []*lockmgr.Lock
	for i := range 50 {
		l, err := m.Lock(ctx, "{a}"+string(rune('A'+i)))
		require.NoError(t, err)
		held = append(held, l)
	}
	owner.Kill()
	require.Eventually(t, func() bool { now := c.Owner("a"); return now != nil && now != owner }, 15*time.Second, 20*time.Millisecond)
	for _, l := range held {
		require.Equal(t, "1", faults.Do(t, c.Owner("a"), "EXISTS", l.Name()))
		require.NoError(t, l.Unlock(ctx))
	}
	_, err := m.Lock(ctx, "a") // the new master has no replica
	require.ErrorIs(t, err, lockmgr.ErrReplicas)
}

// Check tells that the user may not WAIT, and that there are too few replicas.
func TestReplicas_Check(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t).Unrestricted()
	m := dial(t, s.Addr(), acked(1))
	ctx := faults.Patient(t)
	report, err := m.Check(ctx, "a")
	require.ErrorIs(t, err, lockmgr.ErrReplicas)
	require.Contains(t, report.Warnings, "replicas that are connected: 0; replicas that a lock waits for: 1. Requests fail with ErrReplicas")
	faults.Do(t, s, "ACL", "SETUSER", "default", "-wait")
	report, err = m.Check(ctx, "a")
	require.ErrorIs(t, err, lockmgr.ErrPermission)
	require.Len(t, report.Missing, 1)
	require.Equal(t, "+wait", report.Missing[0].Rule)
	_, err = m.Lock(ctx, "a")
	require.ErrorIs(t, err, lockmgr.ErrPermission)
}

// In a cluster Check waits for the replicas of each master.
func TestReplicas_CheckOfEachMaster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	o := acked(1)
	o.Replicas.Timeout = 500 * time.Millisecond
	m := dialCluster(t, c, o)
	ctx := faults.Patient(t)
	_, err := m.Check(ctx, "check:")
	require.NoError(t, err)
	var slow *redistest.Server
	for _, n := range c.Nodes {
		if info := faults.Do(t, n, "INFO", "replication"); strings.Contains(info, "role:slave") {
			slow = n
		}
	}
	_, port, _ := strings.Cut(faults.Do(t, slow, "INFO", "replication"), "master_port:")
	port, _, _ = strings.Cut(port, "\r\n")
	slow.Freeze()
	for range 6 { // the names are random
		_, err = m.Check(ctx, "check:")
		require.ErrorIs(t, err, lockmgr.ErrReplicas)
		require.ErrorContains(t, err, "check of the master at 127.0.0.1:"+port+":")
	}
}

// A program uses up the pool of the client that it gave to New. Grants that need replicas fail after a
// time, and Close returns.
func TestReplicas_PoolIsUsedUp(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicas(t, 1)
	client, err := rueidis.NewClient(lockmgr.TuneClient(rueidis.ClientOption{InitAddress: []string{servers[0].Addr()}, BlockingPoolSize: 2}))
	require.NoError(t, err)
	ctx, end := context.WithCancel(faults.Patient(t))
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() { client.Do(ctx, client.B().Blpop().Key("queue").Timeout(0).Build()) })
	}
	faults.Eventually(t, func() bool {
		return strings.Contains(faults.Do(t, servers[0], "INFO", "clients"), "blocked_clients:2")
	}, "both connections are used")
	o := acked(1)
	o.Lease, o.RetryTime = 6*time.Second, time.Second
	o.Replicas.Timeout = 500 * time.Millisecond
	m, err := lockmgr.New(client, o)
	require.NoError(t, err)
	begin := time.Now()
	_, err = m.TryLock(faults.Patient(t), "a")
	require.ErrorIs(t, err, lockmgr.ErrReplicas)
	require.ErrorContains(t, err, "BlockingPoolSize")
	require.Less(t, time.Since(begin), 5*time.Second)
	f := m.LockAsync("b")
	require.NoError(t, m.Close(faults.Patient(t)))
	_, err = f.Await(faults.Patient(t))
	require.Error(t, err)
	end()
	client.Close()
	workers.Wait()
}

// A manager of New opens a connection for WAIT.
func TestReplicas_WithABorrowedClient(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicas(t, 1)
	client, err := rueidis.NewClient(lockmgr.TuneClient(rueidis.ClientOption{InitAddress: []string{servers[0].Addr()}}))
	require.NoError(t, err)
	defer client.Close()
	m, err := lockmgr.New(client, acked(1))
	require.NoError(t, err)
	ctx := faults.Patient(t)
	for range 20 {
		l, err := m.Lock(ctx, "a")
		require.NoError(t, err)
		require.Equal(t, "1", faults.Do(t, servers[1], "EXISTS", "a"))
		require.NoError(t, l.Unlock(ctx))
	}
	servers[1].Freeze()
	f := m.LockAsync("b")
	time.Sleep(50 * time.Millisecond) // a WAIT is under way
	begin := time.Now()
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, m.Close(short), context.DeadlineExceeded)
	require.Less(t, time.Since(begin), 3*time.Second, "Close cuts the wait of five seconds off")
	_, err = f.Await(ctx)
	require.Error(t, err)
}
