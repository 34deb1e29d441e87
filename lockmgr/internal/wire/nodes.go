package wire

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// Nodes are the nodes of a cluster. Nodes send a command to a given master, or find the master that
// serves the command's slot.
//
// A node of another cluster may get the address of a node. The client does not notice: the client
// accepts the layout that any node reports, and may follow the other cluster from then on. A lock
// that is held here would be free there. So Nodes keep a layout of this cluster, with the IDs of
// its nodes. A node proves by its answer to CLUSTER SLOTS that the node belongs to this cluster:
//
//	Layout  ignores the answers of other clusters
//	Node    returns a Server, which asks for the proof before its first command, after a failure
//	        and after a dial; if the client has dialled during a command, the Server asks again,
//	        and drops the answer if the proof fails
//	Exec    follows MOVED and ASK by itself, and sends to a node as the Server of Node does
//
// If the user may not call CLUSTER SLOTS, a node proves nothing and is used all the same.
//
// If a connection breaks while no command is under way, the client dials again, and no command
// fails. Only Dials notice the new connection. Without Dials, commands may go to a node of another
// cluster until a command fails, a look at the layout meets the node, or another master serves the
// slot.
type Nodes struct {
	cluster  rueidis.Client // the client of the cluster
	channels Channels
	open     func(addr string) (rueidis.Client, error) // nil: only nodes that the client knows are used
	dials    *Dials                                    // of the client and of open; nil: not known

	now func() time.Time
	ctx context.Context // of proofs; ends with Close
	end context.CancelFunc

	background sync.WaitGroup // nodes that are dialled or asked, and clients that are being closed

	mu        sync.Mutex
	layout    []Shard                  // the newest layout of this cluster; empty before the first
	members   map[string]member        // nodes that were in the layout lately, by ID
	moved     map[int]string           // addresses that MOVED has named since, by slots
	own       map[string]*ownClient    // the clients that open returned, by address
	opening   map[string]*opening      // the calls of open under way, by address
	proofs    map[string]*provedClient // the last proof of each node, by address
	proving   map[string]*proof        // the proofs under way that a caller may join, by address
	strangers map[string]bool          // addresses of masters at which another cluster answers
	tell      func(string, bool)       // called when a master's address gets or loses a stranger; may be nil
	closed    bool
}

// An ownClient is a client that open returned.
type ownClient struct {
	client rueidis.Client
	used   time.Time // the last use
}

// clientRest is how long an ownClient is kept without use if the layout has no such master. A node
// that gets its first slots is no master until the first slot has moved. Until then, ASK leads to
// the node.
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
	if n.closed {
		n.mu.Unlock()
		return answer, false
	}
	n.background.Go(func() {
		ctx, end := startOnce(n.ctx, questionTime)
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

// NewNodes returns the nodes of the cluster that client is connected to. open connects to a master
// that the client does not know, and may block for as long as a dial. If open is nil, a master
// can't be used until the client knows the master. dials are the dials of client and open, or nil.
// Close closes the clients that open returned.
func NewNodes(client rueidis.Client, channels Channels, open func(addr string) (rueidis.Client, error), dials *Dials) *Nodes {
	ctx, end := context.WithCancel(context.Background())
	return &Nodes{
		cluster: client, channels: channels, open: open, dials: dials, now: time.Now, ctx: ctx, end: end,
		members: make(map[string]member), moved: make(map[int]string), own: make(map[string]*ownClient), opening: make(map[string]*opening),
		proofs: make(map[string]*provedClient), proving: make(map[string]*proof), strangers: make(map[string]bool),
	}
}

// Close closes the clients that open returned. Close blocks for as long as a dial, if a dial is
// under way. Close must not be called during Layout.
func (n *Nodes) Close() {
	n.end()
	n.mu.Lock()
	n.closed = true
	for _, o := range n.own {
		n.background.Go(o.client.Close)
	}
	clear(n.own)
	n.mu.Unlock()
	n.background.Wait()
}

// OnStranger sets the function that is called when a node of another cluster answers at the address
// of a master, and when the stranger is gone. The mutex is held during the call: tell must not
// block, nor call Nodes.
func (n *Nodes) OnStranger(tell func(addr string, stranger bool)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tell = tell
}

// ProveAll asks the node at the address of each master for the proof, all at once. ProveAll blocks
// until all have answered or ctx ends. If all have answered, Strangers is up to date. A node that
// has failed is no stranger. If ctx ends first, what is known about a node stays.
func (n *Nodes) ProveAll(ctx context.Context) {
	n.mu.Lock()
	layout := n.layout
	n.mu.Unlock()
	var asking sync.WaitGroup
	for _, s := range layout {
		asking.Go(func() {
			if _, f := n.prove(ctx, s.Addr); f != nil && f != strangeNode && ctx.Err() == nil {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.setStranger(s.Addr, false)
			}
		})
	}
	asking.Wait()
}

// Strangers returns the addresses of masters at which a node of another cluster gave the last
// answer, sorted.
func (n *Nodes) Strangers() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.strangers))
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

