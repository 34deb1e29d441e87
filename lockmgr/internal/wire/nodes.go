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

// Nodes are the nodes of a cluster. They send a command to one master, or through the client of the
// cluster to the master that the client chooses.
//
// The address of a node may be given to a node of another cluster. The client does not notice: it
// accepts the layout that any node reports, and may then follow the other cluster. A lock that is
// held here would be free there. So Nodes keep a layout of this cluster, with the IDs of its nodes.
// A node proves that it is one of this cluster by its answer to CLUSTER SLOTS:
//
//	Layout  ignores the answers of other clusters
//	Node    asks for the proof before the first command, after a failure and after a dial;
//	        after a dial during a command, its answer counts only after another proof
//	Exec    refuses commands while the client follows another cluster
//
// A node proves nothing if the user may not call CLUSTER SLOTS. It is used all the same.
//
// If a connection breaks while no command is under way, the client dials again, and no command
// fails. Only Dials report that. Without them, commands may go to a node of another cluster until
// one fails.
type Nodes struct {
	any   Redis                                     // sends through the client of the cluster
	open  func(addr string) (rueidis.Client, error) // nil: only nodes that the client knows are used
	dials *Dials                                    // of the client and of open; nil: not counted

	mu        sync.Mutex
	layout    []Shard                   // the newest layout of this cluster; empty before the first
	own       map[string]rueidis.Client // the clients that open returned, by address
	strangers map[string]bool           // addresses of masters at which another cluster answers
	tell      func(addr string)         // called for a new stranger; may be nil
	closed    bool
}

// NewNodes returns the nodes of the cluster that client is connected to. open connects to a master
// that the client does not know. It may block for as long as a dial. If open is nil, such a master
// can't be used until the client knows it. dials count the dials of client and open. They may be
// nil. Close closes the clients that open returned.
func NewNodes(client rueidis.Client, channels Channels, open func(addr string) (rueidis.Client, error), dials *Dials) *Nodes {
	return &Nodes{
		any: Redis{Client: client, Cluster: true, Channels: channels}, open: open, dials: dials,
		own: make(map[string]rueidis.Client), strangers: make(map[string]bool),
	}
}

// Close closes the clients that open returned.
func (n *Nodes) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for _, c := range n.own {
		c.Close()
	}
	clear(n.own)
}

// OnStranger sets the function that is called when a node of another cluster answers at the address
// of a master. It is called once until that changes. It must not block.
func (n *Nodes) OnStranger(tell func(addr string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tell = tell
}

// strange reports whether a node of another cluster gave the last answer at the address of a master.
func (n *Nodes) strange(addr string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.strangers[addr]
}

// Ask asks the node at the address of each master for the proof, all at once. It blocks until all
// have answered or ctx ends. Then Strangers returns what is true now. A node that does not answer is
// no stranger.
func (n *Nodes) Ask(ctx context.Context) {
	n.mu.Lock()
	layout := n.layout
	n.mu.Unlock()
	var asking sync.WaitGroup
	for _, s := range layout {
		asking.Go(func() {
			if _, f := n.prove(ctx, s.Addr); f != nil && f != strangeNode {
				n.mu.Lock()
				defer n.mu.Unlock()
				delete(n.strangers, s.Addr)
			}
		})
	}
	asking.Wait()
}

// Strangers returns the addresses of masters at which a node of another cluster gave the last
// answer. They are sorted.
func (n *Nodes) Strangers() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.strangers))
}

// errStranger says that only nodes of another cluster have answered.
var errStranger = errors.New("the nodes that answer are of another cluster")

