package lockmgr_test

import (
	"crypto/tls"
	"errors"
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
	require.Eventually(t, func() bool { return strings.Contains(faults.Do(t, s, "CLUSTER", "INFO"), "cluster_state:ok") }, faults.Patience, time.Millisecond)
	return s
}

// Dial refuses options with which the client library would use a cluster or Sentinel,
// before it connects.
func TestDial_RefusesOtherTopologies(t *testing.T) {
	for name, opt := range map[string]rueidis.ClientOption{
		"seed list": {InitAddress: []string{"a:1", "b:1"}},
		"Sentinel":  {InitAddress: []string{"a:1"}, Sentinel: rueidis.SentinelOption{MasterSet: "main"}},
	} {
		t.Run(name, func(t *testing.T) {
			opt.DialFn = func(string, *net.Dialer, *tls.Config) (net.Conn, error) {
				t.Error("it dials")
				return nil, errors.New("refused")
			}
			_, err := lockmgr.Dial(opt, lockmgr.Options{})
			require.ErrorIs(t, err, lockmgr.ErrTopology)
		})
	}
	s := redistest.Start(t)
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{s.Addr(), "b:1"}, ForceSingleClient: true}, lockmgr.Options{})
	require.NoError(t, err, "the first address is the server")
	require.NoError(t, m.Close(faults.Patient(t)))
}

// A modeClient is a client that says that it has a mode.
type modeClient struct {
	rueidis.Client
	mode rueidis.ClientMode
}

func (c modeClient) Mode() rueidis.ClientMode { return c.mode }

func TestNew_RefusesOtherTopologies(t *testing.T) {
	t.Parallel()
	for _, mode := range []rueidis.ClientMode{rueidis.ClientModeCluster, rueidis.ClientModeSentinel} {
		_, err := lockmgr.New(modeClient{mode: mode}, lockmgr.Options{})
		require.ErrorIs(t, err, lockmgr.ErrTopology)
		require.ErrorContains(t, err, string(mode))
	}
	s := startCluster(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	require.Equal(t, rueidis.ClientModeCluster, client.Mode())
	_, err = lockmgr.New(client, lockmgr.Options{})
	require.ErrorIs(t, err, lockmgr.ErrTopology)
}

// A server that has all slots of its cluster refuses scripts for several locks. The
// scripts are split, and no acquire, renewal or release loses a lock.
func TestServer_ClusterOfOneLosesNothing(t *testing.T) {
	t.Parallel()
	s := startCluster(t)
	client, err := rueidis.NewClient(lockmgr.TuneClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}}))
	require.NoError(t, err)
	defer client.Close()
	m, err := lockmgr.New(client, lockmgr.Options{Lease: time.Second})
	require.NoError(t, err)
	names := some(300)
	locks, errs := burst(t, m, names)
	for i := range names {
		require.NoError(t, errs[i], names[i])
	}
	// Each is renewed three times.
	require.Eventually(t, func() bool { return m.Stats().Renewals >= 900 }, faults.Patience, time.Millisecond)
	for i, l := range locks {
		require.NoError(t, l.Err(), names[i])
	}
	locks[0].Unlock(faults.Patient(t))
	for _, l := range locks[1:] {
		_ = l.UnlockAsync()
	}
	require.Eventually(t, func() bool { return faults.Do(t, s, "DBSIZE") == "0" }, faults.Patience, time.Millisecond)
	require.Zero(t, m.Stats().Losses)
	require.NoError(t, m.Close(faults.Patient(t)))
}

// Check warns of a cluster of one server. A cluster of several keeps some names on
// other servers, so Check returns an error, and Dial refuses it as well.
func TestServer_CheckNamesACluster(t *testing.T) {
	t.Parallel()
	s := startCluster(t)
	m := dial(t, s.Addr(), lockmgr.Options{})
	report, err := m.Check(faults.Patient(t), "a")
	require.NoError(t, err)
	require.Contains(t, strings.Join(report.Warnings, "\n"), "cluster")

	other := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
	faults.Do(t, s, "CLUSTER", "DELSLOTSRANGE", "8192", "16383")
	faults.Do(t, other, "CLUSTER", "ADDSLOTSRANGE", "8192", "16383")
	host, port, err := net.SplitHostPort(other.Addr())
	require.NoError(t, err)
	faults.Do(t, s, "CLUSTER", "MEET", host, port)
	require.Eventually(t, func() bool { return strings.Contains(faults.Do(t, s, "CLUSTER", "INFO"), "cluster_size:2") }, faults.Patience, 10*time.Millisecond)
	_, err = m.Check(faults.Patient(t), "a")
	require.ErrorIs(t, err, lockmgr.ErrTopology)
	_, err = lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{s.Addr()}}, lockmgr.Options{})
	require.ErrorIs(t, err, lockmgr.ErrTopology)
	moved := 0
	for _, name := range some(20) {
		l, err := m.Lock(faults.Patient(t), name)
		if err == nil {
			require.NoError(t, l.Unlock(faults.Patient(t)))
			continue
		}
		require.ErrorIs(t, err, lockmgr.ErrTopology)
		require.ErrorContains(t, err, "MOVED")
		moved++
	}
	require.NotZero(t, moved)
}
