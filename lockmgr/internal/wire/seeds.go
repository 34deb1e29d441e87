package wire

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/rueidis"
)

// ErrSeeds says that addresses belong to different clusters, and to none of them the most.
var ErrSeeds = errors.New("the addresses belong to different clusters")

// Seeds returns those of some addresses whose nodes belong to one cluster: the one to which most belong.
// It asks each node for the layout of its cluster. If no node belongs to a cluster or answers, it
// returns all addresses: a dial to them tells why. Without Seeds, the client of a cluster would follow
// the node that answers first.
//
// open connects to a node. Seeds calls it for all addresses at once. It blocks until more than half of
// the nodes belong to one cluster, or until all calls have ended.
func Seeds(ctx context.Context, addrs []string, open func(addr string) (rueidis.Client, error)) ([]string, error) {
	type answer struct {
		addr   string
		layout []Shard
	}
	answers := make(chan answer, len(addrs))
	for _, addr := range addrs {
		go func() { answers <- answer{addr, seedLayout(ctx, addr, open)} }()
	}
	type cluster struct {
		layout []Shard
		addrs  []string
	}
	var clusters []*cluster
	best := &cluster{} // one of those with the most nodes
	for range addrs {
		a := <-answers
		if len(a.layout) == 0 {
			continue
		}
		at := slices.IndexFunc(clusters, func(c *cluster) bool { return sameCluster(c.layout, a.layout) })
		if at < 0 {
			at = len(clusters)
			clusters = append(clusters, &cluster{layout: a.layout})
		}
		c := clusters[at]
		c.addrs = append(c.addrs, a.addr)
		if len(c.addrs) > len(best.addrs) {
			best = c
		}
		if 2*len(best.addrs) > len(addrs) {
			break
		}
	}
	if len(clusters) == 0 {
		return addrs, nil
	}
	for _, c := range clusters {
		if c != best && len(c.addrs) == len(best.addrs) {
			return nil, ErrSeeds
		}
	}
	return best.addrs, nil
}

// seedLayout asks the node at an address for the layout of its cluster. It is empty if the node
// belongs to none or does not answer.
func seedLayout(ctx context.Context, addr string, open func(addr string) (rueidis.Client, error)) []Shard {
	c, err := open(addr)
	if err != nil {
		return nil
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	layout, _ := layoutOf(ctx, c, addr)
	return layout
}
