package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"

	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A fakeNode is a node of a cluster. It answers CLUSTER MYID with id, CLUSTER SLOTS with slots, and
// other commands with OK.
type fakeNode struct {
	client rueidis.Client

	mu         sync.Mutex
	id         string
	slots      string                     // a RESP value
	reply      func(args []string) string // answers other commands; nil: OK
	commands   int                        // other than CLUSTER
	during     func()                     // called during each of these; may be nil
	whileAsked func()                     // called during each CLUSTER SLOTS; may be nil
	asked      int                        // CLUSTER SLOTS
	dialled    func(context.Context)      // called during each dial; may be nil
	last       net.Conn                   // the node's end of the last connection
}

func newFakeNode(t *testing.T, id, slots string) *fakeNode { return newFakeNodeOf(t, id, slots, true) }

// newFakeNodeOf returns a node whose client has AlwaysPipelining as given.
func newFakeNodeOf(t *testing.T, id, slots string, pipelining bool) *fakeNode {
	n := &fakeNode{id: id, slots: slots}
	var served sync.WaitGroup
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"a:1"}, ForceSingleClient: true, DisableCache: true,
		DisableRetry: true, AlwaysPipelining: pipelining, PipelineMultiplex: -1, // as lockmgr.TuneClient sets them
		DialCtxFn: func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if n.dialled != nil {
				n.dialled(ctx)
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			near, far := net.Pipe()
			n.last = far
			served.Go(func() { resp.Serve(far, n.answer) })
			return near, nil
		},
	})
	require.NoError(t, err)
	n.client = c
	t.Cleanup(func() { c.Close(); served.Wait() })
	return n
}

func (n *fakeNode) answer(args []string) string {
	if reply, ok := resp.Greet(args); ok {
		return reply
	}
	command := strings.Join(args, " ")
	if wait := n.counted(command); wait != nil {
		wait() // without the mutex: the fake clock stands still while anybody waits for a mutex
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case command == "CLUSTER MYID":
		return "+" + n.id + "\r\n"
	case command == "CLUSTER SLOTS":
		return n.slots
	case n.reply != nil:
		return n.reply(args)
	}
	return "+OK\r\n"
}

// counted counts a command, and returns what is called during it, or nil.
func (n *fakeNode) counted(command string) func() {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch command {
	case "CLUSTER MYID":
		return nil
	case "CLUSTER SLOTS":
		n.asked++
		return n.whileAsked
	}
	n.commands++
	return n.during
}

func (n *fakeNode) says(slots string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slots = slots
}

// becomes makes another node answer at the address of a node.
func (n *fakeNode) becomes(id, slots string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.id, n.slots = id, slots
}

// counts returns how many commands were answered since the last call, and how often the node was
// asked for the layout.
func (n *fakeNode) counts() (commands, asked int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	commands, asked = n.commands, n.asked
	n.commands, n.asked = 0, 0
	return commands, asked
}

// timesSent and timesAsked are one of the counts each. They begin both again.
func (n *fakeNode) timesSent() int {
	commands, _ := n.counts()
	return commands
}

func (n *fakeNode) timesAsked() int {
	_, asked := n.counts()
	return asked
}

// slotsReply is an answer to CLUSTER SLOTS. Each master is host:ID, or host:ID:ID of its replica.
// They have a slot each.
func slotsReply(masters ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(masters))
	for i, m := range masters {
		f := strings.Split(m, ":")
		fmt.Fprintf(&b, "*%d\r\n:%d\r\n:%d\r\n", 1+len(f), i, i)
		for _, id := range f[1:] {
			fmt.Fprintf(&b, "*3\r\n+%s\r\n:1\r\n+%s\r\n", f[0], id)
		}
	}
	return b.String()
}

// A fakeCluster is the client of three nodes: a, b and c. elsewhere are nodes that it does not
// know, but that can be opened.
type fakeCluster struct {
	*fakeClient
	known, elsewhere map[string]*fakeNode
	opened           []string
}

var ours, theirs = slotsReply("a:A:RA", "b:B:RB", "c:C:RC"), slotsReply("b:X", "y:Y")

