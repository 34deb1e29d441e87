package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/singleflight"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// Nodes are the nodes of a cluster. Nodes send a command to a given master, or find the master that
// serves the command's slot.
//
// A node of another cluster may get the address of a node. The client does not notice: the client
// accepts the layout that any node reports, and may follow the other cluster from then on. A lock
// that is held here would be free there. So Nodes keep a layout of this cluster, with the IDs of
// its nodes:
//
//	Layout  ignores the answers of other clusters
//	Node    returns a Server, which sends each script with the ID of the node that is meant: a
//	        script does nothing at another node
//	Exec    follows MOVED and ASK by itself, and sends to a node as the Server of Node does
//
// A node tells its ID and its layout before the first command, after a failure and after the end of
// a connection: see wire.Greeter. So the ID of a node that the layout does not name is known, too.
type Nodes struct {
	open     func(addr string) (rueidis.Client, error) // nil: only nodes that the client knows are used
	cluster  rueidis.Client                            // the client of the cluster
	channels wire.Channels
	unready  func(ctx context.Context) *wire.Failure // see Later; nil: Use comes first

	now func() time.Time
	ctx context.Context // of questions; ends with Close
	end context.CancelFunc

	background sync.WaitGroup // nodes that are asked, and clients that are being closed
	dialling   singleflight.Group

	mu      sync.Mutex
	layout  []wire.Shard      // the newest layout of this cluster; empty before the first
	members map[string]member // nodes that were in the layout lately, by ID
	moved   map[int]string    // addresses that MOVED has named since, by slots
	peers   map[string]*peer  // the nodes in use, by address
}

// A peer is a node in use.
type peer struct {
	wire.Greeter

	// The mutex of Nodes guards the fields below.

	client rueidis.Client // of the last greeting
	own    rueidis.Client // the client that open returned; nil: none
	used   time.Time      // the last use
	id     string         // by the layout or by the last greeting; empty: not known
}

// clientRest is how long a peer is kept without use if the layout has no such master. A node that
// gets its first slots is no master until the first slot has moved. Until then, ASK leads to the
// node.
const clientRest = time.Minute

// A member is a node that an answer has named as a node of this cluster.
type member struct {
	addr string    // may be empty
	seen time.Time // when the last layout named it
}

// memberRest is how long a node counts as a node of its shard after the last layout with the node.
// An answer may leave out a replica that has just lost its master, or has just become the master.
// If the shard's other node dies in the meantime, the replica may be all that is left of the
// cluster.
const memberRest = time.Minute

// question calls ask with a context that does not end with ctx, and returns the answer. question
// returns false if ctx ends first, or after Close.
func question[T any](ctx context.Context, n *Nodes, ask func(context.Context) T) (answer T, ok bool) {
	answers := make(chan T, 1)
	n.mu.Lock()
	if n.ctx.Err() != nil {
		n.mu.Unlock()
		return answer, false
	}
	n.background.Go(func() {
		ctx, end := wire.StartOnce(n.ctx, wire.QuestionTime)
		defer end()
		answers <- ask(ctx)
	})
	n.mu.Unlock()
	select {
	case answer = <-answers:
		return answer, true
	case <-ctx.Done():
		return answer, false
	}
}

// NewNodes returns the nodes of a cluster. Use must follow. open connects to a master that the
// client does not know, and may block for as long as a dial. If open is nil, a master can't be used
// until the client knows the master. Close closes the clients that open returned.
func NewNodes(open func(addr string) (rueidis.Client, error)) *Nodes {
	ctx, end := context.WithCancel(context.Background())
	return &Nodes{
		open: open, now: time.Now, ctx: ctx, end: end,
		members: make(map[string]member), moved: make(map[int]string), peers: make(map[string]*peer),
	}
}

// Use sets the client of the cluster, and the channels on which scripts publish.
func (n *Nodes) Use(client rueidis.Client, channels wire.Channels) {
	n.cluster, n.channels = client, channels
}

// Later allows commands before Use. Before the first layout no command may go to any node, because
// the node may be of another cluster. unready returns why there is no layout yet, or nil. unready
// may block until ctx ends.
func (n *Nodes) Later(unready func(ctx context.Context) *wire.Failure) { n.unready = unready }

// Close closes the clients that open returned. Close blocks for as long as a dial, if a dial is
// under way. So the client of the cluster is best closed before. Close must not be called during
// Layout.
func (n *Nodes) Close() {
	n.end()
	n.mu.Lock()
	for _, p := range n.peers {
		if p.own != nil {
			n.background.Go(p.own.Close)
		}
		n.background.Go(p.Close)
	}
	clear(n.peers)
	n.mu.Unlock()
	n.background.Wait()
}

// Ended notes that a connection to an address has ended. Ended never blocks for long.
func (n *Nodes) Ended(addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.peers[addr]; p != nil {
		p.Ended()
	}
}

// Strangers asks the node at the address of each master for its ID, all at once, and returns the
// addresses at which another node than the layout's answers, sorted. A node that does not answer
// before ctx ends is no stranger.
func (n *Nodes) Strangers(ctx context.Context) (all []string) {
	n.mu.Lock()
	layout := n.layout
	n.mu.Unlock()
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, s := range layout {
		asking.Go(func() {
			n.greetAgain(s.Addr) // so that the node is asked
			if _, f := n.greeted(func() context.Context { return ctx }, s.Addr); f == wire.StrangeNode {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, s.Addr)
			}
		})
	}
	asking.Wait()
	slices.Sort(all)
	return all
}

