package server

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediscluster"
	"github.com/holdfast-go/holdfast/internal/redisserver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// A Cluster is some masters without replicas, as child processes.
type Cluster struct {
	Addrs []string
	Name  string // "3 x redis 7.0.15"

	dir   string
	nodes []node
}

// commandTimeout bounds one command to a node.
const commandTimeout = 10 * time.Second

// A node is a server that rediscluster can command.
type node struct{ *redisserver.Server }

func (n node) Do(words ...string) (string, error) {
	c, err := resp.Dial(n.Addr(), commandTimeout)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.DoText(words...)
}

// StartCluster runs a cluster that keeps nothing on disk, and returns when it serves.
func StartCluster(binary string, masters int) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir}
	for i := range masters {
		folder := filepath.Join(dir, strconv.Itoa(i))
		if err = os.Mkdir(folder, 0o700); err != nil {
			break
		}
		s := &redisserver.Server{Binary: binary, Dir: folder, Detached: true}
		if err = s.Start(resp.Login{}, append(rediscluster.Args(), "--save", "")...); err != nil {
			break
		}
		c.nodes, c.Addrs = append(c.nodes, node{s}), append(c.Addrs, s.Addr())
	}
	if err == nil {
		err = (&rediscluster.Cluster[node]{Nodes: c.nodes, Masters: masters}).Form()
	}
	if err != nil {
		c.Stop()
		return nil, err
	}
	c.Name = strconv.Itoa(masters) + " x " + c.nodes[0].Name()
	return c, nil
}

// Stop ends all nodes.
func (c *Cluster) Stop() {
	for _, n := range c.nodes {
		n.Kill()
	}
	os.RemoveAll(c.dir)
}
