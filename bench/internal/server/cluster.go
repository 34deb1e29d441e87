package server

import (
	"strconv"

	"github.com/holdfast-go/holdfast/internal/rediscluster"
)

// A Cluster is some masters without replicas, as child processes.
type Cluster struct {
	Addrs []string
	Name  string // "3 x redis 7.0.15"

	local *rediscluster.Local
}

// StartCluster runs a cluster that keeps nothing on disk, and returns when it serves.
func StartCluster(binary string, masters int) (*Cluster, error) {
	local, err := rediscluster.StartLocal(binary, masters, 0)
	if err != nil {
		return nil, err
	}
	return &Cluster{local.Addrs(), strconv.Itoa(masters) + " x " + local.Nodes[0].Name(), local}, nil
}

// Stop ends all nodes.
func (c *Cluster) Stop() { c.local.Stop() }
