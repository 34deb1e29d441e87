package soak

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/rediscluster"
	"github.com/holdfast-go/holdfast/internal/redisserver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// A fleet is the servers of a run: one, or the nodes of a cluster.
type fleet struct {
	nodes   []*redisServer
	cluster *rediscluster.Cluster[*redisServer] // nil: one server
}

// A cluster has clusterMasters masters, each with one replica.
const clusterMasters = 3

// startFleet starts one server, or a cluster. It returns what has been started, even if there is an
// error.
func startFleet(c Config, dir string) (*fleet, error) {
	f := &fleet{}
	n, args := 1, keepAll
	if c.Cluster {
		n, args = 2*clusterMasters, slices.Concat(rediscluster.Args(), keepAll)
	}
	for i := range n {
		folder := filepath.Join(dir, "node"+strconv.Itoa(i))
		if err := os.Mkdir(folder, 0o700); err != nil {
			return f, err
		}
		s := &redisServer{&redisserver.Server{Binary: c.Server, Dir: folder, Detached: true}, args}
		f.nodes = append(f.nodes, s)
		if err := s.Start(resp.Login{}, args...); err != nil {
			return f, err
		}
	}
	if c.Cluster {
		f.cluster = &rediscluster.Cluster[*redisServer]{Nodes: f.nodes, Masters: clusterMasters}
		return f, f.cluster.Form()
	}
	return f, nil
}

func (f *fleet) kill() {
	for _, n := range f.nodes {
		n.Kill()
	}
}

// name names the servers.
func (f *fleet) name() string {
	if f.cluster == nil {
		return f.nodes[0].Name()
	}
	return fmt.Sprintf("a cluster of %d of %s", len(f.nodes), f.nodes[0].Name())
}

// of returns the server that a key is on.
func (f *fleet) of(key string) (*redisServer, error) {
	if f.cluster == nil {
		return f.nodes[0], nil
	}
	if n := f.cluster.Owner(key); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("no master has the slot of %q", key)
}

// masters returns the nodes that are masters, and replicas those that are not, as they say
// themselves. A node that does not answer is in neither.
func (f *fleet) masters() (masters, replicas []*redisServer) {
	for _, n := range f.nodes {
		role, err := n.Do("ROLE")
		switch {
		case err != nil:
		case strings.HasPrefix(role, "master"):
			masters = append(masters, n)
		default:
			replicas = append(replicas, n)
		}
	}
	return masters, replicas
}

// healed returns nil when each master of a cluster has its replica, which has its data, and serves.
func (f *fleet) healed() error {
	masters, replicas := f.masters()
	if len(masters) != clusterMasters || len(replicas) != clusterMasters {
		return fmt.Errorf("%d masters and %d replicas", len(masters), len(replicas))
	}
	var err error
	for _, n := range f.nodes {
		info, err1 := n.Do("CLUSTER", "INFO")
		replication, err2 := n.Do("INFO", "replication")
		err = errors.Join(err, err1, err2)
		if err == nil && (!strings.Contains(info, "cluster_state:ok") || strings.Contains(replication, "role:slave") && !strings.Contains(replication, "master_link_status:up")) {
			err = fmt.Errorf("%s does not serve, or has no data", n.Addr())
		}
	}
	return err
}
