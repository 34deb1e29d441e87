package wire

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// isChannel reports whether a text is a channel of a lock.
func isChannel(s string) bool {
	for _, prefix := range []string{ChannelPrefix, formats[core.ReadWrite].channel, permitsChannel} {
		if strings.HasPrefix(s, prefix+":") {
			return true
		}
	}
	return false
}

// everyCommand returns a command of each script.
func everyCommand() (all []Command) {
	items := []core.Item{{Name: "{a}1"}, {Name: "{a}2", Kind: core.ReadWrite, Side: core.Shared}, {Name: "{a}3", Kind: core.ReadWrite, Side: core.Alone}}
	for kind := range formats {
		for verb := range formats[kind].formats {
			if formats[kind].formats[verb].write == nil {
				continue
			}
			for _, side := range []core.Side{core.Alone, core.Shared} {
				for tokens := range int64(2) {
					op := &core.Op{
						Kind: core.Kind(kind), Verb: core.Verb(verb), Side: side, Name: "a", Lease: lease, Number: 2, OtherNumbers: []uint64{1, 2},
						Tokens: tokens, Permits: 1, Most: 1, PlaceOp: &core.PlaceOp{},
					}
					if op.Kind == core.Several {
						op.Items = items
					}
					all = append(all, Encode(manager, op))
					if op.Kind == core.Exclusive {
						op.Lined, op.Leaves = true, true
						all = append(all, Encode(manager, op))
					}
				}
			}
		}
	}
	keeps := released("a", 1)
	keeps.Reserve = lease
	all = append(all, batchOf(tasks(released("a", 1), released("b", 2))).commands...)
	return append(all, Encode(manager, keeps),
		Inspect("a", true), Force(core.Exclusive, "a", []string{"x"}), Force(core.ReadWrite, "a", []string{"x"}), Force(core.Fair, "a", []string{"x"}),
		ForceEntries("a", []string{"x"}),
		ReturnPermits("a", []string{"00"}), LimitPermits("a", "set", 1, 1), DeletePermits("a"), InspectPermits("a"))
}

// A channel is no key: no server has a key of its name. While a slot is being moved, a server runs
// no script that has some of its keys and not the others.
func TestCommand_ChannelsAreNoKeys(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range everyCommand() {
		for _, key := range c.Keys {
			require.False(t, isChannel(key), "%v %v", c.Args, c.Keys)
		}
		if c.Script == nil {
			continue
		}
		seen[c.Script.Name] = true
		text := c.Script.Text
		if !strings.Contains(text, "'PUBLISH'") && !strings.Contains(text, "'NUMSUB'") {
			require.Zero(t, c.listeners.channels, c.Script.Name)
			continue
		}
		named := 0
		if c.Script == Acquire || c.Script == rwAcquire || c.Script == severalAcquire { // it names the channels itself
			continue
		}
		if c.Script == inspect || c.Script == permitsInspect { // the line counts the managers. Clients in no line are missed while a slot moves
			continue
		}
		for _, word := range c.Args {
			if isChannel(word) {
				named++
			}
		}
		require.Positive(t, named, c.Script.Name)
		// Locks that share a command, and fair locks, are not served while a slot is moved. An
		// acquire does not return how many it has told.
		if c.ops > 1 || strings.HasPrefix(c.Script.Name, "fair_") || strings.HasSuffix(c.Script.Name, "acquire") || c.Script == force && len(c.Keys) > 1 {
			continue
		}
		require.Equal(t, named, c.listeners.channels, c.Script.Name)
		for _, word := range c.Args[c.listeners.first:][:c.listeners.channels] {
			require.True(t, isChannel(word), "%s: %s", c.Script.Name, word)
		}
		if c.Script != rwTransfer && c.Script != transfer && c.Script != permitsTransfer { // for a writer that becomes a reader only; it has plain.lua's function
			require.Equal(t, strings.Contains(text, "'PUBLISH'"), c.listeners.message != "", c.Script.Name)
		}
	}
	for _, s := range []*Script{
		Acquire, transfer, renew, release, releaseMany, reserve, force, inspect, rwAcquire, rwTransfer, rwRenew, rwRelease,
		severalAcquire, severalRenew, severalRelease, fairAcquire, fairTransfer, fairRelease,
		permitsAcquire, permitsTransfer, permitsRenew, permitsRelease, permitsReturn, permitsLimit, permitsDelete, permitsInspect,
	} {
		require.True(t, seen[s.Name], s.Name)
	}
}

