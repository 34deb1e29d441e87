package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A Shard is a master of a cluster and the slots that it serves.
type Shard struct {
	Addr  string   // the key of the client's Nodes
	Slots [][2]int // ranges, both ends included
}

// Layout asks the nodes of a cluster, one after the other, which slots each master serves.
// The first answer counts. Each node has askTime to answer. The answer of a node that the
// others have left behind may be old: the next call asks another one first.
func (s Redis) Layout(ctx context.Context) ([]Shard, error) {
	err := errors.New("the client knows no node of the cluster")
	for addr, node := range s.Client.Nodes() { // in random order
		var shards []Shard
		if shards, err = layoutOf(ctx, node, addr); err == nil {
			return shards, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// Master is the layout of a server that Sentinels watch: one master, which serves all slots. The
// client of Sentinel knows it; Master does no I/O.
func (s Redis) Master(context.Context) ([]Shard, error) {
	for addr := range s.Client.Nodes() {
		return []Shard{{Addr: addr, Slots: [][2]int{{0, Slots - 1}}}}, nil
	}
	return nil, errors.New("the client knows no master")
}

// askTime is how long a node may take to tell the layout of its cluster.
const askTime = 500 * time.Millisecond

// KnowsSharded reports whether the nodes of a cluster know sharded channels, as those before
// version 7.0 do not. An answer of another kind, for instance that the user may not ask, does
// not count as no.
func (s Redis) KnowsSharded(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for _, node := range s.Client.Nodes() {
		err := node.Do(ctx, node.B().Arbitrary("PUBSUB", "SHARDNUMSUB").Build()).Error()
		if e, refused := rueidis.IsRedisErr(err); refused && strings.HasPrefix(e.Error(), "ERR") {
			return false
		}
		if err == nil {
			break
		}
	}
	return true
}

func layoutOf(ctx context.Context, node rueidis.Client, addr string) ([]Shard, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	ranges, err := node.Do(ctx, node.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	index := map[string]int{}
	var shards []Shard
	for _, r := range ranges {
		master, first, last, err := readRange(&r, addr)
		if err != nil {
			return nil, err
		}
		i, known := index[master]
		if !known {
			i = len(shards)
			index[master] = i
			shards = append(shards, Shard{Addr: master})
		}
		shards[i].Slots = append(shards[i].Slots, [2]int{first, last})
	}
	return shards, nil
}

// readRange reads a range of slots and the address of its master. A node that does not know
// its own host is at the host that it was asked at.
func readRange(r *rueidis.RedisMessage, asked string) (master string, first, last int, err error) {
	fields, err := r.ToArray()
	if err != nil || len(fields) < 3 {
		return "", 0, 0, fmt.Errorf("CLUSTER SLOTS: unexpected reply %s", r.String())
	}
	from, errFrom := fields[0].ToInt64()
	to, errTo := fields[1].ToInt64()
	node, errNode := fields[2].ToArray()
	if err := errors.Join(errFrom, errTo, errNode); err != nil || len(node) < 2 || from < 0 || to >= Slots || from > to {
		return "", 0, 0, fmt.Errorf("CLUSTER SLOTS: unexpected range in reply %s", r.String())
	}
	host, _ := node[0].ToString()
	port, err := node[1].ToInt64()
	if err != nil {
		return "", 0, 0, err
	}
	if host == "" || host == "?" {
		if host, _, err = net.SplitHostPort(asked); err != nil {
			return "", 0, 0, err
		}
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10)), int(from), int(to), nil
}

// crossSlot is the failure of a command whose keys are in several slots.
var crossSlot = &Failure{
	Kind: Topology, Ran: core.No, Final: true, Hint: "names that are wanted at once must share a slot: put the same text in braces into each, as in {orders}:1",
	Err: errors.New("the names are in several slots of the cluster"),
}

// execCluster runs commands whose keys may be on several masters. The client follows MOVED
// and ASK.
func (s link) execCluster(commands []Command, answers []Answer) {
	var cmds rueidis.Commands
	var at []int
	for i := range commands {
		c := &commands[i]
		switch {
		case !c.sameSlot():
			answers[i] = failed(crossSlot)
		case len(c.Keys) == 0: // the client takes none of these along with others
			answers[i] = readWords(s.client.Do(s.start(), s.build(c)))
		default:
			cmds, at = append(cmds, s.build(c)), append(at, i)
		}
	}
	load := false
	if len(cmds) > 0 {
		results := s.client.DoMulti(s.start(), cmds...)
		// One slot without a master makes the client send nothing at all. The commands for
		// other slots must not suffer from that.
		alone := len(cmds) > 1 && errors.Is(results[0].Error(), rueidis.ErrNoSlot)
		for j, r := range results {
			c, a := &commands[at[j]], &answers[at[j]]
			if alone {
				r = s.client.Do(s.start(), s.build(c))
			}
			*a = s.read(c, r)
			load = load || a.missing()
		}
	}
	if load {
		s.load(commands, answers)
	}
}
