package lockmgr_test

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// failOver makes servers[1] the master of servers[0], and lets new connections to the proxy go
// there. The old connections stay at servers[0].
func failOver(t *testing.T, servers []*redistest.Server, proxy *faultproxy.Proxy) {
	t.Helper()
	faults.Do(t, servers[0], "WAIT", "1", "5000")
	faults.Do(t, servers[1], "REPLICAOF", "NO", "ONE")
	faults.Do(t, servers[0], "REPLICAOF", "127.0.0.1", strconv.Itoa(servers[1].Port()))
	proxy.To(servers[1].Addr())
}

// demotedLease is the lease of the holds. It is long for a busy machine.
const demotedLease = 15 * time.Second

// awaitRenewed waits until a renewal of each lock was sent after now and confirmed. The locks are
// valid all the time.
func awaitRenewed(t *testing.T, held []*lockmgr.Lock) {
	t.Helper()
	begin := time.Now()
	faults.Eventually(t, func() bool {
		renewed := true
		for _, l := range held {
			require.True(t, l.Valid(), l.Name())
			renewed = renewed && l.Remaining() > demotedLease*99/100-3*time.Millisecond-time.Since(begin)
		}
		return renewed
	}, "renewals")
}

// The address of a manager leads to another server after a planned failover, and the old server
// lives on as a replica, with the connections to it. The manager goes on at the new one: its holds
// stay, and a request that comes then is granted there.
func TestDemoted_HoldsStay(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(o *lockmgr.Options, opt *rueidis.ClientOption){
		"default":  func(*lockmgr.Options, *rueidis.ClientOption) {},
		"replicas": func(o *lockmgr.Options, _ *rueidis.ClientOption) { o.Replicas.Acks = 1 },
		"RESP2":    func(_ *lockmgr.Options, opt *rueidis.ClientOption) { opt.AlwaysRESP2 = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := redistest.StartReplicas(t, 1)
			proxy := faultproxy.Start(t, servers[0].Addr())
			opt := rueidis.ClientOption{InitAddress: []string{proxy.Addr()}}
			o := lockmgr.Options{Lease: demotedLease, RetryTime: 20 * time.Second}
			change(&o, &opt)
			m, other := dialOption(t, opt, o), dialOption(t, opt, o)
			held := mustLockEach(t, m, numbered("job", 20))
			for kind, opts := range map[string][]lockmgr.LockOption{"read": {lockmgr.Shared()}, "write": {lockmgr.Exclusive()}, "fair": {lockmgr.Fair()}} {
				held = append(held, mustLock(t, m, kind, opts...))
			}
			next := other.LockAsync("job0")
			faults.AwaitSubscribed(t, servers[0], "job0", 1)

			failOver(t, servers, proxy)
			held = append(held, mustLock(t, m, "new"))
			require.Equal(t, "1", faults.Do(t, servers[1], "EXISTS", "new"))
			awaitRenewed(t, held)
			faults.ByMessage(t, other, func() {
				mustUnlock(t, held...)
				mustUnlock(t, mustAwait(t, next))
			})
			require.Equal(t, "0", faults.Do(t, servers[1], "EXISTS", "job0", "job1", "read", "write", "fair", "new"))
		})
	}
}

// The old server answers LOADING, because it gets all data of the new master.
func TestDemoted_WhileTheOldServerIsLoading(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicas(t, 1, "--enable-debug-command", "local", "--loading-process-events-interval-bytes", "1024")
	proxy := faultproxy.Start(t, servers[0].Addr())
	m := dial(t, proxy.Addr(), lockmgr.Options{Lease: demotedLease})
	held := mustLock(t, m, "a")
	faults.Do(t, servers[0], "WAIT", "1", "5000")
	faults.Do(t, servers[1], "REPLICAOF", "NO", "ONE")
	faults.Do(t, servers[1], "DEBUG", "POPULATE", "1000", "filling", "1000")
	faults.Do(t, servers[0], "SET", "only here", "1") // no partial synchronization is possible
	faults.Do(t, servers[0], "CONFIG", "SET", "key-load-delay", "60000")
	faults.Do(t, servers[0], "REPLICAOF", "127.0.0.1", strconv.Itoa(servers[1].Port()))
	proxy.To(servers[1].Addr())
	awaitRenewed(t, []*lockmgr.Lock{held})
	require.ErrorContains(t, errOf(servers[0].Do("GET", "a")), "LOADING")
	mustUnlock(t, held)
	faults.Do(t, servers[0], "CONFIG", "SET", "key-load-delay", "0")
}

