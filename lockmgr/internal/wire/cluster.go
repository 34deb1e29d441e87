package wire

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// KnowsSharded reports whether the nodes of a cluster know sharded channels, as those before
// version 7.0 do not. An answer of another kind, for instance that the user may not ask, does
// not count as no.
func KnowsSharded(ctx context.Context, client rueidis.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for _, node := range client.Nodes() {
		err := node.Do(ctx, node.B().Arbitrary("PUBSUB", "SHARDNUMSUB").Build()).Error()
		if e, refused := rueidis.IsRedisErr(err); refused && strings.Contains(strings.ToLower(e.Error()), "subcommand") {
			return false // unknown PUBSUB subcommand: the words differ between versions
		}
		if err == nil {
			break
		}
	}
	return true
}

// crossSlot is the failure of a command whose keys are in several slots.
var crossSlot = &Failure{
	Kind: Topology, Ran: core.No, Final: true, Hint: "names of one command must share a slot: put the same text in braces into each, as in {orders}:1",
	Err: errors.New("the names are in several slots of the cluster"),
}

// inOneSlot calls exec for the commands whose keys share a slot. The others are answered: the
// client of a cluster would panic. No lane sends such a command.
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

// execAnywhere runs commands whose keys may be on several masters. The client finds these, and
// follows MOVED and ASK. For what a script could not tell those who listen see listeners.
func (s link) execAnywhere(commands []Command, answers []Answer) {
	s.sendAnywhere(commands, answers)
	if s.channels == Classic {
		return
	}
	if tell, reached := unheard(commands, answers); len(tell) > 0 {
		told := make([]Answer, len(tell))
		s.sendAnywhere(tell, told)
		for i := range told {
			*reached[i] = max(*reached[i], told[i].subscribers())
		}
	}
}

// sendAnywhere sends commands one by one, at the same time: in a batch one slot without a master
// would hold up all others.
func (s link) sendAnywhere(commands []Command, answers []Answer) {
	ctx := s.start()
	var sending sync.WaitGroup
	for i := range commands {
		command := s.build(&commands[i])
		sending.Go(func() { answers[i] = s.read(&commands[i], s.client.Do(ctx, command)) })
	}
	sending.Wait()
	if slices.ContainsFunc(answers, func(a Answer) bool { return a.missing() }) {
		s.load(commands, answers)
	}
}