func newFakeCluster(t *testing.T) (c *fakeCluster, n *Nodes) {
	c = &fakeCluster{fakeClient: newFakeClient(), known: map[string]*fakeNode{}, elsewhere: map[string]*fakeNode{}}
	t.Cleanup(c.Close)
	for _, id := range []string{"A", "B", "C"} {
		c.known[strings.ToLower(id)+":1"] = newFakeNode(t, id, ours)
	}
	c.nodes = func() map[string]rueidis.Client {
		out := map[string]rueidis.Client{}
		for addr, node := range c.known {
			out[addr] = node.client
		}
		return out
	}
	n = nodesOf(c, func(addr string) (rueidis.Client, error) {
		if c.elsewhere[addr] == nil {
			return nil, errors.New("nobody listens there")
		}
		c.opened = append(c.opened, addr)
		return c.elsewhere[addr].client, nil
	})
	t.Cleanup(n.Close) // nodes may still be asked
	look(t, n)
	return c, n
}

func nodesOf(c rueidis.Client, open func(addr string) (rueidis.Client, error)) *Nodes {
	n := NewNodes(open)
	n.Use(c, wire.Classic)
	return n
}

// layoutOnce calls Layout, and waits until no node is asked any more: a test may then change the
// nodes.
func layoutOnce(t *testing.T, n *Nodes) ([]wire.Shard, error) {
	defer n.background.Wait()
	return n.Layout(t.Context())
}

// look is a layoutOnce that succeeds.
func look(t *testing.T, n *Nodes) []wire.Shard {
	t.Helper()
	layout, err := layoutOnce(t, n)
	require.NoError(t, err)
	return layout
}

func addrsOf(layout []wire.Shard) (out []string) {
	for _, s := range layout {
		out = append(out, s.Addr)
	}
	return out
}

func TestSameCluster(t *testing.T) {
	layout := func(masters ...string) (out []wire.Shard) {
		for _, m := range masters {
			out = append(out, wire.Shard{Addr: "x:1", Nodes: strings.Split(m, ":")})
		}
		return out
	}
	known := layout("A:RA", "B:RB", "C:RC")
	for name, one := range map[string]struct {
		known, answer []wire.Shard
		same          bool
	}{
		"the first":                {nil, known, true},
		"no change":                {known, known, true},
		"all failed over":          {known, layout("RA", "RB:B", "RC"), true},
		"one left":                 {known, layout("A", "B"), true},
		"many came":                {known, layout("A", "B", "D", "E", "F", "G", "H"), true},
		"one of ours":              {known, layout("B", "X", "Y"), false},
		"none of ours":             {known, layout("X", "Y", "Z"), false},
		"a node alone":             {known, nil, false},
		"of two, one left":         {layout("A", "B"), layout("A"), true},
		"IDs are not known before": {[]wire.Shard{{Addr: "x:1"}}, layout("X"), true},
	} {
		require.Equal(t, one.same, sameCluster(one.known, one.answer), name)
	}
}

// Strangers are the masters' addresses at which another node answers now.
func TestNodes_Strangers(t *testing.T) {
	c, n := newFakeCluster(t)
	b := c.known["b:1"]
	require.Empty(t, n.Strangers(t.Context()))
	for what, is := range map[string]struct {
		id, slots string
		strange   bool
	}{
		"another cluster's":                {"X", theirs, true},
		"another cluster's, the same node": {"B", theirs, true},
		"another node":                     {"X", ours, true},
		"a single server":                  {"B", "-ERR This instance has cluster support disabled\r\n", true},
		"who does not answer is none":      {"B", "-WRONGPASS\r\n", false},
		"ours":                             {"B", ours, false},
	} {
		b.becomes(is.id, is.slots)
		require.Equal(t, is.strange, slices.Equal([]string{"b:1"}, n.Strangers(t.Context())), what)
	}
	delete(c.known, "b:1")
	require.Empty(t, n.Strangers(t.Context()))
}

// A node at which another cluster's layout was seen gets no command.
func TestNode_WasSeenToBeAStranger(t *testing.T) {
	c, n := newFakeCluster(t)
	s := n.Node("b:1")
	require.Nil(t, execOn(s, getOf("x"))[0].Failure)
	c.known["b:1"].says(theirs) // the node keeps its ID in the other cluster
	for range 20 {              // in random order
		look(t, n)
	}
	require.Equal(t, wire.StrangeNode, execOn(s, getOf("x"))[0].Failure)
}