// A server that is a replica, and stays one, is asked once in a while, and no connection is cut.
func TestDemoted_NobodyElse(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicas(t, 1)
	proxy := faultproxy.Start(t, servers[1].Addr())
	m := dial(t, proxy.Addr(), lockmgr.Options{RetryTime: time.Second})
	begin, first := time.Now(), proxy.Connections()
	kept := proxy.Conns()[0]
	for time.Since(begin) < 3*time.Second {
		require.ErrorIs(t, errOf(m.TryLock(faults.Patient(t), "a")), lockmgr.ErrReadOnly)
	}
	require.LessOrEqual(t, proxy.Connections()-first, 3+int(time.Since(begin)/time.Second))
	require.Contains(t, proxy.Conns(), kept)
	faults.Do(t, servers[1], "REPLICAOF", "NO", "ONE")
	mustUnlock(t, mustLock(t, m, "a"))
}

// Close ends a connection that is being made, and waits for no time-out.
func TestDemoted_CloseWhileTheAddressHangs(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicas(t, 1)
	proxy := faultproxy.Start(t, servers[1].Addr())
	m := must(lockmgr.Dial(rueidis.ClientOption{
		InitAddress: []string{proxy.Addr()}, Dialer: net.Dialer{Timeout: faults.Patience}, ConnWriteTimeout: faults.Patience,
	}, lockmgr.Options{RetryTime: time.Second}))(t)
	proxy.StallHandshakes()
	require.ErrorIs(t, errOf(m.TryLock(faults.Patient(t), "a")), lockmgr.ErrReadOnly)
	faults.Eventually(t, func() bool { return proxy.Connections() == 2 }, "it connects once more")
	begin := time.Now()
	_ = m.Close(faults.Patient(t))
	require.Less(t, time.Since(begin), faults.Patience/2, "the time-outs of a dial are faults.Patience")
}

// A held lock that the new master knows stays, and the one who waits for it is told of its release
// by a message of the new master, after an orderly failover, in which the old one stays alive and
// says nothing. For its death see TestSentinel_DemotedMasterComesBack.
func TestSentinel_Failover(t *testing.T) {
	t.Parallel()
	w := redistest.StartSentinel(t, 2)
	o := lockmgr.Options{RetryTime: 20 * time.Second}
	m, other := dialSentinel(t, w.Addrs(), o), dialSentinel(t, w.Addrs()[:1], o)
	old := w.Master()
	l := mustLock(t, m, "a")
	f := other.LockAsync("a")
	faults.AwaitSubscribed(t, old, "a", 1)
	faults.Do(t, old, "WAIT", "2", "2000")
	faults.Do(t, w.Sentinels[0], "SENTINEL", "FAILOVER", redistest.MasterSet)
	faults.Eventually(t, func() bool { now := w.Master(); return now != nil && now != old })
	faults.AwaitSubscribed(t, w.Master(), "a", 1)
	require.True(t, l.Valid())
	mustUnlock(t, mustPass(t, l, other, f))
}

