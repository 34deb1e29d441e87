package cluster

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A node is a Server that sends to a single node of a cluster. Commands for slots of another master
// get a failure with Elsewhere set.
type node struct {
	of   *Nodes
	addr string
}

// Node returns a Server for the master at an address. Node does no I/O.
func (n *Nodes) Node(addr string) wire.Server { return node{n, addr} }

// Exec makes node a Server. A greeting may come before the commands.
func (n node) Exec(limit *wire.Deadline, commands []wire.Command, answers []wire.Answer) {
	n.run(limit.Start, answers, func(to wire.Redis) { to.Exec(limit, commands, answers) })
}

// run calls send with the way to the node. send fills in the answers. start is that of greeted.
func (n node) run(start func() context.Context, answers []wire.Answer, send func(wire.Redis)) {
	to, f := n.of.greeted(start, n.addr)
	if f != nil {
		wire.Refuse(answers, retryIfClosed(f))
		return
	}
	send(to)
	for i := range answers {
		f := answers[i].Failure
		if f == nil {
			continue
		}
		if f.General() && !f.Elsewhere && !f.OnlyThis {
			n.of.greetAgain(n.addr) // the client may have another connection to this node by now
		}
		answers[i].Failure = retryIfClosed(f)
	}
}

// retryIfClosed returns f, but not final if the client has closed the connection to the node: the
// next command gets another connection.
func retryIfClosed(f *wire.Failure) *wire.Failure {
	if f.Final && errors.Is(f.Err, rueidis.ErrClosing) {
		passing := *f
		passing.Final = false
		return &passing
	}
	return f
}

// Dedicate is Redis.Dedicate for n.
func (n node) Dedicate() (wire.Connection, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wire.DedicateTimeout)
	defer cancel()
	to, f := n.of.greeted(func() context.Context { return ctx }, n.addr)
	if f != nil {
		return nil, f.Err
	}
	return to.Dedicate()
}
