package lockmgr_test

import (
	"context"
	"fmt"
	"strconv"
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

// startReplica starts a master with one replica, and connects a manager. The test is parallel.
func startReplica(t *testing.T, o lockmgr.Options) (master, replica *redistest.Server, m *lockmgr.Manager) {
	t.Helper()
	t.Parallel()
	servers := redistest.StartReplicas(t, 1)
	return servers[0], servers[1], dial(t, servers[0].Addr(), o)
}

// A lock of any kind is on the replicas when it is granted. The write that comes before the question
// to the replicas changes nothing.
func TestReplicas_HaveWhatIsGranted(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicas(t, 2)
	m := dial(t, servers[0].Addr(), acked(2))
	ways := map[string][]lockmgr.LockOption{
		"waits": nil, "tries": {lockmgr.OnlyIfFree()}, "fixed": {lockmgr.FixedLease(10 * time.Second)}, "fenced": {lockmgr.Fenced()},
	}
	for i := range 5 {
		for _, kind := range kinds {
			for way, opts := range ways {
				if kind.title == "permits" && way == "fenced" {
					continue
				}
				name := fmt.Sprint(kind.title, " ", way, i)
				l := must(kind.ask(m, name, opts...).Await(faults.Patient(t)))(t, name)
				key := name
				if kind.title == "permits" {
					key = "{" + name + "}:timeout"
				}
				for _, s := range servers[1:] {
					require.Equal(t, "1", faults.Do(t, s, "EXISTS", key), name)
				}
				require.True(t, l.Valid())
				if kind.title == "plain" {
					require.Equal(t, "1", faults.Do(t, servers[0], "HLEN", key))
				} else if kind.title == "permits" {
					require.Equal(t, "1", faults.Do(t, servers[0], "ZCARD", key))
				}
				mustUnlock(t, l)
				require.Equal(t, "0", faults.Do(t, servers[0], "EXISTS", key), name)
			}
		}
	}
}

// While the replica is stopped, requests fail and leave nothing. What was held before stays until
// its deadline.
func TestReplicas_TooFew(t *testing.T) {
	o := acked(1)
	o.Lease, o.CommandTimeout, o.Replicas.Timeout = 4500*time.Millisecond, 1400*time.Millisecond, 1200*time.Millisecond
	master, replica, m := startReplica(t, o)
	other := dial(t, master.Addr(), lockmgr.Options{})
	ctx := faults.Patient(t)
	held := mustLock(t, m, "held")

	replica.Freeze()
	// A wait that is shorter than Replicas.Timeout is told the same.
	wait := lockmgr.MaxWait(o.Replicas.Timeout / 2)
	_, err := m.Lock(ctx, "short", wait)
	require.ErrorIs(t, err, lockmgr.ErrReplicas)
	require.NotErrorIs(t, err, lockmgr.ErrNotAcquired)
	require.ErrorIs(t, errOf(m.LockAll(ctx, lockmgr.All("short1", "short2"), wait)), lockmgr.ErrReplicas)
	require.ErrorIs(t, errOf(m.Permits("shortp", 2).Acquire(ctx, 1, wait)), lockmgr.ErrReplicas)
	_, err = m.Lock(endsIn(t, o.Replicas.Timeout/2), "short3")
	require.ErrorIs(t, err, lockmgr.ErrReplicas)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	waiting := m.LockAsync("a")
	for range 2 {
		begin := time.Now()
		_, err = m.Lock(ctx, "a")
		require.ErrorIs(t, err, lockmgr.ErrReplicas)
		require.NotErrorIs(t, err, lockmgr.ErrUnavailable)
		t.Logf("refused after %v: %v", time.Since(begin), err)
		require.ErrorIs(t, errOf(m.TryLock(ctx, "b", lockmgr.Fair())), lockmgr.ErrReplicas)
		require.ErrorIs(t, errOf(m.Permits("p", 2).Acquire(ctx, 1)), lockmgr.ErrReplicas)
	}
	require.ErrorIs(t, errOf(waiting.Await(ctx)), lockmgr.ErrReplicas)
	for _, name := range []string{"a", "b"} { // given back
		mustUnlock(t, mustLock(t, other, name, lockmgr.MaxWait(o.Lease/2)))
	}
	faults.AwaitLost(t, held)
	require.ErrorIs(t, held.Err(), lockmgr.ErrLeaseLost)
	replica.Thaw()
	faults.Eventually(t, func() bool { return errOf(m.TryLock(ctx, "a")) == nil })
}

// shortAcks are options with which a hold is soon lost if no replica has its renewals.
func shortAcks() lockmgr.Options {
	o := acked(1)
	o.Lease, o.CommandTimeout, o.Replicas.Timeout = 3*time.Second, 900*time.Millisecond, 200*time.Millisecond
	return o
}

// A renewal counts when a replica has it. While the replica is stopped, holds of all kinds last
// until their old deadlines and no longer.
func TestReplicas_ConfirmRenewals(t *testing.T) {
	o := shortAcks()
	_, replica, m := startReplica(t, o)
	var held []*lockmgr.Lock
	for _, kind := range kinds {
		held = append(held, mustAwait(t, kind.ask(m, kind.title)))
	}
	held = append(held, mustLock(t, m, "fenced", lockmgr.Fenced()))

	replica.Freeze()
	time.Sleep(o.Lease / 2) // renewals fail, and are tried again
	replica.Thaw()
	requireRenewed(t, o.Lease, held...)

	replica.Freeze()
	for _, l := range held {
		faults.AwaitLost(t, l)
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
	}
}

// The scripts that renew a record write nothing if it has a longer life. The replicas are asked for
// a write all the same.
func TestReplicas_ConfirmWhatWasNotWritten(t *testing.T) {
	o := shortAcks()
	o.Lease = 6 * time.Second // each renewal has a new connection
	master, replica, m := startReplica(t, o)
	l := mustLock(t, m, "a")
	replica.Freeze()
	faults.Do(t, master, "PEXPIRE", "a", "60000")
	faults.AwaitLost(t, l)
}

// Extend and a longer fixed lease count when a replica has them.
func TestReplicas_ConfirmExtend(t *testing.T) {
	o := shortAcks()
	_, replica, m := startReplica(t, o)
	ctx := faults.Patient(t)
	fixed := mustLock(t, m, "fixed", lockmgr.FixedLease(time.Minute)) // an acquire has Options.Lease at most
	faults.Eventually(t, func() bool { return fixed.Remaining() > o.Lease }, "the renewal that makes it longer")
	ttl := must(strconv.Atoi(faults.Do(t, replica, "PTTL", "fixed")))(t)
	require.GreaterOrEqual(t, ttl, int(fixed.Remaining().Milliseconds()), "the replica has it")

	held := mustLock(t, m, "held")
	replica.Freeze()
	err := held.Extend(endsIn(t, time.Second), time.Minute)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, lockmgr.ErrReplicas)
	require.Less(t, held.Remaining(), o.Lease)
	require.ErrorIs(t, held.Extend(ctx, time.Minute), lockmgr.ErrLeaseLost)
	require.True(t, fixed.Valid())
	replica.Thaw()
	require.NoError(t, fixed.Extend(ctx, 2*time.Minute))
	require.Greater(t, fixed.Remaining(), time.Minute)
}

