package wire

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// Nodes are the nodes of a cluster. They send commands to one master, or through the client of the
// cluster to any.
//
// The address of a node may come to belong to a node of another cluster. The client does not
// notice: it takes over the layout that any node tells it, and may so follow the other cluster. A
// lock that is held here would be free there. So Nodes keep the layout that counts, with the IDs of
// the nodes, and use a node only if its answer to CLUSTER SLOTS is about the same cluster:
//
//	Layout          skips the answers of other clusters
//	to one master   its first command, and the first after a failure, is CLUSTER SLOTS
//	a new dial      answers that may have come over it count after another CLUSTER SLOTS
//	to any          refused while the client knows less than half of the masters
//
// The client makes a connection anew without a failure if nothing was under way when it broke. Only
// Dials tell of that. Without them, such a connection may lead to a node of another cluster until
// the next failure, or until the next look at the layout.
type Nodes struct {
	any   Redis                                     // the client of the cluster
	open  func(addr string) (rueidis.Client, error) // nil: the client's nodes are all
	dials *Dials                                    // of the client; nil: not known

	mu        sync.Mutex
	layout    []Shard                   // the newest that counts; empty before the first
	own       map[string]rueidis.Client // those that were opened, by address
	strangers map[string]bool           // addresses of masters that answer from another cluster
	tell      func(addr string)         // called for a new one; may be nil
	closed    bool
}

// NewNodes returns the nodes of the cluster that a client is of. open connects to a node that the
// client does not know although it should. It may block for as long as a dial. Without it, such a
// node can't be used until the client knows it. dials count those of client and open. They may be
// nil. Close closes what was opened.
func NewNodes(client rueidis.Client, channels Channels, open func(addr string) (rueidis.Client, error), dials *Dials) *Nodes {
	return &Nodes{
		any: Redis{Client: client, Cluster: true, Channels: channels}, open: open, dials: dials,
		own: make(map[string]rueidis.Client), strangers: make(map[string]bool),
	}
}

// Close closes the connections to nodes that were opened here.
func (n *Nodes) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for _, c := range n.own {
		c.Close()
	}
	clear(n.own)
}

// OnStranger has tell called when a master's address turns out to belong to a node of another
// cluster. tell must not block.
func (n *Nodes) OnStranger(tell func(addr string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tell = tell
}

// Strangers returns the addresses of masters at which a node of another cluster was seen last, in
// order.
func (n *Nodes) Strangers() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.strangers))
}

// errStranger says that no node has answered that is one of the cluster.
var errStranger = errors.New("the nodes that answer are of another cluster")