// master returns the address of the master that serves a slot, by the last MOVED or by the layout,
// or "" if no master does.
func (n *Nodes) master(slot int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if addr, moved := n.moved[slot]; moved {
		return addr
	}
	for _, s := range n.layout {
		if slices.ContainsFunc(s.Slots, func(r [2]int) bool { return r[0] <= slot && slot <= r[1] }) {
			return s.Addr
		}
	}
	return ""
}

// move records that a MOVED has named the node at an address as the master of a slot. The next
// layout replaces the record.
func (n *Nodes) move(slot int, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.moved[slot] = addr
}

// shardAt returns the shard of the layout whose master has an address, or nil.
func shardAt(layout []wire.Shard, addr string) *wire.Shard {
	if i := slices.IndexFunc(layout, func(s wire.Shard) bool { return s.Addr == addr }); i >= 0 {
		return &layout[i]
	}
	return nil
}

// errStranger says that only nodes of another cluster have answered.
var errStranger = errors.New("the nodes that answer are of another cluster")

// unknownNode is the failure of a command for a node that the client does not know yet.
var unknownNode = &wire.Failure{Kind: wire.Unavailable, Ran: core.No, Elsewhere: true, Err: errors.New("the client does not know this node of the cluster yet")}

// peer returns the peer at an address, or nil after Close.
func (n *Nodes) peer(addr string) *peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return nil
	}
	p := n.peers[addr]
	if p == nil {
		p = new(peer)
		p.Init(func(ctx context.Context) (*wire.Failure, bool) { return n.greet(ctx, addr, p), false })
		n.peers[addr] = p
	}
	p.used = n.now()
	return p
}

// connect returns a client of the node at an address. If the client of the cluster does not know
// the node, connect blocks for as long as a dial.
func (n *Nodes) connect(addr string) (rueidis.Client, *wire.Failure) {
	if c, known := n.cluster.Nodes()[addr]; known {
		return c, nil
	}
	if n.open == nil {
		return nil, unknownNode
	}
	p := n.peer(addr)
	if p == nil {
		return nil, wire.AfterClose
	}
	_, err, _ := n.dialling.Do(addr, func() (any, error) { return nil, n.dial(addr, p) })
	if err != nil {
		return nil, wire.DialFailure(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.own == nil {
		return nil, wire.AfterClose
	}
	return p.own, nil
}

// dial gives a peer a client of its own, if the peer has none.
func (n *Nodes) dial(addr string, p *peer) error {
	n.mu.Lock()
	open := p.own == nil && n.ctx.Err() == nil
	n.mu.Unlock()
	if !open {
		return nil
	}
	c, err := n.open(addr)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.peers[addr] == p {
		p.own = c
	} else {
		n.background.Go(c.Close) // closed or forgotten meanwhile
	}
	return nil
}

// greet asks a node for its ID and its layout. greet fails if the layout has another node at the
// address, or if the node is not of this cluster.
func (n *Nodes) greet(ctx context.Context, addr string, p *peer) *wire.Failure {
	if n.unready != nil {
		if f := n.unready(ctx); f != nil {
			return f
		}
	}
	c, f := n.connect(addr)
	if f != nil {
		return f
	}
	a := nodeAnswer(ctx, c, addr)
	n.mu.Lock()
	defer n.mu.Unlock()
	s := shardAt(n.layout, addr)
	e, refused := rueidis.IsRedisErr(a.err)
	switch {
	case refused && strings.Contains(e.Error(), "cluster support disabled"): // a single server
		return wire.StrangeNode
	case a.err != nil:
		return wire.Unsent(a.err)
	case s != nil && s.ID() != "" && s.ID() != a.id, !sameCluster(n.layout, a.layout):
		return wire.StrangeNode
	}
	p.client, p.id = c, a.id
	return nil
}

// greeted greets the node at an address if need be, and returns the way to the node. start returns
// the context of the wait for the greeting.
func (n *Nodes) greeted(start func() context.Context, addr string) (to wire.Redis, f *wire.Failure) {
	p := n.peer(addr)
	if p == nil {
		return to, wire.AfterClose
	}
	if f := p.Ready(start); f != nil {
		return to, f
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return wire.Redis{Client: p.client, Channels: n.channels, Node: p.id}, nil
}

// greetAgain makes the next command for the node at an address wait for another greeting.
func (n *Nodes) greetAgain(addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.peers[addr]; p != nil {
		p.Again()
	}
}

// Client returns a client of the node at an address, after the node has said that it is of this
// cluster. Client blocks until a dial and the greeting have ended, or ctx ends. Client fails if the
// node is of another cluster.
func (n *Nodes) Client(ctx context.Context, addr string) (rueidis.Client, error) {
	to, f := n.greeted(func() context.Context { return ctx }, addr)
	if f != nil {
		return nil, f.Err
	}
	return to.Client.(rueidis.Client), nil
}
