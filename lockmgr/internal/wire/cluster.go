package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
	Kind: Topology, Ran: core.No, Final: true, Hint: "names of one command must share a slot: put the same text in braces into each, as in {orders}:1",
	Err: errors.New("the names are in several slots of the cluster"),
}

// inOneSlot calls exec for the commands whose keys share a slot. The others are answered: the
// client of a cluster would panic. No lane sends such a command.
func inOneSlot(commands []Command, answers []Answer, exec func([]Command, []Answer)) {
	var send []Command
	var at []int
	for i := range commands {
		if commands[i].sameSlot() {
			send, at = append(send, commands[i]), append(at, i)
		} else {
			answers[i] = failed(crossSlot)
		}
	}
	if len(send) == 0 {
		return
	}
	got := make([]Answer, len(send))
	exec(send, got)
	for j, i := range at {
		answers[i] = got[j]
	}
}

// execAnywhere runs commands whose keys may be on several masters. The client finds these, and
// follows MOVED and ASK. For what a script could not tell those who listen see listeners.
func (s link) execAnywhere(commands []Command, answers []Answer) {
	s.sendAnywhere(commands, answers)
	if s.channels == Classic {
		return
	}
	if tell, reached := unheard(commands, answers); len(tell) > 0 {
		told := make([]Answer, len(tell))
		s.sendAnywhere(tell, told)
		for i := range told {
			*reached[i] = max(*reached[i], told[i].subscribers())
		}
	}
}

// sendAnywhere sends commands one by one, at the same time: in a batch one slot without a master
// would hold up all others.
func (s link) sendAnywhere(commands []Command, answers []Answer) {
	ctx := s.start()
	var sending sync.WaitGroup
	for i := range commands {
		command := s.build(&commands[i])
		sending.Go(func() { answers[i] = s.read(&commands[i], s.client.Do(ctx, command)) })
	}
	sending.Wait()
	if slices.ContainsFunc(answers, func(a Answer) bool { return a.missing() }) {
		s.load(commands, answers)
	}
}

// A node is a Server that sends to one master of a cluster. Commands for slots that another
// master serves get a failure with Elsewhere set.
type node struct {
	cluster Redis
	addr    string
	client  atomic.Pointer[rueidis.Client] // of this node; nil until it is looked up
}

// Node returns a Server for the master at an address. It does no I/O.
func (s Redis) Node(addr string) Server { return &node{cluster: s, addr: addr} }

// unknownNode is the failure of a command for a node that the client does not know yet.
var unknownNode = &Failure{Kind: Unavailable, Ran: core.No, Elsewhere: true, Err: errors.New("the client does not know this node of the cluster yet")}

// Exec makes node a Server.
func (n *node) Exec(limit *Deadline, commands []Command, answers []Answer) {
	client := n.lookUp()
	if client == nil {
		for i := range answers {
			answers[i] = failed(unknownNode)
		}
		return
	}
	l := link{client: client, limit: limit, channels: n.cluster.Channels}
	l.exec(commands, answers)
	for i := range answers {
		f := answers[i].Failure
		if f.general() {
			n.client.Store(nil) // the client may have another connection to this node by now
		}
		if f != nil && errors.Is(f.Err, rueidis.ErrClosing) {
			f.Final = false // the client may have closed this connection only
		}
	}
}

// Dedicate is Redis.Dedicate for this node.
func (n *node) Dedicate() (Connection, error) {
	client := n.lookUp()
	if client == nil {
		return nil, unknownNode.Err
	}
	return Redis{Client: client, Channels: n.cluster.Channels}.Dedicate()
}

func (n *node) lookUp() rueidis.Client {
	if c := n.client.Load(); c != nil {
		return *c
	}
	c, known := n.cluster.Client.Nodes()[n.addr]
	if !known {
		return nil
	}
	n.client.Store(&c)
	return c
}
