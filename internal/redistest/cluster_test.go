package redistest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Six nodes are a cluster within ten seconds, and a killed master is replaced.
func TestStartCluster(t *testing.T) {
	begin := time.Now()
	c := redistest.StartCluster(t, 3, 1)
	t.Logf("six nodes: %v", time.Since(begin))
	require.Len(t, c.Nodes, 6)
	owner := c.Owner("a")
	_, err := owner.Do("SET", "a", "1")
	require.NoError(t, err)
	for _, n := range c.Nodes {
		if n != owner {
			_, err := n.Do("SET", "a", "1")
			require.ErrorContains(t, err, "MOVED")
		}
	}
	_, err = owner.Do("WAIT", "1", "1000")
	require.NoError(t, err)
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
