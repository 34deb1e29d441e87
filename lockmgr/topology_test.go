package lockmgr_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// startCluster runs a cluster of one server that has all slots.
func startCluster(t testing.TB) *redistest.Server {
	s := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-require-full-coverage", "no").Unrestricted() // to ask for the topology takes a permission that locks do not need
	faults.Do(t, s, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	faults.Eventually(t, func() bool { return strings.Contains(faults.Do(t, s, "CLUSTER", "INFO"), "cluster_state:ok") })
	return s
}

// Several addresses are the seeds of a cluster, unless the caller wants one server.
func TestDial_Seeds(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, errOf(lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1", "127.0.0.1:2"}}, lockmgr.Options{})), lockmgr.ErrUnavailable)
	s := redistest.Start(t)
	m := must(lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{s.Addr(), "b:1"}, ForceSingleClient: true}, lockmgr.Options{}))(t, "the first address is the server")
	mustClose(t, m)
}

// New asks a client of a cluster for its layout, and fails if there is none.
func TestNew_ClusterWithoutSlots(t *testing.T) {
	t.Parallel()
	s := startCluster(t)
	client := must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}, DisableCache: true}))(t)
	defer client.Close()
	faults.Do(t, s, "CLUSTER", "DELSLOTSRANGE", "0", "16383")
	require.ErrorIs(t, errOf(lockmgr.New(client, lockmgr.Options{})), lockmgr.ErrUnavailable)
	err := errOf(lockmgr.DialURL("redis://"+s.Addr(), lockmgr.Options{}))
	require.ErrorIs(t, err, lockmgr.ErrUnavailable)
	require.ErrorContains(t, err, "slot")
	require.NotContains(t, err.Error(), "TLS", "the servers answer")
	s.Kill()
	require.ErrorIs(t, errOf(lockmgr.New(client, lockmgr.Options{})), lockmgr.ErrUnavailable)
}

// A server that has all slots of its cluster refuses scripts for several locks. The scripts are
// split, and no acquire, renewal or release loses a lock.
func TestServer_ClusterOfOneLosesNothing(t *testing.T) {
	t.Parallel()
	s := startCluster(t)
	client := must(rueidis.NewClient(lockmgr.TuneClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}})))(t)
	defer client.Close()
	m := must(lockmgr.New(client, lockmgr.Options{Lease: 4 * time.Second}))(t)
	names := numbered("app:", 300)
	locks, errs := burst(t, m, names)
	for i := range names {
		require.NoError(t, errs[i], names[i])
	}
	faults.Eventually(t, func() bool { return m.Stats().Renewals >= 300 })
	for i, l := range locks {
		require.NoError(t, l.Err(), names[i])
	}
	locks[0].Unlock(faults.Patient(t))
	for _, l := range locks[1:] {
		_ = l.UnlockAsync()
	}
	faults.Eventually(t, func() bool { return faults.Do(t, s, "DBSIZE") == "0" })
	require.Zero(t, m.Stats().Losses)
	mustClose(t, m)
	require.NoError(t, client.Do(faults.Patient(t), client.B().Ping().Build()).Error(), "the client is only borrowed")
}

// Check warns of a cluster whose only master has a client for a single server. A cluster of several
// keeps some names on other servers, so the Check of a manager of one of them returns an error.
// Dial connects to the whole cluster, unless the caller wants one server.
func TestServer_CheckNamesACluster(t *testing.T) {
	t.Parallel()
	s := startCluster(t)
	m := dialOption(t, rueidis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true}, lockmgr.Options{})
	report := must(m.Check(faults.Patient(t), "a"))(t)
	require.Contains(t, strings.Join(report.Warnings, "\n"), "client is one for a single server")

	other := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-require-full-coverage", "no").Unrestricted()
	faults.Do(t, s, "CLUSTER", "DELSLOTSRANGE", "8192", "16383")
	faults.Do(t, other, "CLUSTER", "ADDSLOTSRANGE", "8192", "16383")
	host, port, err := net.SplitHostPort(other.Addr())
	require.NoError(t, err)
	faults.Do(t, s, "CLUSTER", "MEET", host, port)
	faults.Eventually(t, func() bool { return strings.Contains(faults.Do(t, s, "CLUSTER", "INFO"), "cluster_size:2") })
	require.ErrorIs(t, errOf(m.Check(faults.Patient(t), "a")), lockmgr.ErrTopology)
	require.ErrorIs(t, errOf(lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true}, lockmgr.Options{})), lockmgr.ErrTopology)
	whole := dial(t, s.Addr(), lockmgr.Options{})
	for _, name := range numbered("app:", 20) {
		mustUnlock(t, mustLock(t, whole, name))
	}
	report = must(whole.Check(faults.Patient(t), "a"))(t)
	require.Contains(t, strings.Join(report.Warnings, "\n"), "masters with slots: 2")
	moved := 0
	for _, name := range numbered("app:", 20) {
		l, err := m.Lock(faults.Patient(t), name)
		if err == nil {
			mustUnlock(t, l)
			continue
		}
		requireServerError(t, lockmgr.ErrTopology, err, "MOVED")
		moved++
	}
	require.NotZero(t, moved)
}

// Check says that a master which Sentinels watch may lose a lock, whether the user may call INFO or
// not.
func TestSentinel_CheckNamesIt(t *testing.T) {
	t.Parallel()
	w := redistest.StartSentinel(t, 1)
	m := dialSentinel(t, w.Addrs(), lockmgr.Options{})
	for range 2 {
		report := must(m.Check(faults.Patient(t), "a"))(t)
		require.Len(t, report.Warnings, 1)
		require.Contains(t, report.Warnings[0], "Sentinel")
		require.Contains(t, report.Warnings[0], "may lose a lock")
		faults.Do(t, w.Servers[0], "ACL", "SETUSER", "default", "-info")
	}
}

// Check of a replica fails, also if the replica would take writes: its master would undo them. It
// succeeds when the replica has become a master.
func TestServer_CheckNamesAReplica(t *testing.T) {
	t.Parallel()
	replica := redistest.StartReplicas(t, 1)[1]
	m := dial(t, replica.Addr(), lockmgr.Options{})
	for _, readOnly := range []string{"yes", "no"} {
		faults.Do(t, replica, "CONFIG", "SET", "replica-read-only", readOnly)
		_, err := m.Check(faults.Patient(t), "a")
		requireServerError(t, lockmgr.ErrReadOnly, err, "the server is a replica")
	}
	faults.Do(t, replica, "REPLICAOF", "NO", "ONE")
	must(m.Check(faults.Patient(t), "a"))(t)
}
