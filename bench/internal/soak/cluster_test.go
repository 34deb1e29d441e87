package soak

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clustered is a run on a cluster with some workers.
func clustered(t *testing.T, procs int) *run {
	t.Helper()
	c := small(t, "none", 1, time.Minute)
	var err error
	c.Cluster, c.Procs = true, procs
	c.Faults, err = ParseFaults("all,breaking", true)
	require.NoError(t, err)
	require.NoError(t, c.check())
	r, end, err := prepare(c)
	t.Cleanup(end)
	require.NoError(t, err)
	require.NoError(t, r.begin(t.Context()))
	t.Cleanup(func() {
		r.rest(true)
		r.judge.finish()
	})
	return r
}

// Each fault of a cluster strikes, and the cluster is whole when it is over.
func TestFault_EachStrikesACluster(t *testing.T) {
	r := clustered(t, 2)
	for _, k := range kinds {
		if !k.concerns(true) || !k.server {
			continue
		}
		n, err := r.inflict(Fault{Kind: k.name, Slot: -1, Seed: 3, For: 50 * time.Millisecond}, nil)
		require.NoError(t, err, k.name)
		require.Positive(t, n, k.name)
		require.NoError(t, r.fleet.healed(), k.name)
	}
	r.rest(false)
	require.Empty(t, r.judge.Told)
	l := r.left()
	require.Empty(t, l.Keys)
	require.Empty(t, l.Channels)
	require.Empty(t, l.Connections)
	require.Empty(t, l.Problem)
}

// A run without faults on a cluster finds nothing, and a broken client is found.
func TestSoak_OnACluster(t *testing.T) {
	for client, fine := range map[string]bool{"": true, "doubled": false} {
		c := small(t, "none", 1, 700*time.Millisecond)
		c.Cluster, c.Client = true, client
		result := runUntil(t, c, func(r *Result) bool { return metAll(r) && (fine || len(r.Violations()) > 0) })
		require.Equal(t, fine, len(result.Violations()) == 0, "%q: %v %v %+v", client, result.Violations(), result.Told, result.Left)
		require.Positive(t, result.Sets)
		require.Positive(t, result.PermitGrants)
		require.Contains(t, result.Server, "a cluster of 6")
	}
}

func TestConfig_OfAClusterAndOfOneServer(t *testing.T) {
	for fine, list := range map[bool][]func(*Config){
		false: {
			func(c *Config) { c.Acks = 1 },
			func(c *Config) { c.Faults = []string{"migrate"} },
			func(c *Config) { c.Cluster, c.Faults = true, []string{"flushall"} },
		},
		true: {func(c *Config) { c.Cluster, c.Acks, c.Faults = true, 1, []string{"migrate", "kill"} }},
	} {
		for i, change := range list {
			c := valid
			change(&c)
			require.Equal(t, fine, c.check() == nil, "%v %d", fine, i)
		}
	}
	all, err := ParseFaults("all,breaking", true)
	require.NoError(t, err)
	require.Contains(t, all, "crash")
	require.NotContains(t, all, "evict")
}
