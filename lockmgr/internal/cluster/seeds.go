package cluster

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// ErrSeeds says that as many addresses belong to one cluster as to another.
var ErrSeeds = errors.New("the addresses belong to different clusters")

// Seeds returns the addresses whose nodes belong to one cluster: the cluster with the most
// addresses. Seeds asks each node for the layout of its cluster. If no node belongs to a cluster or
// answers, Seeds returns all addresses: a dial to an address tells why. Without Seeds, the client
// of a cluster would follow the node that answers first.
//
// open connects to a node. Seeds calls open for all addresses at once. Seeds blocks until more than
// half of the nodes belong to one cluster, or until all calls have ended.
func Seeds(ctx context.Context, addrs []string, open func(addr string) (rueidis.Client, error)) ([]string, error) {
	answers := make(chan layoutAnswer, len(addrs))
	for _, addr := range addrs {
		go func() { answers <- layoutAnswer{addr: addr, layout: seedLayout(ctx, addr, open)} }()
	}
	var clusters []*candidate
	var best *candidate
	for range addrs {
		if a := <-answers; len(a.layout) > 0 {
			clusters = grouped(clusters, a)
		}
		if best = most(clusters); best != nil && 2*len(best.addrs) > len(addrs) {
			break
		}
	}
	if best == nil {
		return addrs, nil
	}
	for _, c := range clusters {
		if c != best && len(c.addrs) == len(best.addrs) {
			return nil, ErrSeeds
		}
	}
	return best.addrs, nil
}

// A candidate is a cluster that nodes have answered about.
type candidate struct {
	layout []wire.Shard // the first answer
	addrs  []string
}

// grouped adds an answer to the answer's cluster, or to a new cluster.
func grouped(clusters []*candidate, a layoutAnswer) []*candidate {
	at := slices.IndexFunc(clusters, func(c *candidate) bool { return sameCluster(c.layout, a.layout) })
	if at < 0 {
		at = len(clusters)
		clusters = append(clusters, &candidate{layout: a.layout})
	}
	clusters[at].addrs = append(clusters[at].addrs, a.addr)
	return clusters
}

// most returns the first of the clusters with the most answers, or nil if there is none.
func most(clusters []*candidate) (best *candidate) {
	for _, c := range clusters {
		if best == nil || len(c.addrs) > len(best.addrs) {
			best = c
		}
	}
	return best
}

// seedLayout asks the node at an address for the layout of its cluster. The layout is empty if the
// node belongs to no cluster or does not answer.
func seedLayout(ctx context.Context, addr string, open func(addr string) (rueidis.Client, error)) []wire.Shard {
	c, err := open(addr)
	if err != nil {
		return nil
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return nodeAnswer(ctx, c, addr).layout
}
