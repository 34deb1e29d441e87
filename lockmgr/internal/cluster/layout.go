package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// sameCluster reports whether an answer is about the cluster whose layout is known: at least half
// of the known shards are in the answer. So any answer counts if no shard is known. A shard is in
// the answer if any of its nodes is, because a failover makes a replica the master. Half is enough,
// because a cluster of two masters may shrink to one. Less than half is not enough, because a node
// may have moved to another cluster.
func sameCluster(known, answer []wire.Shard) bool { return 2*knownIn(known, answer) >= len(known) }

// knownIn returns how many of the known shards have a node in an answer. A shard without known
// nodes counts.
func knownIn(known, answer []wire.Shard) (n int) {
	in := make(map[string]bool)
	for _, s := range answer {
		for _, id := range s.Nodes {
			in[id] = true
		}
	}
	for _, s := range known {
		if s.Nodes == nil || slices.ContainsFunc(s.Nodes, func(id string) bool { return in[id] }) {
			n++
		}
	}
	return n
}

// withUnserved returns a layout in which each slot without a master belongs to the slot's shard in
// an earlier layout. For instance, an answer leaves out a master whose address the cluster has
// forgotten.
func withUnserved(layout, earlier []wire.Shard) []wire.Shard {
	var served [wire.Slots]bool
	at := make(map[string]int) // in layout, by address
	for i, s := range layout {
		at[s.Addr] = i
		for _, r := range s.Slots {
			for slot := r[0]; slot <= r[1]; slot++ {
				served[slot] = true
			}
		}
	}
	for _, s := range earlier {
		left := leftOf(s.Slots, &served)
		if left == nil {
			continue
		}
		i, known := at[s.Addr]
		if !known {
			i = len(layout)
			layout = append(layout, wire.Shard{Addr: s.Addr, Nodes: s.Nodes, Addrs: s.Addrs})
		}
		layout[i].Slots = append(layout[i].Slots, left...)
	}
	return layout
}

// leftOf returns the slots of ranges that are not served, in ranges.
func leftOf(ranges [][2]int, served *[wire.Slots]bool) (left [][2]int) {
	for _, r := range ranges {
		for slot := r[0]; slot <= r[1]; slot++ {
			switch n := len(left); {
			case served[slot]:
			case n > 0 && left[n-1][1] == slot-1:
				left[n-1][1] = slot
			default:
				left = append(left, [2]int{slot, slot})
			}
		}
	}
	return left
}

// OneMaster returns a function for the layout of a server that Sentinels watch: a single master,
// which serves all slots. The client of Sentinel knows the master, so the function does no I/O.
func OneMaster(client rueidis.Client) func(context.Context) ([]wire.Shard, error) {
	return func(context.Context) ([]wire.Shard, error) {
		for addr := range client.Nodes() {
			return []wire.Shard{{Addr: addr, Slots: [][2]int{{0, wire.Slots - 1}}}}, nil
		}
		return nil, errors.New("the client knows no master")
	}
}

// layoutAnswer is what a node has answered to the question for its ID and the layout.
type layoutAnswer struct {
	addr, id string
	layout   []wire.Shard
	err      error
}

// askTime is how long Layout and Seeds wait for the answer of a node. KnowsSharded waits as long
// for all answers together.
const askTime = 500 * time.Millisecond

// nodeAnswer asks the node at an address for its ID and the layout of its cluster, over one
// connection. The layout is empty if the node knows no master with slots.
func nodeAnswer(ctx context.Context, c rueidis.Client, addr string) layoutAnswer {
	replies := c.DoMulti(ctx, c.B().ClusterMyid().Build(), c.B().ClusterSlots().Build())
	id, err := replies[0].ToString()
	if err != nil {
		return layoutAnswer{addr: addr, err: err}
	}
	layout, err := readLayout(replies[1], addr)
	return layoutAnswer{addr, id, layout, err}
}

// readLayout reads the answer to CLUSTER SLOTS of the node at an address.
func readLayout(reply rueidis.RedisResult, addr string) ([]wire.Shard, error) {
	ranges, err := reply.ToArray()
	if err != nil {
		return nil, err
	}
	index := map[string]int{}
	var shards []wire.Shard
	for _, r := range ranges {
		s, err := readRange(&r, addr)
		if err != nil {
			return nil, err
		}
		if s.Addr == "" {
			continue
		}
		i, known := index[s.Addr]
		if !known {
			i = len(shards)
			index[s.Addr] = i
			shards = append(shards, wire.Shard{Addr: s.Addr, Nodes: s.Nodes, Addrs: s.Addrs})
		}
		shards[i].Slots = append(shards[i].Slots, s.Slots...)
	}
	return shards, nil
}

// readRange reads a range of slots and the nodes that serve the slots, the master first. asked is
// the address of the node that answered.
func readRange(r *rueidis.RedisMessage, asked string) (s wire.Shard, err error) {
	fields, err := r.ToArray()
	if err != nil || len(fields) < 3 {
		return s, fmt.Errorf("CLUSTER SLOTS: unexpected reply %s", r.String())
	}
	from, errFrom := fields[0].ToInt64()
	to, errTo := fields[1].ToInt64()
	if err := errors.Join(errFrom, errTo); err != nil || from < 0 || to >= wire.Slots || from > to {
		return s, fmt.Errorf("CLUSTER SLOTS: unexpected range in reply %s", r.String())
	}
	s.Slots = [][2]int{{int(from), int(to)}}
	for _, f := range fields[2:] { // host, port, ID and perhaps more
		node, err := f.ToArray()
		if err != nil || len(node) < 2 {
			return s, fmt.Errorf("CLUSTER SLOTS: unexpected node in reply %s", r.String())
		}
		if len(node) > 2 {
			if id, err := node[2].ToString(); err == nil {
				addr, _ := readAddr(node, asked) // may be empty for a replica
				s.Nodes, s.Addrs = append(s.Nodes, id), append(s.Addrs, addr)
			}
		}
	}
	master, _ := fields[2].ToArray()
	s.Addr, err = readAddr(master, asked)
	return s, err
}

// readAddr reads the address of a node. If no host is given, the host is the host of asked. If the
// cluster gives names (cluster-preferred-endpoint-type hostname), the host of a node without a name
// is "?", and the IP address comes after the ID. addr is empty if the port is 0: the node has no
// port of the kind that was asked for, with TLS or without.
func readAddr(node []rueidis.RedisMessage, asked string) (addr string, err error) {
	host, _ := node[0].ToString()
	port, err := node[1].ToInt64()
	if err != nil {
		return "", err
	}
	if host == "?" {
		host = ""
		if len(node) > 3 {
			more, _ := node[3].AsStrMap()
			host = more["ip"]
		}
	}
	if host == "" {
		if host, _, err = net.SplitHostPort(asked); err != nil {
			return "", err
		}
	}
	if port != 0 {
		addr = net.JoinHostPort(host, strconv.FormatInt(port, 10))
	}
	return addr, nil
}