// A master that serves a part of its slots only is one shard, and counts once.
func TestWithUnserved(t *testing.T) {
	shard := func(id string, slots ...[2]int) wire.Shard {
		return wire.Shard{Addr: strings.ToLower(id) + ":1", Slots: slots, Nodes: []string{id}}
	}
	known := []wire.Shard{shard("A", [2]int{0, 9}), shard("B", [2]int{10, 19}, [2]int{30, 39})}
	answer := []wire.Shard{shard("A", [2]int{0, 3}, [2]int{5, 5}), shard("C", [2]int{15, 31})}
	require.Equal(t, []wire.Shard{
		shard("A", [2]int{0, 3}, [2]int{5, 5}, [2]int{4, 4}, [2]int{6, 9}),
		shard("C", [2]int{15, 31}),
		shard("B", [2]int{10, 14}, [2]int{32, 39}),
	}, withUnserved(answer, known))
	require.Equal(t, known, withUnserved(slices.Clone(known), known))
}

// shardReply is an answer to CLUSTER SLOTS with one shard. The nodes are host:ID, the master first.
func shardReply(nodes ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*1\r\n*%d\r\n:0\r\n:%d\r\n", 2+len(nodes), wire.Slots-1)
	for _, node := range nodes {
		host, id, _ := strings.Cut(node, ":")
		fmt.Fprintf(&b, "*3\r\n+%s\r\n:1\r\n+%s\r\n", host, id)
	}
	return b.String()
}

// A cluster has one master and a replica. The replica becomes the master, then the old master comes
// back as its replica. Some answers name one of them only. Each of the two is followed when the
// other one has died.
func TestNodes_LayoutOfOneShard(t *testing.T) {
	for name, after := range map[string]time.Duration{"soon": memberRest / 2, "late": 2 * memberRest} {
		t.Run(name, func(t *testing.T) {
			c, n := newFakeCluster(t)
			now := time.Now()
			n.now = func() time.Time { return now }
			n.layout = nil
			clear(n.members)
			clear(c.known)
			c.known["a:1"] = newFakeNode(t, "A", shardReply("a:A", "b:B"))
			look(t, n)

			clear(c.known)
			c.elsewhere["b:1"] = newFakeNode(t, "B", shardReply("b:B")) // its client does not know it yet
			c.elsewhere["a:1"] = newFakeNode(t, "A", shardReply("b:B"))
			layout := look(t, n)
			require.Equal(t, []string{"b:1"}, addrsOf(layout))

			delete(c.elsewhere, "b:1")
			clear(n.peers)
			c.elsewhere["a:1"] = newFakeNode(t, "A", shardReply("a:A"))
			now = now.Add(after)
			if name == "late" {
				n.withMembers(n.layout)
			}
			layout, err := layoutOnce(t, n)
			if name == "late" {
				require.Error(t, err, "nothing says that a is one of the cluster")
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{"a:1"}, addrsOf(layout))
			require.Equal(t, []string{"A", "B"}, layout[0].Nodes)
		})
	}
}

func TestNodes_LayoutAsksOneNode(t *testing.T) {
	c, n := newFakeCluster(t)
	total := func() (sum int) {
		for _, node := range c.known {
			sum += node.timesAsked()
		}
		return sum
	}
	total()
	look(t, n)
	require.Equal(t, 1, total())
}

func TestNodes_LayoutOfNodesThatHang(t *testing.T) {
	c, n := newFakeCluster(t)
	answers := make(chan struct{})
	for i := range 60 {
		hangs := newFakeNode(t, "D", ours)
		hangs.whileAsked = func() { <-answers }
		c.known[fmt.Sprint("h:", i)] = hangs
	}
	defer close(answers)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	for range 3 {
		_, err := n.Layout(ctx)
		require.NoError(t, err)
	}
}