// Layout asks one node after the other which slots each master serves. It returns the first answer
// that is about this cluster. Each node has askTime to answer. The order is random, because a node
// that is cut off from the others gives an old answer.
//
// If there is no such answer, one counts that knows some node of this cluster. The cluster may have lost
// most of its masters, and the others have their slots.
//
// If there is none of these either, and another cluster answers at more than half of the masters'
// addresses, then this cluster is gone. Layout then adopts the other cluster. That happens, for
// instance, when all servers of a test are set up anew.
func (n *Nodes) Layout(ctx context.Context) ([]Shard, error) {
	n.mu.Lock()
	known := n.layout
	n.mu.Unlock()
	err := errors.New("the client knows no node of the cluster")
	var rest []Shard  // the last answer that knows some node of this cluster
	var other []Shard // the last answer of another cluster at a master's address
	strangers := 0    // how many masters' addresses gave such an answer
	// try asks a node. Its answer counts if it is about this cluster.
	try := func(addr string, node rueidis.Client) (answer []Shard, counts bool) {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		if answer, err = layoutOf(ctx, node, addr); err != nil {
			return nil, false
		}
		if n.note(addr, answer) {
			return answer, true
		}
		switch {
		case sharesNode(known, answer):
			rest = answer
		case len(answer) > 0 && isMaster(known, addr):
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
		if answer, counts := try(addr, nodes[addr]); counts {
			return n.adopt(answer), nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
	for _, s := range known { // the client may follow another cluster, and not know these masters
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
		if answer, counts := try(s.Addr, node); counts {
			return n.adopt(answer), nil
		}
	}
	switch {
	case rest != nil:
		return n.adopt(rest), nil
	case 2*strangers > len(known):
		return n.adopt(other), nil
	}
	return nil, err
}

// adopt makes an answer the layout of this cluster, and returns the layout. A slot that the answer
// names no master for stays with its last shard. adopt closes the clients of own whose nodes are no
// longer masters.
func (n *Nodes) adopt(answer []Shard) []Shard {
	n.mu.Lock()
	defer n.mu.Unlock()
	if sameCluster(n.layout, answer) {
		answer = withUnserved(answer, n.layout)
	} else {
		clear(n.strangers) // what the answer is about is this cluster from now on
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

// isMaster reports whether a master of the layout has the address.
func isMaster(layout []Shard, addr string) bool {
	return slices.ContainsFunc(layout, func(s Shard) bool { return s.Addr == addr })
}

// note records the answer of the node at an address. It reports whether the answer is about this
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

// strangeNode is the failure of a command for a master at whose address a node of another cluster
// answers.
var strangeNode = &Failure{
	Kind: Unavailable, Ran: core.No, Err: errors.New("a node of another cluster answers at the address of this master"),
	Hint: "give each node of a cluster an address that no other cluster uses; CLUSTER FORGET removes a node that is gone",
}

// client returns a client of the node at an address. If the client of the cluster does not know the
// node, client blocks for as long as a dial.
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

// Client returns a client of the node at an address, after the node has proved that it is one of
// this cluster. It blocks for as long as a dial and the proof. It fails if the node is one of another
// cluster.
func (n *Nodes) Client(ctx context.Context, addr string) (rueidis.Client, error) {
	c, f := n.prove(ctx, addr)
	if f != nil {
		return nil, f.Err
	}
	return c.client, nil
}

// A provedClient is a client of a node that has proved that it is one of this cluster.
type provedClient struct {
	client rueidis.Client
	dials  uint64 // to the address of the node, until the proof
}

// mostProofs bounds how often a node is asked for the proof if each time a dial comes between.
const mostProofs = 5

// prove returns a client of the node at an address, after the node has proved that it is one of this
// cluster.
func (n *Nodes) prove(ctx context.Context, addr string) (*provedClient, *Failure) {
	c, f := n.client(addr)
	if f != nil {
		return nil, f
	}
	// If a dial comes between, the answer may have come over the old connection or over the new one.
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

// ask asks a node for the layout of its cluster. It returns nil if the answer is about this cluster,
// or if the user may not ask.
func (n *Nodes) ask(ctx context.Context, c rueidis.Client, addr string) *Failure {
	answer, err := layoutOf(ctx, c, addr)
	e, refused := rueidis.IsRedisErr(err)
	switch {
	case err == nil:
	case refused && strings.HasPrefix(e.Error(), "NOPERM"):
		return nil // the node is used without a proof
	case refused && strings.Contains(e.Error(), "cluster support disabled"): // a single server
	default:
		f := *failureOf(err)
		f.Ran = core.No // the command that needs the proof has not been sent
		return &f
	}
	if !n.note(addr, answer) {
		return strangeNode
	}
	return nil
}

// Exec makes Nodes a Server. The client of the cluster finds the master of each command.
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
		refuse(core.Maybe) // the commands may have run at another cluster
	}
}

// followed reports whether the client follows this cluster. Then it knows at least half of the
// masters, and no node of another cluster answers at the address of one that it knows.
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

// Dials count the connections that were made to each address.
type Dials struct {
	mu sync.Mutex
	by map[string]uint64 // by address; nil before the first
}

// Add counts a new connection to an address. It must be called before anything is sent over the
// connection.
func (d *Dials) Add(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = make(map[string]uint64)
	}
	d.by[addr]++
}

// to returns how many connections to an address were made. It is zero if d is nil.
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
	client atomic.Pointer[provedClient] // nil until the node has proved that it is one of the cluster
}

// Node returns a Server for the master at an address. It does no I/O.
func (n *Nodes) Node(addr string) Server { return &node{of: n, addr: addr} }

// Exec makes node a Server.
func (n *node) Exec(limit *Deadline, commands []Command, answers []Answer) {
	c, f := n.lookUp(limit.Start)
	if f != nil {
		for i := range answers {
			answers[i] = failed(notFinal(f))
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
			answers[i].Failure = notFinal(f)
		}
	}
	if !answered || n.of.dials.to(n.addr) == c.dials {
		return
	}
	if _, f := n.lookUp(limit.Start); f != nil { // the answers may come from another cluster
		unproved := *notFinal(f)
		unproved.Ran = core.Maybe
		for i := range answers {
			answers[i] = failed(&unproved)
		}
	}
}

// notFinal returns the failure of a command for a node. It is not final if the client has closed the
// connection to the node, because the next command gets another connection.
func notFinal(f *Failure) *Failure {
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

// lookUp returns the client of this node. If the node has proved nothing since the last dial, or has
// answered from another cluster, it is asked for the proof. start begins that round trip.
func (n *node) lookUp(start func() context.Context) (*provedClient, *Failure) {
	if c := n.client.Load(); c != nil && c.dials == n.of.dials.to(n.addr) && !n.of.strange(n.addr) {
		return c, nil
	}
	c, f := n.of.prove(start(), n.addr)
	n.client.Store(c)
	return c, f
}
