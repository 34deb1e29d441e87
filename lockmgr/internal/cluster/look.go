package cluster

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// Layout asks the nodes which slots each master serves, and returns the first answer that is about
// this cluster. Layout asks a single node first. If the node is silent for askTime, or its answer
// does not count, Layout asks all remaining nodes at once. The order is random, because a node that
// is cut off from its cluster gives an old answer.
//
// If no answer is about this cluster, Layout adopts the answer with the most shards of this
// cluster, if any answer has a shard. So Layout follows when most masters were lost, and the
// remaining masters have taken over their slots.
//
// If no answer has a shard of this cluster, and another cluster answers at more than half of the
// masters' addresses, this cluster is gone. Layout adopts the other cluster, for instance when all
// servers of a test are set up anew.
//
// One goroutine at a time may call Layout. Before the first layout, Layout returns an empty layout
// if all nodes have answered and none knows a master with slots.
func (n *Nodes) Layout(ctx context.Context) ([]wire.Shard, error) {
	n.mu.Lock()
	known := n.layout
	n.mu.Unlock()
	s := survey{known: known, err: wire.ErrNoNode}
	answer := n.askAll(ctx, &s)
	other := most(s.others)
	switch {
	case answer != nil:
	case ctx.Err() != nil:
		s.err = ctx.Err() // not all nodes have answered
	case len(known) == 0 && s.err == errStranger:
		return nil, nil // each node is alone
	case s.rest != nil: // most of the masters are lost
		return n.adopt(s.rest), nil
	case other != nil && 2*len(other.addrs) > len(known): // this cluster is gone
		return n.adopt(other.layout), nil
	}
	for _, addr := range s.foreign {
		n.greetAgain(addr) // a node that was of this cluster has to say so again
	}
	if answer == nil {
		return nil, s.err
	}
	return n.adopt(answer), nil
}

// A survey collects the answers to one call of Layout.
type survey struct {
	known   []wire.Shard // the layout before
	foreign []string     // addresses of nodes whose answers do not count
	rest    []wire.Shard // the foreign answer with the most shards of this cluster; nil if none has any
	others  []*candidate // the other clusters whose nodes have answered at masters' addresses
	err     error        // why no answer counts
}

// askAll asks nodes until an answer counts, and returns the layout of the answer. askAll returns
// nil if no answer counts, or if ctx ends before.
func (n *Nodes) askAll(ctx context.Context, s *survey) []wire.Shard {
	nodes := n.cluster.Nodes()
	addrs := slices.Collect(maps.Keys(nodes))
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	if n.open != nil { // the client may follow another cluster, and not know these masters and members
		for _, known := range s.known {
			if nodes[known.Addr] == nil {
				addrs = append(addrs, known.Addr)
			}
		}
		for _, addr := range n.memberAddrs() {
			if !slices.Contains(addrs, addr) {
				addrs = append(addrs, addr)
			}
		}
	}
	answers := make(chan layoutAnswer, len(addrs))
	ask := func(some []string) {
		for _, addr := range some {
			n.background.Go(func() { answers <- n.layoutAt(ctx, addr) })
		}
	}
	first := min(1, len(addrs))
	ask(addrs[:first])
	remaining := addrs[first:]
	late := time.After(askTime)
	for answered := 0; answered < len(addrs); {
		select {
		case <-ctx.Done():
			return nil
		case <-late: // the first node is silent
		case a := <-answers:
			answered++
			if s.accept(a) {
				return a.layout
			}
		}
		// The first node is silent, or its answer does not count.
		ask(remaining)
		remaining = nil
	}
	return nil
}