// names returns the locks of a command, and none of its other keys.
func TestCommand_Names(t *testing.T) {
	two := [][]task{tasks(acquire("a", 1), acquire("b", 2)), tasks(released("a", 1), released("b", 2)), tasks(renewal("a", 1), renewal("b", 2))}
	for _, verb := range []core.Verb{core.VerbAcquire, core.VerbTransfer, core.VerbRenew, core.VerbRelease} {
		two = append(two, tasks(permitOp(verb, "a"), permitOp(verb, "b")))
	}
	for _, both := range two {
		b := batchOf(both)
		require.Len(t, b.commands, 1)
		require.Equal(t, []string{"a", "b"}, b.commands[0].names(), b.commands[0].Script.Name)
	}
	for _, c := range everyCommand() {
		want := []string{"a"}
		if strings.HasPrefix(c.Script.Name, "several") {
			want = []string{"{a}1", "{a}2", "{a}3"}
		}
		require.True(t, c.Script == releaseMany || slices.Equal(want, c.names()), "%s: %v", c.Script.Name, c.names())
	}
}

// A script that has reached nobody is made up for by a message for each channel, or by a count.
func TestUnheard(t *testing.T) {
	number := func(n int64) Answer { return Answer{Kind: Int, Int: n} }
	op := func(kind core.Kind, verb core.Verb, side core.Side, tokens int64) Command {
		o := &core.Op{Kind: kind, Verb: verb, Side: side, Name: "a", Number: 2, OtherNumbers: []uint64{1}, Tokens: tokens, Most: 1}
		if kind == core.Several {
			o.Items = []core.Item{{Name: "a"}, {Name: "b", Kind: core.ReadWrite}}
		}
		return Encode(manager, o)
	}
	release, pass := core.VerbRelease, core.VerbTransfer
	const plain, sides, permits = "redisson_lock__channel:{a}", "redisson_rwlock:{a}", "redisson_sc:{a}"
	for i, tt := range []struct {
		command Command
		answer  Answer
		tells   string // the commands, with a semicolon between them
	}{
		{op(core.Exclusive, release, core.Alone, 0), number(0), "SPUBLISH " + plain + " 000"},
		{op(core.Exclusive, release, core.Alone, 0), number(2), ""},
		{op(core.Exclusive, release, core.Alone, 0), Answer{}, ""},
		{op(core.Exclusive, release, core.Alone, 0), Answer{Kind: Text, Text: "NOPERM"}, ""},
		{op(core.Exclusive, release, core.Alone, 0), refusal(Topology), ""},
		{op(core.Exclusive, pass, core.Alone, 0), number(0), "PUBSUB SHARDNUMSUB " + plain},
		{op(core.Exclusive, pass, core.Alone, 1), Answer{Kind: Array, Array: []Answer{number(0), {Kind: Text, Text: "7"}}}, "PUBSUB SHARDNUMSUB " + plain},
		{op(core.Exclusive, pass, core.Alone, 0), number(-1), ""},
		{op(core.Exclusive, core.VerbAcquire, core.Alone, 0), number(0), ""},
		{op(core.ReadWrite, release, core.Shared, 0), number(0), "SPUBLISH " + sides + " 001"},
		{op(core.ReadWrite, release, core.Shared, 0), *ints(0), "PUBSUB SHARDNUMSUB " + sides},
		{op(core.ReadWrite, release, core.Shared, 0), *ints(1), ""},
		{op(core.ReadWrite, pass, core.Alone, 0), number(0), "PUBSUB SHARDNUMSUB " + sides},
		{op(core.ReadWrite, pass, core.Shared, 0), number(0), "SPUBLISH " + sides + " 001"},
		{op(core.ReadWrite, pass, core.Alone, 0), Answer{Kind: Array}, ""},
		{op(core.Several, release, core.Alone, 0), *ints(2, 2, 0), "SPUBLISH " + plain + " 001;SPUBLISH redisson_rwlock:{b} 001"},
		{op(core.Several, release, core.Alone, 0), *ints(2, 0, -1), ""},
		{op(core.Permits, release, core.Alone, 0), Answer{Kind: Array, Array: []Answer{*ints(1, 0)}}, "SPUBLISH " + permits + " 001"},
		{op(core.Permits, release, core.Alone, 0), Answer{Kind: Array, Array: []Answer{*ints(1, -1)}}, ""},
		{op(core.Permits, release, core.Alone, 0), Answer{Kind: Array, Array: []Answer{{}}}, ""},
		{op(core.Permits, pass, core.Alone, 0), *ints(0), "PUBSUB SHARDNUMSUB " + permits},
		{Force(core.Exclusive, "a", nil), number(1), "SPUBLISH " + plain + " 000"},
		{Force(core.Exclusive, "a", nil), number(0), ""},
		{Force(core.Exclusive, "a", nil), number(-1), ""},
		{ForceEntries("a", nil), number(0), "SPUBLISH " + sides + " 001"},
		{ForceEntries("a", nil), *ints(0), "SPUBLISH " + sides + " 001"},
		{ReturnPermits("a", nil), number(1), "SPUBLISH " + permits + " 001"},
		{LimitPermits("a", "set", 1, 1), number(-1), ""},
		{Inspect("a", false), Answer{Kind: Array, Array: []Answer{number(-2), number(0), {}}}, ""},
		{InspectPermits("a"), Answer{Kind: Array, Array: []Answer{{Kind: Text}, number(0), number(0), number(0)}}, ""},
		{batchOf(tasks(released("a", 1), released("b", 2))).commands[0], *ints(0, 0), ""}, // no such command goes to a new master
	} {
		answers := []Answer{{}, tt.answer}
		tell, reached := Unheard([]Command{{}, tt.command}, answers)
		var words []string
		for _, c := range tell {
			words = append(words, strings.Join(append(append(c.Args, c.Keys...), c.Rest...), " "))
		}
		require.Equal(t, tt.tells, strings.Join(words, ";"), i)
		require.Len(t, reached, len(tell))
		for _, n := range reached {
			require.EqualValues(t, -1, *n, "unknown before the answer")
		}
		if tt.command.Script == nil || len(reached) == 0 || tt.command.Script == force || tt.command.Script == permitsReturn {
			continue
		}
		*reached[0] = 5
		n, _ := tt.command.listeners.count(&answers[1])
		require.EqualValues(t, 5, *n, "%d: the number is that of the answer", i)
	}
	require.EqualValues(t, 3, ints(3).Array[0].Subscribers())
	require.EqualValues(t, 3, (&Answer{Kind: Array, Array: []Answer{{Kind: Text, Text: "c"}, number(3)}}).Subscribers())
	for _, a := range []Answer{{}, refusal(Topology), {Kind: Text, Text: "3"}, {Kind: Array}} {
		require.EqualValues(t, -1, a.Subscribers())
	}
}

// A command keeps its channels when it joins a batch, and the next command that has its memory does
// not have them.
func TestBatch_ListenersOfACall(t *testing.T) {
	b := batchOf([]task{{call: &call{command: Force(core.Exclusive, "a", []string{"x"})}}})
	require.Equal(t, 1, b.commands[0].listeners.channels)
	require.Equal(t, Channel("a"), b.commands[0].Args[b.commands[0].listeners.first])
	b.tasks = tasks(acquire("a", 1))
	b.build(0)
	require.Zero(t, b.commands[0].listeners.channels)
}