// A master becomes a replica during WAIT. The requests are tried again, and their error is
// temporary.
func TestReplicas_DemotedDuringWait(t *testing.T) {
	o := acked(1)
	o.RetryTime = 500 * time.Millisecond
	master, replica, m := startReplica(t, o)
	ctx := faults.Patient(t)
	replica.Freeze()
	f := m.LockAsync("a")
	faults.Eventually(t, func() bool {
		return strings.Contains(faults.Do(t, master, "INFO", "clients"), "blocked_clients:1")
	}, "WAIT")
	faults.Do(t, master, "REPLICAOF", "127.0.0.1", strconv.Itoa(replica.Port()))
	_, err := f.Await(ctx)
	require.True(t, lockmgr.Temporary(err), "%v", err)
	require.NotErrorIs(t, err, lockmgr.ErrServer)
	faults.Do(t, master, "REPLICAOF", "NO", "ONE")
	replica.Thaw()
	faults.Eventually(t, func() bool { return errOf(m.TryLock(ctx, "a")) == nil })
}

// A hold survives a failover right after its grant.
func TestReplicas_FailoverKeepsTheLock(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	o := acked(1)
	o.RetryTime = 20 * time.Second
	o.Replicas.Timeout = 2 * time.Second
	m := dialCluster(t, c, o)
	owner := c.Owner("a")
	held := mustLockEach(t, m, numbered("{a}", 50))
	owner.Kill()
	faults.Eventually(t, func() bool { now := c.Owner("a"); return now != nil && now != owner })
	for _, l := range held {
		require.Equal(t, "1", faults.Do(t, c.Owner("a"), "EXISTS", l.Name()))
		mustUnlock(t, l)
	}
	require.ErrorIs(t, errOf(m.Lock(faults.Patient(t), "a")), lockmgr.ErrReplicas) // the new master has no replica
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
	require.ErrorIs(t, errOf(m.Lock(ctx, "a")), lockmgr.ErrPermission)
}