// A manager needs one Sentinel of three. A master that was replaced and comes back is a replica,
// and nobody takes a lock there. Managers that were there before go on at the new master: holds are
// renewed and given back there, and waiters are granted.
func TestSentinel_DemotedMasterComesBack(t *testing.T) {
	t.Parallel()
	w := redistest.StartSentinel(t, 1)
	o := lockmgr.Options{RetryTime: 20 * time.Second, Lease: 24 * time.Second}
	m, waiter := dialSentinel(t, w.Addrs(), o), dialSentinel(t, w.Addrs(), o)
	old := w.Master()
	held := mustLock(t, m, "held")
	waiting := []*futures.Future[*lockmgr.Lock]{waiter.LockAsync("held"), waiter.LockAsync("held")}
	faults.AwaitSubscribed(t, old, "held", 1)
	require.Equal(t, "1", faults.Do(t, old, "WAIT", "1", "2000"))
	old.Kill()
	l := mustLock(t, m, "a")
	faults.Eventually(t, func() bool { now := w.Master(); return now != nil && now != old })
	before := m.Stats().Renewals
	old.Restart()
	faults.Eventually(t, func() bool {
		role, err := old.Do("ROLE")
		return err == nil && role[:5] == "slave"
	})
	for _, s := range w.Sentinels[1:] {
		s.Kill()
	}
	other := dialSentinel(t, w.Addrs(), lockmgr.Options{})
	require.ErrorIs(t, errOf(other.TryLock(faults.Patient(t), "a")), lockmgr.ErrNotAcquired)
	mustUnlock(t, l)
	mustUnlock(t, mustLock(t, other, "a"))

	faults.Eventually(t, func() bool { return m.Stats().Renewals > before }, "renewed at the new master")
	require.True(t, held.Valid())
	faults.AwaitSubscribed(t, w.Master(), "held", 1)
	faults.ByMessage(t, waiter, func() {
		mustUnlock(t, held)
		for _, f := range waiting {
			l := mustAwait(t, f)
			require.Equal(t, "1", faults.Do(t, w.Master(), "EXISTS", "held"))
			mustUnlock(t, l)
		}
	})
	for _, manager := range []*lockmgr.Manager{m, waiter} {
		mustUnlock(t, mustTryLock(t, manager, "b"))
	}
}

// Without a Sentinel that answers, Dial fails.
func TestDial_NoSentinel(t *testing.T) {
	t.Parallel()
	opt := rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}, Sentinel: rueidis.SentinelOption{MasterSet: "main"}}
	require.ErrorIs(t, errOf(lockmgr.Dial(opt, lockmgr.Options{})), lockmgr.ErrUnavailable)
}

// The address of a Sentinel alone is no address of a server.
func TestDial_SentinelWithoutMasterSet(t *testing.T) {
	t.Parallel()
	w := redistest.StartSentinel(t, 0)
	_, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: w.Addrs()[:1]}, lockmgr.Options{})
	require.ErrorIs(t, err, lockmgr.ErrTopology)
	require.ErrorContains(t, err, "MasterSet")
	_, err = lockmgr.Dial(rueidis.ClientOption{InitAddress: w.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: "nobody"}}, lockmgr.Options{})
	require.ErrorIs(t, err, lockmgr.ErrTopology)
	require.ErrorContains(t, err, "SENTINEL MASTERS")
}

// DialURL reads the address of a server, of a cluster and of Sentinels.
func TestDialURL(t *testing.T) {
	t.Parallel()
	s, c, w := redistest.Start(t).Unrestricted(), redistest.StartCluster(t, 3, 0), redistest.StartSentinel(t, 0)
	for _, url := range []string{
		"redis://" + s.Addr(), "redis://" + c.Nodes[0].Addr(), "redis://" + c.Nodes[0].Addr() + "?addr=" + c.Nodes[1].Addr(),
		"redis://" + w.Sentinels[0].Addr() + "?master_set=" + redistest.MasterSet,
	} {
		m := must(lockmgr.DialURL(url, lockmgr.Options{}))(t, url)
		for _, name := range []string{"a", "b", "c"} {
			mustUnlock(t, must(m.Lock(faults.Patient(t), name))(t, url))
		}
		mustClose(t, m)
	}
}
