package wire

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A node is a Server that sends to a single node of a cluster. Commands for slots of another master
// get a failure with Elsewhere set.
type node struct {
	of   *Nodes
	addr string
}

// Node returns a Server for the master at an address. Node does no I/O.
func (n *Nodes) Node(addr string) Server { return node{n, addr} }

// Exec makes node a Server. A proof may come before the commands, and another after the commands.
func (n node) Exec(limit *Deadline, commands []Command, answers []Answer) {
	n.run(limit.Start, answers, func(c rueidis.Client) {
		link{client: c, limit: limit, channels: n.of.channels}.exec(commands, answers)
	})
}

// run gets a proof of the node, and then calls send with a client of the node. send fills in the
// answers. If the client has dialled the node during send, run asks for another proof, and drops
// the answers if the proof fails. start begins the round trip of a proof.
func (n node) run(start func() context.Context, answers []Answer, send func(rueidis.Client)) {
	c, f := n.of.proved(start, n.addr)
	if f != nil {
		refuse(answers, retryIfClosed(f))
		return
	}
	send(c.client)
	needsProof := false // some answer may be from another cluster
	for i := range answers {
		f := answers[i].Failure
		if f.general() && !f.Elsewhere && !f.Scattered {
			n.of.disprove(n.addr, c) // the client may have another connection to this node by now
		} else {
			needsProof = true
		}
		if f != nil {
			answers[i].Failure = retryIfClosed(f)
		}
	}
	if !needsProof || n.of.dials.to(n.addr).made == c.dials.made {
		return
	}
	if _, f := n.of.proved(start, n.addr); f != nil {
		unproved := *retryIfClosed(f)
		unproved.Ran = core.Maybe
		refuse(answers, &unproved)
	}
}

// retryIfClosed returns the failure of a command for a node. The failure is not final if the client
// has closed the connection to the node, because the next command gets another connection.
func retryIfClosed(f *Failure) *Failure {
	if f.Final && errors.Is(f.Err, rueidis.ErrClosing) {
		passing := *f
		passing.Final = false
		return &passing
	}
	return f
}

// Dedicate is Redis.Dedicate for n.
func (n node) Dedicate() (Connection, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dedicateTimeout)
	defer cancel()
	c, f := n.of.proved(func() context.Context { return ctx }, n.addr)
	if f != nil {
		return nil, f.Err
	}
	return Redis{Client: c.client, Channels: n.of.channels}.Dedicate()
}
