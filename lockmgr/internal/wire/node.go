package wire

import (
	"context"
	"errors"

	"github.com/redis/rueidis"
)

// A node is a Server that sends to a single node of a cluster. Commands for slots of another master
// get a failure with Elsewhere set.
type node struct {
	of   *Nodes
	addr string
}

// Node returns a Server for the master at an address. Node does no I/O.
func (n *Nodes) Node(addr string) Server { return node{n, addr} }

// Exec makes node a Server. A greeting may come before the commands.
func (n node) Exec(limit *Deadline, commands []Command, answers []Answer) {
	n.run(limit.Start, answers, func(l link) {
		l.limit = limit
		l.exec(commands, answers)
	})
}

// run calls send with the way to the node. send fills in the answers. start begins the round trip
// of a greeting.
func (n node) run(start func() context.Context, answers []Answer, send func(link)) {
	l, f := n.of.greeted(start, n.addr)
	if f != nil {
		refuse(answers, retryIfClosed(f))
		return
	}
	send(l)
	for i := range answers {
		f := answers[i].Failure
		if f == nil {
			continue
		}
		if f.general() && !f.Elsewhere && !f.Scattered {
			n.of.failed(n.addr) // the client may have another connection to this node by now
		}
		answers[i].Failure = retryIfClosed(f)
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
	l, f := n.of.greeted(func() context.Context { return ctx }, n.addr)
	if f != nil {
		return nil, f.Err
	}
	return dedicate(l)
}
