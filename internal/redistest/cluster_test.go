package redistest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// startLimit is how long a cluster or Sentinels may take to be ready, if no other test of the
// package runs. Tests that run beside others have more time.
const startLimit = 10 * time.Second

// Six nodes are a cluster within ten seconds, and a killed master is replaced.
func TestStartCluster(t *testing.T) {
	begin := time.Now()
	c := redistest.StartCluster(t, 3, 1)
	took := time.Since(begin)
	t.Logf("six nodes: %v", took)
	require.Less(t, took, startLimit)
	require.Len(t, c.Nodes, 6)
	owner := c.Owner("a")
	redistest.Must(owner.Do("SET", "a", "1"))(t)
	for _, n := range c.Nodes {
		if n != owner {
			_, err := n.Do("SET", "a", "1")
			require.ErrorContains(t, err, "MOVED")
		}
	}
	redistest.Must(owner.Do("WAIT", "1", "1000"))(t)
	owner.Kill()
	require.Eventually(t, func() bool {
		now := c.Owner("a")
		if now == nil || now == owner {
			return false
		}
		v, err := now.Do("GET", "a")
		return err == nil && v == "1"
	}, 15*time.Second, 50*time.Millisecond)
}

// A master with two replicas and three Sentinels are ready within ten seconds, and the Sentinels
// replace a killed master.
func TestStartSentinel(t *testing.T) {
	begin := time.Now()
	w := redistest.StartSentinel(t, 2)
	took := time.Since(begin)
	t.Logf("three servers and three Sentinels: %v", took)
	require.Less(t, took, startLimit)
	require.Len(t, w.Addrs(), 3)
	old := w.Master()
	require.Same(t, w.Servers[0], old)
	redistest.Must(old.Do("SET", "a", "1"))(t)
	redistest.Must(old.Do("WAIT", "2", "1000"))(t)
	old.Kill()
	require.Eventually(t, func() bool {
		now := w.Master()
		if now == nil || now == old {
			return false
		}
		v, err := now.Do("GET", "a")
		return err == nil && v == "1"
	}, 15*time.Second, 50*time.Millisecond)
}