// Layout asks the nodes of the cluster, one after the other, which slots each master serves. The
// first answer counts that is about this cluster. Each node has askTime to answer. The order is
// random: the answer of a node that the others have left behind is old.
//
// If more than half of the masters' addresses answer from another cluster, the one that was known
// is gone. Its layout is given up for the other one then, for instance after all servers of a test
// were made anew.
func (n *Nodes) Layout(ctx context.Context) ([]Shard, error) {
	n.mu.Lock()
	known := n.layout
	n.mu.Unlock()
	err := errors.New("the client knows no node of the cluster")
	var other []Shard
	strangers := 0
	ask := func(addr string, node rueidis.Client) (answer []Shard, counts bool) {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		if answer, err = layoutOf(ctx, node, addr); err != nil {
			return nil, false
		}
		if n.note(addr, answer) {
			return answer, true
		}
		if len(answer) > 0 && isMaster(known, addr) {
			other = answer
			strangers++
		}
		err = errStranger
		return nil, false
	}
	nodes := n.any.Client.Nodes()
	addrs := slices.Collect(maps.Keys(nodes))
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	for _, addr := range addrs {
		if answer, counts := ask(addr, nodes[addr]); counts {
			return n.adopt(answer), nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
	for _, s := range known { // the client may follow another cluster
		if ctx.Err() != nil {
			return nil, err
		}
		if nodes[s.Addr] != nil {
			continue
		}
		node, failure := n.client(s.Addr)
		if failure != nil {
			continue
		}
		if answer, counts := ask(s.Addr, node); counts {
			return n.adopt(answer), nil
		}
	}
	if 2*strangers > len(known) {
		return n.adopt(other), nil
	}
	return nil, err
}

// adopt makes an answer the layout that counts, and returns that. Slots that no master serves by the
// answer stay with the shard that had them. Connections to nodes that are no masters any more are
// closed.
func (n *Nodes) adopt(answer []Shard) []Shard {
	n.mu.Lock()
	defer n.mu.Unlock()
	if sameCluster(n.layout, answer) {
		answer = withUnserved(answer, n.layout)
	} else {
		clear(n.strangers) // those that are left belong to it
	}
	n.layout = answer
	left := func(addr string) bool { return !isMaster(answer, addr) }
	maps.DeleteFunc(n.strangers, func(addr string, _ bool) bool { return left(addr) })
	for addr, c := range n.own {
		if left(addr) {
			delete(n.own, addr)
			go c.Close() // it waits for the commands under way
		}
	}
	return answer
}

func isMaster(layout []Shard, addr string) bool {
	return slices.ContainsFunc(layout, func(s Shard) bool { return s.Addr == addr })
}

// note notes what the node at an address has answered. It reports whether that comes from this
// cluster.
func (n *Nodes) note(addr string, answer []Shard) (ours bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if sameCluster(n.layout, answer) {
		delete(n.strangers, addr)
		return true
	}
	if isMaster(n.layout, addr) {
		if !n.strangers[addr] && n.tell != nil {
			n.tell(addr)
		}
		n.strangers[addr] = true
	}
	return false
}

// unknownNode is the failure of a command for a node that the client does not know yet.
var unknownNode = &Failure{Kind: Unavailable, Ran: core.No, Elsewhere: true, Err: errors.New("the client does not know this node of the cluster yet")}

// strangeNode is the failure of a command for a master whose address has a node of another
// cluster.
var strangeNode = &Failure{
	Kind: Unavailable, Ran: core.No, Err: errors.New("a node of another cluster answers at the address of this master"),
	Hint: "give each node of a cluster an address that no other cluster uses; CLUSTER FORGET removes a node that is gone",
}

// client returns a client of the node at an address. It blocks for as long as a dial if the client of
// the cluster does not know the node.
func (n *Nodes) client(addr string) (rueidis.Client, *Failure) {
	if c, known := n.any.Client.Nodes()[addr]; known {
		return c, nil
	}
	if n.open == nil {
		return nil, unknownNode
	}
	n.mu.Lock()
	c := n.own[addr]
	n.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := n.open(addr)
	if err != nil {
		return nil, DialFailure(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch first := n.own[addr]; {
	case n.closed:
		go c.Close()
		return nil, &Failure{Kind: Closed, Ran: core.No, Final: true}
	case first != nil: // another caller was faster
		go c.Close()
		return first, nil
	}
	n.own[addr] = c
	return c, nil
}

// Client returns a client of the master at an address after it has asked the node for the layout
// of its cluster. It blocks for as long as a dial and that answer. It fails if the node is one of
// another cluster.
func (n *Nodes) Client(ctx context.Context, addr string) (rueidis.Client, error) {
	c, f := n.prove(ctx, addr)
	if f != nil {
		return nil, f.Err
	}
	return c.client, nil
}

// A provedClient is a client of a node, and how many dials to the address there were when the node
// proved to be one of the cluster.
type provedClient struct {
	client rueidis.Client
	dials  uint64
}

// mostProofs bounds how often a node is asked that is dialled meanwhile.
const mostProofs = 5

// prove returns a client of the node at an address after the node has proved to be one of the
// cluster.
func (n *Nodes) prove(ctx context.Context, addr string) (*provedClient, *Failure) {
	c, f := n.client(addr)
	if f != nil {
		return nil, f
	}
	// The answer may have come over the connection before the dial, or over the one after it.
	for range mostProofs {
		dials := n.dials.to(addr)
		if f := n.ask(ctx, c, addr); f != nil {
			return nil, f
		}
		if n.dials.to(addr) == dials {
			return &provedClient{c, dials}, nil
		}
	}
	return nil, &Failure{Kind: Unavailable, Ran: core.No, Err: errors.New("the connections to this node of the cluster do not last")}
}

// ask asks a node for the layout of its cluster. It returns nil if that is this cluster.
func (n *Nodes) ask(ctx context.Context, c rueidis.Client, addr string) *Failure {
	answer, err := layoutOf(ctx, c, addr)
	e, refused := rueidis.IsRedisErr(err)
	switch {
	case err == nil:
	case refused && strings.HasPrefix(e.Error(), "NOPERM"):
		return nil // the other nodes may be asked
	case refused && strings.Contains(e.Error(), "cluster support disabled"): // a single server
	default:
		f := *failureOf(err)
		f.Ran = core.No // the command that this is done for
		return &f
	}
	if !n.note(addr, answer) {
		return strangeNode
	}
	return nil
}

// Exec makes Nodes a Server that sends to any master: the client of the cluster finds it.
func (n *Nodes) Exec(limit *Deadline, commands []Command, answers []Answer) {
	refuse := func(ran core.Ran) {
		for i := range answers {
			answers[i] = failed(&Failure{Kind: Unavailable, Ran: ran, Err: errStranger, Hint: strangeNode.Hint})
		}
	}
	if !n.followed() {
		refuse(core.No)
		return
	}
	n.any.Exec(limit, commands, answers)
	if !n.followed() {
		refuse(core.Maybe) // perhaps at another cluster
	}
}

// followed reports whether the client follows this cluster: it knows at least half of the masters,
// and none at whose address a node of another cluster is.
func (n *Nodes) followed() bool {
	nodes := n.any.Client.Nodes()
	n.mu.Lock()
	defer n.mu.Unlock()
	found := 0
	for _, s := range n.layout {
		if nodes[s.Addr] != nil {
			if n.strangers[s.Addr] {
				return false
			}
			found++
		}
	}
	return 2*found >= len(n.layout)
}

// Dials count the connections that a client has made to each address.
type Dials struct {
	mu sync.Mutex
	by map[string]uint64
}

// Add counts a new connection to an address, before anything is sent over it.
func (d *Dials) Add(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = make(map[string]uint64)
	}
	d.by[addr]++
}

// to returns how many connections to an address there were.
func (d *Dials) to(addr string) uint64 {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.by[addr]
}

// A node is a Server that sends to one master of a cluster. Commands for slots that another
// master serves get a failure with Elsewhere set.
type node struct {
	of     *Nodes
	addr   string
	client atomic.Pointer[provedClient] // of this node; nil until it is looked up
}

// Node returns a Server for the master at an address. It does no I/O.
func (n *Nodes) Node(addr string) Server { return &node{of: n, addr: addr} }

// Exec makes node a Server.
func (n *node) Exec(limit *Deadline, commands []Command, answers []Answer) {
	c, f := n.lookUp(limit.Start)
	if f != nil {
		for i := range answers {
			answers[i] = failed(again(f))
		}
		return
	}
	l := link{client: c.client, limit: limit, channels: n.of.any.Channels}
	l.exec(commands, answers)
	answered := false
	for i := range answers {
		f := answers[i].Failure
		if f.general() {
			n.client.Store(nil) // the client may have another connection to this node by now
		} else {
			answered = true
		}
		if f != nil {
			answers[i].Failure = again(f)
		}
	}
	if !answered || n.of.dials.to(n.addr) == c.dials {
		return
	}
	if _, f := n.lookUp(limit.Start); f != nil { // the answers may be those of another cluster
		f := *again(f)
		f.Ran = core.Maybe
		for i := range answers {
			answers[i] = failed(&f)
		}
	}
}

// again returns the failure of a command for a node. That a connection was closed is not final: the
// client closes those to nodes that it does not need any more.
func again(f *Failure) *Failure {
	if f.Final && errors.Is(f.Err, rueidis.ErrClosing) {
		passing := *f
		passing.Final = false
		return &passing
	}
	return f
}

// Dedicate is Redis.Dedicate for this node.
func (n *node) Dedicate() (Connection, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dedicateTimeout)
	defer cancel()
	c, f := n.lookUp(func() context.Context { return ctx })
	if f != nil {
		return nil, f.Err
	}
	return Redis{Client: c.client, Channels: n.of.any.Channels}.Dedicate()
}

// lookUp returns the client of this node. start begins the round trip in which the node proves
// that it is one of the cluster, if it has not since the last dial.
func (n *node) lookUp(start func() context.Context) (*provedClient, *Failure) {
	if c := n.client.Load(); c != nil && c.dials == n.of.dials.to(n.addr) {
		return c, nil
	}
	c, f := n.of.prove(start(), n.addr)
	n.client.Store(c)
	return c, f
}