// In a cluster Check waits for the replicas of each master.
func TestReplicas_CheckOfEachMaster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	o := acked(1)
	o.Replicas.Timeout = 500 * time.Millisecond
	m := dialCluster(t, c, o)
	ctx := faults.Patient(t)
	require.NoError(t, errOf(m.Check(ctx, "check:")))
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
		_, err := m.Check(ctx, "check:")
		requireServerError(t, lockmgr.ErrReplicas, err, "check of the master at 127.0.0.1:"+port+":")
	}
}

// A program uses up the pool of the client that it gave to New. Grants that need replicas fail
// after a time, and Close returns.
func TestReplicas_PoolIsUsedUp(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicas(t, 1)
	client := must(rueidis.NewClient(lockmgr.TuneClient(rueidis.ClientOption{InitAddress: []string{servers[0].Addr()}, BlockingPoolSize: 2})))(t)
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
	m := must(lockmgr.New(client, o))(t)
	begin := time.Now()
	_, err := m.TryLock(faults.Patient(t), "a")
	requireServerError(t, lockmgr.ErrReplicas, err, "BlockingPoolSize")
	require.Less(t, time.Since(begin), 5*time.Second)
	f := m.LockAsync("b")
	mustClose(t, m)
	require.Error(t, errOf(f.Await(faults.Patient(t))))
	end()
	client.Close()
	workers.Wait()
}

// A manager of New opens a connection for WAIT.
func TestReplicas_WithABorrowedClient(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicas(t, 1)
	client := must(rueidis.NewClient(lockmgr.TuneClient(rueidis.ClientOption{InitAddress: []string{servers[0].Addr()}})))(t)
	defer client.Close()
	m := must(lockmgr.New(client, acked(1)))(t)
	for range 20 {
		l := mustLock(t, m, "a")
		require.Equal(t, "1", faults.Do(t, servers[1], "EXISTS", "a"))
		mustUnlock(t, l)
	}
	servers[1].Freeze()
	f := m.LockAsync("b")
	time.Sleep(50 * time.Millisecond) // a WAIT is under way
	begin := time.Now()
	require.ErrorIs(t, m.Close(endsIn(t, 300*time.Millisecond)), context.DeadlineExceeded)
	require.Less(t, time.Since(begin), 3*time.Second, "Close cuts the wait of five seconds off")
	require.Error(t, errOf(f.Await(faults.Patient(t))))
}

// A reader becomes the writer when a replica has that.
func TestReplicas_ConfirmUpgrade(t *testing.T) {
	_, replica, m := startReplica(t, shortAcks())
	ctx := faults.Patient(t)
	owner := m.NewOwner()
	reader := must(m.Lock(ctx, "a", lockmgr.Shared(), lockmgr.AsOwner(owner)))(t)
	replica.Freeze()
	require.ErrorIs(t, errOf(m.TryLock(ctx, "a", lockmgr.Exclusive(), lockmgr.AsOwner(owner))), lockmgr.ErrReplicas)
	replica.Thaw()
	require.True(t, reader.Valid())
	var writer *lockmgr.Lock
	faults.Eventually(t, func() bool {
		l, err := m.TryLock(ctx, "a", lockmgr.Exclusive(), lockmgr.AsOwner(owner))
		writer = l
		return err == nil
	}, "a replica confirms it")
	require.Equal(t, "write", faults.Do(t, replica, "HGET", "a", "mode"))
	mustUnlock(t, writer, reader)
}