// isMaster reports whether a master of the layout has the address.
func isMaster(layout []Shard, addr string) bool {
	return slices.ContainsFunc(layout, func(s Shard) bool { return s.Addr == addr })
}

// note records the answer of the node at an address, and reports whether the answer is about this
// cluster.
func (n *Nodes) note(addr string, answer []Shard) (ours bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ours = sameCluster(n.layout, answer)
	if !ours {
		delete(n.proofs, addr)
	}
	if ours || isMaster(n.layout, addr) {
		n.setStranger(addr, !ours)
	}
	return ours
}

// setStranger records whether a node of another cluster answers at the address of a master. The
// mutex is held.
func (n *Nodes) setStranger(addr string, stranger bool) {
	if n.strangers[addr] == stranger {
		return
	}
	if stranger {
		n.strangers[addr] = true
	} else {
		delete(n.strangers, addr)
	}
	if n.tell != nil {
		n.tell(addr, stranger)
	}
}

// errStranger says that only nodes of another cluster have answered.
var errStranger = errors.New("the nodes that answer are of another cluster")

// unknownNode is the failure of a command for a node that the client does not know yet.
var unknownNode = &Failure{Kind: Unavailable, Ran: core.No, Elsewhere: true, Err: errors.New("the client does not know this node of the cluster yet")}

// strangeNode is the failure of a command for a master at whose address a node of another cluster
// answers.
var strangeNode = &Failure{
	Kind: Unavailable, Ran: core.No, Err: errors.New("a node of another cluster answers at the address of this master"),
	Hint: "give each node of a cluster an address that no other cluster uses; CLUSTER FORGET removes a node that is gone",
}

// afterClose is the failure of a command after Close.
var afterClose = &Failure{Kind: Closed, Ran: core.No, Final: true, Err: rueidis.ErrClosing}

// unsent returns the failure of a command that was not sent because of an error.
func unsent(err error) *Failure {
	f := *failureOf(err)
	f.Ran = core.No
	return &f
}

// An opening is a call of open under way. All callers that need the client wait for the same call.
type opening struct {
	done    chan struct{} // closed at the end; the fields below are set then
	client  rueidis.Client
	failure *Failure
}

// client returns a client of the node at an address. If the client of the cluster does not know the
// node, client blocks for as long as a dial.
func (n *Nodes) client(addr string) (rueidis.Client, *Failure) {
	if c, known := n.cluster.Nodes()[addr]; known {
		return c, nil
	}
	if n.open == nil {
		return nil, unknownNode
	}
	c, dial, f := n.ownOrDial(addr)
	if dial == nil {
		return c, f
	}
	<-dial.done
	return dial.client, dial.failure
}

// ownOrDial returns the client of own for an address, or the call of open under way. ownOrDial
// begins a call if there is none.
func (n *Nodes) ownOrDial(addr string) (rueidis.Client, *opening, *Failure) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, nil, afterClose
	}
	if o := n.own[addr]; o != nil {
		o.used = n.now()
		return o.client, nil, nil
	}
	dial := n.opening[addr]
	if dial == nil {
		dial = &opening{done: make(chan struct{})}
		n.opening[addr] = dial
		n.background.Go(func() { n.dial(addr, dial) })
	}
	return nil, dial, nil
}

// dial calls open, and keeps the client in own.
func (n *Nodes) dial(addr string, to *opening) {
	c, err := n.open(addr)
	n.mu.Lock()
	defer n.mu.Unlock()
	defer close(to.done)
	delete(n.opening, addr)
	switch {
	case err != nil:
		to.failure = DialFailure(err)
	case n.closed:
		n.background.Go(c.Close)
		to.failure = afterClose
	default:
		to.client = c
		n.own[addr] = &ownClient{c, n.now()}
	}
}

// Client returns a client of the node at an address, after the node has proved that it is of this
// cluster. Client blocks until a dial and the proof have ended, or ctx ends. Client fails if the
// node is of another cluster.
func (n *Nodes) Client(ctx context.Context, addr string) (rueidis.Client, error) {
	c, f := n.prove(ctx, addr)
	if f != nil {
		return nil, f.Err
	}
	return c.client, nil
}

// A provedClient is a client of a node that has proved to be of this cluster.
type provedClient struct {
	client rueidis.Client
	dials  numbers // of the address of the node, before the proof
}