// The first layout comes from a node that belongs to a cluster, if there is one.
func TestNodes_FirstLayout(t *testing.T) {
	for range 10 {
		c, _ := newFakeCluster(t)
		c.known["a:1"].says("*0\r\n")
		c.known["b:1"].says("*0\r\n")
		n := nodesOf(c, nil)
		layout := look(t, n)
		require.Len(t, layout, 3)
		c.known["c:1"].says("*0\r\n")
		layout = look(t, nodesOf(c, nil))
		require.Empty(t, layout, "each node is alone")
	}
}

// If the client follows another cluster, the masters are asked all the same.
func TestNodes_LayoutWhileTheClientIsAstray(t *testing.T) {
	c, n := newFakeCluster(t)
	a := c.known["a:1"]
	c.known = map[string]*fakeNode{"b:1": newFakeNode(t, "X", theirs), "y:1": newFakeNode(t, "X", theirs)}
	_, err := layoutOnce(t, n)
	require.ErrorIs(t, err, errStranger, "a and c are down, too")

	c.elsewhere = map[string]*fakeNode{"a:1": a}
	for range 3 {
		layout := look(t, n)
		require.Equal(t, []string{"a:1", "b:1", "c:1"}, addrsOf(layout))
	}
	require.Equal(t, []string{"a:1"}, c.opened, "once")
	n.Close()
	_, f := n.connect("a:1")
	require.Equal(t, wire.Closed, f.Kind)
	_, err = n.Client(t.Context(), "a:1")
	require.Error(t, err)
}

// A cluster that has lost most of its masters goes on with the others. An answer of a node that knows
// more of the cluster comes first. Another cluster is followed if that one answers at the addresses
// of most masters. Where answers do not agree a look fails.
func TestNodes_Layout(t *testing.T) {
	rest, half, five := slotsReply("a:A:RA", "a:A:RA", "a:A:RA"), slotsReply("a:A", "b:B"), slotsReply("a:A", "b:B", "c:C", "d:D", "e:E")
	renewed, halfRenewed, alone := slotsReply("c:X", "b:Y", "a:Z"), slotsReply("a:X", "b:Y"), "*0\r\n"
	for name, one := range map[string]struct {
		before  string   // what all say at first
		a, b, c string   // what they say then; empty: it is down
		want    []string // nil: errStranger
	}{
		"most are gone, and one does not know":   {ours, rest, rest, ours, []string{"a:1 A", "b:1 B", "c:1 C"}},
		"most are gone":                          {ours, rest, rest, slotsReply("x:X", "y:Y"), []string{"a:1 A"}},
		"of those that know few, one knows more": {five, slotsReply("a:A"), half, slotsReply("c:C"), []string{"a:1 A", "b:1 B"}},
		"all were replaced":                      {ours, renewed, renewed, "", []string{"c:1 X", "b:1 Y", "a:1 Z"}},
		"two other clusters":                     {ours, renewed, slotsReply("p:P", "q:Q"), "", nil},
		"nodes that are alone":                   {ours, alone, alone, "", nil},
		"half were replaced":                     {half, halfRenewed, "-LOADING\r\n", "", nil},
		"both were replaced":                     {half, halfRenewed, halfRenewed, "", []string{"a:1 X", "b:1 Y"}},
	} {
		for range 10 { // in random order
			c, _ := newFakeCluster(t)
			for _, node := range c.known {
				node.says(one.before)
			}
			n := nodesOf(c, func(string) (rueidis.Client, error) { return nil, errors.New("nobody listens there") })
			look(t, n)
			for addr, answer := range map[string]string{"a:1": one.a, "b:1": one.b, "c:1": one.c} {
				if c.known[addr].says(answer); answer == "" {
					delete(c.known, addr)
				}
			}
			layout, err := layoutOnce(t, n)
			if one.want == nil {
				require.ErrorIs(t, err, errStranger, name)
				continue
			}
			require.NoError(t, err, name)
			var got []string
			for _, s := range layout {
				got = append(got, s.Addr+" "+s.Nodes[0])
			}
			require.Equal(t, one.want, got, name)
			if name == "most are gone" {
				require.Nil(t, execOn(n.Node("a:1"), getOf("x"))[0].Failure, name)
			}
		}
	}
}

