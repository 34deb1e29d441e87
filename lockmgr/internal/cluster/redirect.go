package cluster

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// mostRedirections bounds how many masters a command is sent to, one after another.
const mostRedirections = 5

// Exec makes Nodes a Server for commands that the master of the layout has refused. Exec then
// publishes the messages that the scripts could not deliver: see listeners.go.
func (n *Nodes) Exec(d *wire.Deadline, commands []wire.Command, answers []wire.Answer) {
	n.send(d.Start(), commands, answers)
	if n.channels == wire.Classic {
		return
	}
	if tell, reached := wire.Unheard(commands, answers); len(tell) > 0 {
		told := make([]wire.Answer, len(tell))
		n.send(d.Start(), tell, told)
		for i := range told {
			*reached[i] = max(*reached[i], told[i].Subscribers())
		}
	}
}

// send sends each command to the master that the layout or a MOVED names, and then follows MOVED
// and ASK. Commands are sent separately, at the same time, because the commands may be for
// different masters.
func (n *Nodes) send(ctx context.Context, commands []wire.Command, answers []wire.Answer) {
	var sending sync.WaitGroup
	for i := range commands {
		sending.Go(func() { answers[i] = n.follow(ctx, &commands[i]) })
	}
	sending.Wait()
}

// follow runs a command at the master that serves its slot, and follows MOVED and ASK.
func (n *Nodes) follow(ctx context.Context, c *wire.Command) wire.Answer {
	slot := 0 // for a command without keys, as in Lanes.Call
	if len(c.Keys) > 0 {
		slot = wire.SlotOf(c.Keys[0])
	}
	addr, asking := n.master(slot), false
	if addr == "" {
		return unserved.Answer()
	}
	var a [1]wire.Answer
	for range mostRedirections {
		node{n, addr}.run(func() context.Context { return ctx }, a[:], func(to wire.Redis) { a[0] = to.One(ctx, c, asking) })
		f := a[0].Failure
		if f == nil || !f.Elsewhere {
			return a[0]
		}
		if f == unknownNode {
			if f := n.discover(ctx, c); f != nil {
				return f.Answer()
			}
			continue
		}
		named, ask := wire.Redirection(f, addr)
		if named = n.resolve(named, addr); named == "" {
			return ofSlot(f.Err, hintNowhere).Answer()
		}
		if !ask {
			n.move(slot, named)
		}
		addr, asking = named, ask
	}
	return ofSlot(a[0].Failure.Err, hintDisagreement).Answer()
}

// ofSlot returns the failure of a command for which no master of the slot was found.
func ofSlot(err error, hint string) *wire.Failure {
	return &wire.Failure{Kind: wire.Unavailable, Ran: core.No, OnlyThis: true, Err: err, Hint: hint}
}

// The hints of commands that masters have sent elsewhere.
const (
	hintDisagreement = "the masters of the cluster do not agree who serves the slot"
	hintNowhere      = "the master that was asked does not know the address of the one that serves the slot: see CLUSTER NODES there"
)

// unserved is the failure of a command for a slot that no master serves.
var unserved = ofSlot(errors.New("the slot has no master"), wire.HintUnserved)

// resolve returns the address that a redirection names. If the asked node does not know the host,
// the host is "?". Then resolve returns the address of the only other master with the same port, or
// "".
func (n *Nodes) resolve(named, asked string) (addr string) {
	port, unknown := strings.CutPrefix(named, "?:")
	if !unknown {
		return named
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.layout {
		if _, p, _ := net.SplitHostPort(s.Addr); p == port && s.Addr != asked {
			if addr != "" {
				return "" // there are several
			}
			addr = s.Addr
		}
	}
	return addr
}

// DeniedQuestion returns the command of a greeting that the user may not send to the node at an
// address, or "" if the user may send both, or if the answer is not known. DeniedQuestion blocks
// for a round trip, or two.
func (n *Nodes) DeniedQuestion(ctx context.Context, addr string) string {
	_, f := n.greeted(func() context.Context { return ctx }, addr)
	switch {
	case f == nil || f.Kind != wire.Permission || f.BadLogin():
		return ""
	case strings.Contains(f.Err.Error(), "slots"):
		return "cluster|slots"
	}
	return "cluster|myid"
}

// MaySendAsking reports whether the user may send ASKING to the node at an address. Commands for a
// moving slot need ASKING. MaySendAsking returns true if the answer is not known. MaySendAsking
// blocks for a round trip, or two.
func (n *Nodes) MaySendAsking(ctx context.Context, addr string) bool {
	to, f := n.greeted(func() context.Context { return ctx }, addr)
	if f != nil {
		return true
	}
	err, _ := question(ctx, n, func(ctx context.Context) error {
		b := to.Client.B() // ASKING sets a flag for the next command, and CLUSTER SLOTS uses it up
		return to.Client.DoMulti(ctx, b.Asking().Build(), b.ClusterSlots().Build())[0].Error()
	})
	e, refused := rueidis.IsRedisErr(err)
	return !refused || !strings.HasPrefix(e.Error(), "NOPERM")
}

// discover makes the client of the cluster look for the master of a command, so that the client
// knows the master. Only a manager that may dial no master itself needs discover. The script that
// the client sends does nothing at any node.
func (n *Nodes) discover(ctx context.Context, c *wire.Command) *wire.Failure {
	if len(c.Keys) == 0 {
		return unknownNode
	}
	to := wire.Redis{Client: n.cluster, Channels: n.channels, Node: "nobody"}
	a := to.One(ctx, &wire.Command{Script: wire.Acquire, Keys: c.Keys[:1]}, false)
	switch f := a.Failure; {
	case f == nil || f == wire.StrangeNode:
		return nil
	case f.Elsewhere:
		return ofSlot(f.Err, hintDisagreement) // the client follows so many redirections and no more
	default:
		unsent := *f
		unsent.Ran = core.No
		return &unsent
	}
}
