package wire

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// mostRedirections bounds how many masters a command is sent to, one after another.
const mostRedirections = 5

// Exec makes Nodes a Server for commands that the master of the layout has refused. Exec sends each
// command to the master that the layout or a MOVED names, and then follows MOVED and ASK. Commands
// are sent separately, at the same time, because the commands may be for different masters.
func (n *Nodes) Exec(limit *Deadline, commands []Command, answers []Answer) {
	inOneSlot(commands, answers, func(commands []Command, answers []Answer) {
		publishMissed(n.channels, commands, answers, func(commands []Command, answers []Answer) {
			ctx := limit.Start()
			var sending sync.WaitGroup
			for i := range commands {
				sending.Go(func() { answers[i] = n.follow(ctx, &commands[i]) })
			}
			sending.Wait()
		})
	})
}

// crossSlot is the failure of a command whose keys are in several slots.
var crossSlot = &Failure{
	Kind: Topology, Ran: core.No, Final: true, Hint: "names of one command must share a slot: put the same text in braces into each, as in {orders}:1",
	Err: errors.New("the names are in several slots of the cluster"),
}

// inOneSlot calls exec for the commands whose keys share a slot. All further commands are answered
// here, because the client of a cluster would panic. No lane sends commands with keys in several
// slots.
func inOneSlot(commands []Command, answers []Answer, exec func([]Command, []Answer)) {
	var send []Command
	var at []int
	for i := range commands {
		if commands[i].sameSlot() {
			send, at = append(send, commands[i]), append(at, i)
		} else {
			answers[i] = failed(crossSlot)
		}
	}
	if len(send) == 0 {
		return
	}
	got := make([]Answer, len(send))
	exec(send, got)
	for j, i := range at {
		answers[i] = got[j]
	}
}

// publishMissed runs commands by send, which may send each to another master. After that,
// publishMissed publishes the messages that the scripts could not deliver: see listeners.go.
func publishMissed(channels Channels, commands []Command, answers []Answer, send func([]Command, []Answer)) {
	send(commands, answers)
	if channels == Classic {
		return
	}
	if tell, reached := unheard(commands, answers); len(tell) > 0 {
		told := make([]Answer, len(tell))
		send(tell, told)
		for i := range told {
			*reached[i] = max(*reached[i], told[i].subscribers())
		}
	}
}

// follow runs a command at the master that serves its slot, and follows MOVED and ASK.
func (n *Nodes) follow(ctx context.Context, c *Command) Answer {
	slot := 0 // of a command without keys, as in Lanes.Call
	if len(c.Keys) > 0 {
		slot = SlotOf(c.Keys[0])
	}
	addr, asking := n.master(slot), false
	if addr == "" {
		return failed(unserved)
	}
	var a [1]Answer
	for range mostRedirections {
		node{n, addr}.run(func() context.Context { return ctx }, a[:], func(l link) { a[0] = l.one(ctx, c, asking) })
		f := a[0].Failure
		if f == nil || !f.Elsewhere {
			return a[0]
		}
		if f == unknownNode {
			if f := n.meet(ctx, c); f != nil {
				return failed(f)
			}
			continue
		}
		to, ask := redirection(f, addr)
		if to = n.resolve(to, addr); to == "" {
			return failed(nowhere(f))
		}
		if !ask {
			n.move(slot, to)
		}
		addr, asking = to, ask
	}
	return failed(disagreement(a[0].Failure))
}

// disagreement returns the failure of a command that was sent from master to master too often. f is
// the last failure of the command.
func disagreement(f *Failure) *Failure {
	return &Failure{
		Kind: Unavailable, Ran: core.No, Scattered: true, Err: f.Err,
		Hint: "the masters of the cluster do not agree who serves the slot",
	}
}

// nowhere returns the failure of a command that a master sent to an unusable address. f is the
// failure that named the address.
func nowhere(f *Failure) *Failure {
	return &Failure{
		Kind: Unavailable, Ran: core.No, Scattered: true, Err: f.Err,
		Hint: "the master that was asked does not know the address of the one that serves the slot: see CLUSTER NODES there",
	}
}

// unserved is the failure of a command for a slot that no master serves.
var unserved = &Failure{
	Kind: Unavailable, Ran: core.No, Scattered: true, Err: errors.New("the slot has no master"),
	Hint: hintUnserved,
}

// resolve returns the address that a redirection names. If the host of to is "?", the asked node
// does not know the host. In this case resolve returns the address of the only other master with
// the same port, or "".
func (n *Nodes) resolve(to, asked string) string {
	port, unknown := strings.CutPrefix(to, "?:")
	if !unknown {
		return to
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	to = ""
	for _, s := range n.layout {
		if _, p, _ := net.SplitHostPort(s.Addr); p == port && s.Addr != asked {
			if to != "" {
				return "" // there are several
			}
			to = s.Addr
		}
	}
	return to
}

// redirection returns the address that a MOVED or an ASK names, or "" if the failure is neither.
// asked is the address of the node that gave the failure. If no host is named, the host is the host
// of asked. The host may be "?": see resolve.
func redirection(f *Failure, asked string) (addr string, ask bool) {
	e, refused := rueidis.IsRedisErr(f.Err)
	if !refused {
		return "", false
	}
	words := strings.Fields(e.Error()) // MOVED 3999 127.0.0.1:6381
	if len(words) < 3 {
		return "", false
	}
	addr = words[2]
	i := strings.LastIndexByte(addr, ':') // an IPv6 address has no brackets here
	if i < 0 {
		return "", false
	}
	host := strings.Trim(addr[:i], "[]")
	if host == "" {
		var err error
		if host, _, err = net.SplitHostPort(asked); err != nil {
			return "", false
		}
	}
	return net.JoinHostPort(host, addr[i+1:]), words[0] == "ASK"
}

// DeniedQuestion returns the command of a greeting that the user may not send to the node at an
// address, or "" if the user may send both, or if the answer is not known. DeniedQuestion blocks
// for a round trip, or two.
func (n *Nodes) DeniedQuestion(ctx context.Context, addr string) string {
	_, f := n.greeted(func() context.Context { return ctx }, addr)
	switch {
	case f == nil || f.Kind != Permission || f.BadLogin():
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
	l, f := n.greeted(func() context.Context { return ctx }, addr)
	if f != nil {
		return true
	}
	err, _ := question(ctx, n, func(ctx context.Context) error {
		b := l.client.B() // ASKING sets a flag for the next command, and CLUSTER SLOTS uses it up
		return l.client.DoMulti(ctx, b.Asking().Build(), b.ClusterSlots().Build())[0].Error()
	})
	e, refused := rueidis.IsRedisErr(err)
	return !refused || !strings.HasPrefix(e.Error(), "NOPERM")
}

// meet makes the client of the cluster look for the master of a command, so that the client knows
// the master. Only a manager that may dial no master itself needs meet. The script that the client
// sends does nothing at any node.
func (n *Nodes) meet(ctx context.Context, c *Command) *Failure {
	if len(c.Keys) == 0 {
		return unknownNode
	}
	l := link{client: n.cluster, channels: n.channels, node: "nobody"}
	a := l.one(ctx, &Command{Script: Acquire, Keys: c.Keys[:1]}, false)
	switch f := a.Failure; {
	case f == nil || f == strangeNode:
		return nil
	case f.Elsewhere:
		return disagreement(f) // the client follows so many redirections and no more
	default:
		unsent := *f
		unsent.Ran = core.No
		return &unsent
	}
}