// Another cluster is not followed if the look ends before all nodes have answered. Those that have
// not may be of this cluster.
func TestNodes_LayoutThatEndsBeforeAllHaveAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, n := newFakeCluster(t)
		c.known["a:1"].says(theirs)
		c.known["b:1"].says(theirs)
		c.known["c:1"].whileAsked = func() { time.Sleep(askTime) }
		for range 20 { // in random order
			ctx, cancel := context.WithTimeout(t.Context(), askTime/2)
			defer cancel()
			_, err := n.Layout(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			n.background.Wait()
		}
	})
}

// Nodes that may not dial ask only those that the client knows. The error is what these have
// answered.
func TestNodes_LayoutWithoutADial(t *testing.T) {
	c, n := newFakeCluster(t)
	n.open = nil
	c.known = map[string]*fakeNode{"b:1": c.known["b:1"]}
	c.known["b:1"].says("-LOADING\r\n")
	_, err := layoutOnce(t, n)
	require.ErrorContains(t, err, "LOADING")
}

func layoutOf(t *testing.T, n *fakeNode, addr string) []wire.Shard {
	a := nodeAnswer(t.Context(), n.client, addr)
	require.NoError(t, a.err)
	return a.layout
}

// A cluster may forget the address of a master and keep its slots. The slots stay with their last
// shard, and a node of another cluster at that address stays a stranger.
func TestNodes_LayoutKeepsUnservedSlots(t *testing.T) {
	c, n := newFakeCluster(t)
	c.known["b:1"].becomes("X", theirs)
	forgot := strings.Replace(ours, "+b\r\n:1\r\n", "+\r\n:0\r\n", 1)
	c.known["a:1"].says(forgot)
	c.known["c:1"].says(forgot)
	for range 20 {
		layout := look(t, n)
		require.Equal(t, []string{"a:1", "c:1", "b:1"}, addrsOf(layout))
		require.Equal(t, wire.Shard{Addr: "b:1", Slots: [][2]int{{1, 1}}, Nodes: []string{"B", "RB"}, Addrs: []string{"b:1", "b:1"}}, layout[2])
		require.Equal(t, wire.StrangeNode, execOn(n.Node("b:1"), getOf("x"))[0].Failure)
	}
}

// A node gets no command before it has said that it is the node of the layout, in this cluster.
func TestNode_SaysWhichNodeItIs(t *testing.T) {
	for name, one := range map[string]struct {
		id, slots string
		want      *wire.Failure
	}{
		"ours":                     {"B", ours, nil},
		"ours, after failovers":    {"B", slotsReply("a:RA", "b:RB", "d:RC"), nil},
		"another node":             {"X", ours, wire.StrangeNode},
		"of another cluster":       {"B", theirs, wire.StrangeNode},
		"of no cluster":            {"B", "*0\r\n", wire.StrangeNode},
		"a single server":          {"B", "-ERR This instance has cluster support disabled\r\n", wire.StrangeNode},
		"the user may not ask":     {"B", "-NOPERM User x has no permissions to run the 'cluster|slots' command\r\n", &wire.Failure{Kind: wire.Permission}},
		"the password is wrong":    {"B", "-WRONGPASS\r\n", &wire.Failure{Kind: wire.Permission}},
		"the server is not usable": {"B", "-LOADING\r\n", &wire.Failure{Kind: wire.Unavailable}},
	} {
		t.Run(name, func(t *testing.T) {
			c, n := newFakeCluster(t)
			b := c.known["b:1"]
			b.becomes(one.id, one.slots)
			b.counts()
			s := n.Node("b:1")
			for range 3 {
				f := execOn(s, getOf("x"))[0].Failure
				if one.want == nil {
					require.Nil(t, f)
					continue
				}
				require.Equal(t, one.want.Kind, f.Kind)
				require.Equal(t, core.No, f.Ran)
				require.False(t, f.Elsewhere)
			}
			commands, asked := b.counts()
			if one.want == nil {
				require.Equal(t, 3, commands)
				require.Equal(t, 1, asked)
			} else {
				require.Zero(t, commands)
				require.Equal(t, 3, asked, "it may be one of the cluster by now")
			}
			_, err := n.Client(t.Context(), "b:1")
			require.Equal(t, one.want == nil, err == nil)
		})
	}
}