// proved returns a client of the node at an address. If the node has proved nothing since the last
// dial or the last end of a connection, or has answered from another cluster, proved asks for the
// proof. start begins the round trip of the question. After the end of a connection the question
// makes the client dial, so that no command does: see Connector.
func (n *Nodes) proved(start func() context.Context, addr string) (*provedClient, *Failure) {
	n.mu.Lock()
	c := n.proofs[addr]
	if o := n.own[addr]; o != nil && c != nil && o.client == c.client {
		o.used = n.now()
	}
	n.mu.Unlock()
	if c != nil && c.dials == n.dials.to(addr) {
		return c, nil
	}
	return n.prove(start(), addr)
}

// disprove forgets a proof of the node at an address.
func (n *Nodes) disprove(addr string, c *provedClient) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proofs[addr] == c {
		delete(n.proofs, addr)
	}
}

// mostProofs is how often a node is asked for a proof if it is dialled meanwhile each time.
const mostProofs = 5

// A proof is the question for a proof, and the dial before the question, while under way. All
// callers that need the proof wait for the same proof.
type proof struct {
	done    chan struct{} // closed at the end; the fields below are set then
	client  *provedClient
	failure *Failure
}

// prove returns a client of the node at an address, after the node has proved to be of this
// cluster. prove joins a proof under way. If ctx ends first, callers that joined go on waiting.
// Later callers ask for another proof, because the node may be silent.
func (n *Nodes) prove(ctx context.Context, addr string) (*provedClient, *Failure) {
	p := n.join(addr)
	if p == nil {
		return nil, afterClose
	}
	select {
	case <-p.done:
		return p.client, p.failure
	case <-ctx.Done():
		n.leave(addr, p)
		return nil, unsent(ctx.Err())
	}
}

// join returns the proof of a node under way, and begins a proof if there is none. join returns nil
// after Close.
func (n *Nodes) join(addr string) *proof {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	p := n.proving[addr]
	if p == nil {
		p = &proof{done: make(chan struct{})}
		n.proving[addr] = p
		n.background.Go(func() {
			ctx, end := startOnce(n.ctx, questionTime)
			defer end()
			if f := n.tryProof(ctx, addr, p); f != nil {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.endProof(addr, p, nil, f)
			}
		})
	}
	return p
}

// leave is called when a caller stops waiting for a proof. Later callers ask for another.
func (n *Nodes) leave(addr string, p *proof) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proving[addr] == p {
		delete(n.proving, addr)
	}
}

// tryProof asks a node for the proof. tryProof ends p if the proof succeeds, and else returns why
// not.
func (n *Nodes) tryProof(ctx context.Context, addr string, p *proof) *Failure {
	c, f := n.client(addr)
	if f != nil {
		return f
	}
	// If a dial comes between, the answer may have come over the old connection or over the new. If
	// an end comes between, the next command would dial.
	for range mostProofs {
		proved := &provedClient{c, n.dials.to(addr)}
		if f := n.checkLayout(ctx, c, addr); f != nil {
			return f
		}
		if n.accept(addr, p, proved) {
			return nil
		}
	}
	return &Failure{Kind: Unavailable, Ran: core.No, Err: errors.New("the connections to this node of the cluster do not last")}
}

// accept ends p with a client, and reports whether it has. accept does not end p if the node was
// dialled, or a connection ended, after c.dials was read, or a later answer was from another
// cluster. accept compares the dials and ends p under one lock. So each caller of p gets a proof
// that is newer than the dial for which the caller asked.
func (n *Nodes) accept(addr string, p *proof, c *provedClient) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dials.to(addr) != c.dials || n.strangers[addr] {
		return false
	}
	n.proofs[addr] = c
	n.endProof(addr, p, c, nil)
	return true
}

// endProof gives the result of a proof to all callers that wait for the proof. The mutex is held.
func (n *Nodes) endProof(addr string, p *proof, c *provedClient, f *Failure) {
	if n.proving[addr] == p {
		delete(n.proving, addr)
	}
	p.client, p.failure = c, f
	close(p.done)
}

// checkLayout asks a node for the layout of its cluster. checkLayout returns nil if the answer is
// about this cluster, or if the user may not ask.
func (n *Nodes) checkLayout(ctx context.Context, c rueidis.Client, addr string) *Failure {
	answer, err := layoutOf(ctx, c, addr)
	e, refused := rueidis.IsRedisErr(err)
	switch {
	case err == nil:
	case refused && strings.HasPrefix(e.Error(), "NOPERM"):
		return nil // the node is used without a proof
	case refused && strings.Contains(e.Error(), "cluster support disabled"): // a single server
	default:
		return unsent(err) // the command that needs the proof
	}
	if !n.note(addr, answer) {
		return strangeNode
	}
	return nil
}
