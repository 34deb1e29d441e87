package redistest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediscluster"
)

// A Cluster is some child servers that form a Redis Cluster.
type Cluster struct {
	rediscluster.Cluster[*Server]
}

// clusterTimeout bounds the time until replicas and Sentinels know their master.
const clusterTimeout = 20 * time.Second

// StartCluster runs a cluster of some masters, each with some replicas, and returns when all
// nodes agree on it. A master that does not answer for a second is failed over to its
// replica. Its nodes are killed when t ends. Where there is no server to run, t is skipped:
// see [Start]. args come last on the command line of each node.
func StartCluster(t testing.TB, masters, replicas int, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	c.Masters = masters
	for range masters * (1 + replicas) {
		c.Nodes = append(c.Nodes, startNode(t, args))
	}
	if err := c.Form(); err != nil {
		t.Fatalf("redistest: cluster: %v", err)
	}
	return c
}

// startNode starts a server that is in cluster mode. It has no access rules: cluster nodes
// have too many commands of their own.
func startNode(t testing.TB, args []string) *Server {
	t.Helper()
	return startPlain(t, "", append(rediscluster.Args(), args...))
}

// Move moves the slot of a key to another master, with all its keys.
func (c *Cluster) Move(t testing.TB, key string, to *Server) {
	t.Helper()
	if err := c.Cluster.Move(key, to); err != nil {
		t.Fatalf("redistest: %v", err)
	}
}