// The connection to a node is looked up again after a failure: the client replaces it, and closes
// the old one, when the cluster changes. The new one has to say which node it is.
func TestNode_IsLookedUpAgain(t *testing.T) {
	c, n := newFakeCluster(t)
	n.open = nil
	a := c.known["a:1"]
	delete(c.known, "a:1")
	s := n.Node("a:1")

	f := execOn(s, getOf("a"))[0].Failure
	require.True(t, f.Elsewhere, "the client may find it by a redirection")
	require.Equal(t, core.No, f.Ran)

	c.known["a:1"] = a
	a.counts()
	for range 3 {
		require.Nil(t, execOn(s, getOf("a"))[0].Failure)
	}
	commands, asked := a.counts()
	require.Equal(t, 3, commands)
	require.Equal(t, 1, asked)

	c.known["a:1"] = newFakeNode(t, "X", theirs)
	a.client.Close()
	f = execOn(s, getOf("a"))[0].Failure
	require.False(t, f.Final, "the client may have closed this connection only")
	require.Equal(t, core.Maybe, f.Ran)
	f = execOn(s, getOf("a"))[0].Failure
	require.Equal(t, wire.StrangeNode, f)
	c.known["a:1"].becomes("A", ours)
	require.Nil(t, execOn(s, getOf("a"))[0].Failure)
}

// Another node may answer at an address at any time. A script says which node is meant, and does
// nothing at another one. With a command that is no script the node is asked for its ID.
func TestNode_ChangesUnseen(t *testing.T) {
	c, n := newFakeCluster(t)
	b, s := c.known["b:1"], n.Node("b:1")
	var last string // the last argument of a script
	b.reply = func(args []string) string {
		switch {
		case args[0] != "EVALSHA":
			return "+OK\r\n"
		case args[len(args)-1] != b.id: // as onlyAt does
			return "-ELSEWHERE this is another node\r\n"
		}
		last = args[len(args)-1]
		return ":1\r\n"
	}
	script := []wire.Command{wire.Encode(manager, released("x", 1))}
	require.Nil(t, execOn(s, script)[0].Failure)
	require.Equal(t, "B", last)
	require.NotContains(t, script[0].Args, "B", "the command stays as it was")
	b.becomes("X", ours)
	require.Equal(t, wire.StrangeNode, execOn(s, script)[0].Failure)
	b.becomes("B", ours)
	require.Nil(t, execOn(s, script)[0].Failure)

	require.Nil(t, execOn(s, getOf("x"))[0].Failure)
	b.becomes("X", ours)
	got := execOn(s, append(getOf("x"), script...))
	require.Equal(t, wire.StrangeNode.Err, got[0].Failure.Err)
	require.Equal(t, core.Maybe, got[0].Failure.Ran, "at the other node")
	require.Equal(t, wire.StrangeNode, got[1].Failure)
}

// The layout may name another node at an address. Scripts then mean that one.
func TestNode_OfANewLayout(t *testing.T) {
	c, n := newFakeCluster(t)
	b, s := c.known["b:1"], n.Node("b:1")
	require.Nil(t, execOn(s, getOf("x"))[0].Failure)
	b.id = "RB"
	require.NotNil(t, execOn(s, getOf("x"))[0].Failure)
	for _, node := range c.known {
		node.says(slotsReply("a:A", "b:RB:B", "c:C"))
	}
	look(t, n)
	require.Nil(t, execOn(s, getOf("x"))[0].Failure)
}

// Before the first layout no command goes to any node, and the client of the cluster may be
// missing.
func TestNodes_Later(t *testing.T) {
	c, _ := newFakeCluster(t)
	unmet := &wire.Failure{Kind: wire.Unavailable, Ran: core.No, Err: errors.New("not met")}
	n := NewNodes(func(string) (rueidis.Client, error) { t.Error("a node is dialled"); return nil, errors.New("no") })
	t.Cleanup(n.Close)
	n.Later(func(context.Context) *wire.Failure { return unmet })
	require.Same(t, unmet, execOn(n.Node("a:1"), getOf("x"))[0].Failure)
	_, err := n.Client(t.Context(), "a:1")
	require.ErrorIs(t, err, unmet.Err)
	require.Empty(t, n.Strangers(t.Context()))
	n.Use(c, wire.Classic)
	look(t, n)
	unmet = nil
	require.Nil(t, execOn(n.Node("a:1"), getOf("x"))[0].Failure)
}