// layoutAt asks the node at an address for the layout of its cluster. layoutAt blocks for a call of
// open, and after the call for askTime at most, or until ctx ends.
func (n *Nodes) layoutAt(ctx context.Context, addr string) layoutAnswer {
	node, f := n.connect(addr)
	if f != nil {
		return layoutAnswer{addr: addr, err: f.Err}
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	a, ok := question(ctx, n, func(ctx context.Context) layoutAnswer {
		return nodeAnswer(ctx, node, addr)
	})
	if !ok {
		return layoutAnswer{addr: addr, err: ctx.Err()}
	}
	return a
}

// accept reports whether an answer is about this cluster. accept adds any other answer to the
// survey.
func (s *survey) accept(a layoutAnswer) bool {
	if a.err != nil {
		if s.err != errStranger {
			s.err = a.err
		}
		return false
	}
	if len(a.layout) > 0 && sameCluster(s.known, a.layout) {
		return true
	}
	s.err = errStranger
	s.foreign = append(s.foreign, a.addr)
	switch n := knownIn(s.known, a.layout); {
	case n > knownIn(s.known, s.rest):
		s.rest = a.layout
	case n == 0 && len(a.layout) > 0 && shardAt(s.known, a.addr) != nil:
		s.others = grouped(s.others, a)
	}
	return false
}

// adopt makes an answer the layout of this cluster, and returns the layout. A slot for which the
// answer names no master stays with its last shard. If the answer is about another cluster, or
// about the rest of this cluster, no slot stays with its last shard, and each node is greeted
// again.
func (n *Nodes) adopt(answer []wire.Shard) []wire.Shard {
	n.mu.Lock()
	defer n.mu.Unlock()
	if sameCluster(n.layout, answer) {
		answer = withUnserved(answer, n.layout)
	} else {
		for _, p := range n.peers {
			p.Again()
		}
		clear(n.members)
	}
	n.layout = n.withMembers(answer)
	clear(n.moved)
	for _, s := range n.layout {
		if p := n.peers[s.Addr]; p != nil && s.ID() != "" {
			p.id = s.ID()
		}
	}
	n.forgetGone()
	return n.layout
}

// withMembers makes the nodes of an answer members, and adds to each shard the members that the
// shard had in the layout before. The mutex is held.
func (n *Nodes) withMembers(answer []wire.Shard) []wire.Shard {
	now := n.now()
	for i := range answer {
		s := &answer[i]
		for k, id := range s.Nodes {
			if k < len(s.Addrs) {
				n.members[id] = member{s.Addrs[k], now}
			}
		}
	}
	maps.DeleteFunc(n.members, func(_ string, m member) bool { return now.Sub(m.seen) >= memberRest })
	for i := range answer {
		s := &answer[i]
		for _, known := range n.layout {
			if !slices.ContainsFunc(known.Nodes, func(id string) bool { return slices.Contains(s.Nodes, id) }) {
				continue
			}
			for _, id := range known.Nodes {
				if _, lately := n.members[id]; lately && !slices.Contains(s.Nodes, id) {
					s.Nodes = append(slices.Clip(s.Nodes), id)
				}
			}
		}
	}
	return answer
}

// memberAddrs returns the addresses of the members, sorted.
func (n *Nodes) memberAddrs() (all []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.members {
		if m.addr != "" {
			all = append(all, m.addr)
		}
	}
	slices.Sort(all)
	return all
}

// forgetGone forgets the peers that are no masters and have had no use for clientRest. A master
// stays, because the connection for messages may be the peer's. The mutex is held.
func (n *Nodes) forgetGone() {
	now := n.now()
	for addr, p := range n.peers {
		if shardAt(n.layout, addr) != nil || now.Sub(p.used) < clientRest {
			continue
		}
		delete(n.peers, addr)
		if p.own != nil {
			n.background.Go(p.own.Close) // it waits for the commands under way
		}
		n.background.Go(p.Close)
	}
}

// KnowsSharded reports whether the nodes know sharded channels. Nodes before version 7.0 do not.
// KnowsSharded asks all at once, and waits for askTime at most. KnowsSharded returns true if no
// node answers the question, for instance because the user may not ask.
func (n *Nodes) KnowsSharded() bool {
	nodes := n.cluster.Nodes()
	answers := make(chan error, len(nodes))
	for _, node := range nodes {
		n.background.Go(func() {
			ctx, end := wire.StartOnce(n.ctx, wire.QuestionTime)
			defer end()
			answers <- node.Do(ctx, node.B().Arbitrary("PUBSUB", "SHARDNUMSUB").Build()).Error()
		})
	}
	late := time.After(askTime)
	for range nodes {
		select {
		case err := <-answers:
			if err == nil {
				return true
			}
			if e, refused := rueidis.IsRedisErr(err); refused && strings.Contains(strings.ToLower(e.Error()), "subcommand") {
				return false // unknown PUBSUB subcommand: the words differ between versions
			}
		case <-late:
			return true
		}
	}
	return true
}