// Servers before version 7.0 do not know sharded channels. That a user may not ask is no such
// answer.
func TestKnowsSharded(t *testing.T) {
	for answer, knows := range map[string]bool{
		"*0\r\n": true,
		"-ERR Unknown PUBSUB subcommand or wrong number of arguments for 'SHARDNUMSUB'\r\n": false,
		"-ERR unknown subcommand 'SHARDNUMSUB'. Try PUBSUB HELP.\r\n":                       false,
		"-NOPERM User x has no permissions to run the 'pubsub|shardnumsub' command\r\n":     true,
		"-LOADING Redis is loading the dataset in memory\r\n":                               true,
	} {
		node := newFakeNode(t, "D", ours)
		node.reply = func([]string) string { return answer }
		c := newFakeClient()
		defer c.Close()
		c.nodes = func() map[string]rueidis.Client { return map[string]rueidis.Client{"a:1": node.client} }
		require.Equal(t, knows, nodesOf(c, nil).KnowsSharded(), answer)
	}
}

// A node that hangs does not hide what the others say.
func TestKnowsSharded_OneNodeHangs(t *testing.T) {
	for range 5 { // the order is random
		c, until := newFakeClient(), make(chan struct{})
		defer c.Close()
		defer close(until)
		hung, other := newFakeNode(t, "D", ours), newFakeNode(t, "D", ours)
		hung.during = func() { <-until }
		other.reply = func([]string) string { return "-ERR unknown subcommand 'SHARDNUMSUB'. Try PUBSUB HELP.\r\n" }
		c.nodes = func() map[string]rueidis.Client {
			return map[string]rueidis.Client{"a:1": hung.client, "b:1": other.client}
		}
		require.False(t, nodesOf(c, nil).KnowsSharded())
	}
}

// A node without a name tells its address by the metadata. Without that it counts as being on the
// host that was asked.
func TestLayout_HostThatIsNotKnown(t *testing.T) {
	for host, want := range map[string]string{
		"$1\r\n?\r\n:1\r\n+b\r\n%2\r\n+hostname\r\n+\r\n+ip\r\n+10.0.0.2\r\n": "10.0.0.2:1",
		"$1\r\n?\r\n:1\r\n+b\r\n*2\r\n+ip\r\n+10.0.0.2\r\n":                   "10.0.0.2:1",
		"$1\r\n?\r\n:1\r\n+b\r\n*0\r\n":                                       "asked:1",
		"_\r\n:1\r\n+b\r\n%1\r\n+ip\r\n+10.0.0.2\r\n":                         "asked:1",
		"+\r\n:1\r\n+b\r\n*0\r\n":                                             "asked:1",
	} {
		n := newFakeNode(t, "A", "*1\r\n*3\r\n:0\r\n:1\r\n*4\r\n"+host)
		layout := layoutOf(t, n, "asked:1")
		require.Equal(t, []string{want}, addrsOf(layout), host)
	}
}

// An answer to CLUSTER SLOTS that no server sends is an error, and no layout.
func TestLayout_BadReplies(t *testing.T) {
	const node = "*3\r\n+a\r\n:1\r\n+A\r\n"
	for _, reply := range []string{
		":1\r\n", "*1\r\n:1\r\n", "*1\r\n*2\r\n:0\r\n:1\r\n",
		"*1\r\n*3\r\n+x\r\n:1\r\n" + node, "*1\r\n*3\r\n:0\r\n+x\r\n" + node,
		"*1\r\n*3\r\n:-1\r\n:1\r\n" + node, "*1\r\n*3\r\n:0\r\n:16384\r\n" + node, "*1\r\n*3\r\n:2\r\n:1\r\n" + node,
		"*1\r\n*3\r\n:0\r\n:1\r\n+a\r\n", "*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n+a\r\n", "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n+a\r\n+x\r\n",
	} {
		n := newFakeNode(t, "A", reply)
		a := nodeAnswer(t.Context(), n.client, "asked:1")
		require.Error(t, a.err, "%q", reply)
		require.Empty(t, a.layout, "%q", reply)
	}
}
