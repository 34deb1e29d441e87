package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// permitOp returns an operation on two permits of ten, of a manager that has another holder.
func permitOp(verb core.Verb, name string) *core.Op {
	return &core.Op{Kind: core.Permits, Verb: verb, Name: name, Lease: lease, Number: 1, OtherNumbers: []uint64{2},
		Permits: 2, Most: 2, Limit: 10}
}

// Operations for which the server has much to do have commands of their own.
func TestPermits_LargeOperationsShareNoCommand(t *testing.T) {
	large := permitOp(core.VerbAcquire, "a")
	large.Permits, large.Most = 200, 200
	require.Len(t, batchOf(tasks(permitOp(core.VerbAcquire, "b"), large, permitOp(core.VerbAcquire, "c"))).commands, 2)
}

// decodeOne reads an answer as that of a command with one operation.
func decodeOne(op *core.Op, a *Answer) core.Reply {
	if formatOf(op).evenOne {
		a = &Answer{Kind: Array, Array: []Answer{*a}}
	}
	return Decode(op, a, fail)
}

// The answer to a release says how many permits of the hold it has found.
func TestPermits_PartlyReleased(t *testing.T) {
	for n, partly := range map[int64]bool{1: true, 2: false} {
		r := decodeOne(permitOp(core.VerbRelease, "a"), ints(n, 3))
		require.True(t, r.OK)
		require.Equal(t, partly, r.Partly, "%d of 2", n)
		require.Equal(t, int64(3), r.Subscribers)
	}
	untold := ints(2, -1)
	untold.Array = append(untold.Array, Answer{Kind: Text, Text: "NOPERM no permissions to access a channel"})
	r := decodeOne(permitOp(core.VerbRelease, "a"), untold)
	require.True(t, r.OK, "the permits are given back")
	require.Error(t, r.Err, "but nobody was told")
}

// The state of permits is read as a whole or not at all.
func TestPermits_BadStates(t *testing.T) {
	state := func(free string, rest ...Answer) *Answer {
		return &Answer{Kind: Array, Array: append([]Answer{{Kind: Text, Text: free}, {Kind: Int, Int: 1}, {Kind: Int}, {Kind: Int, Int: 4}}, rest...)}
	}
	id := Permit(manager, 7, 1)
	s, ok := ReadPermits(state("2", Answer{Kind: Text, Text: string(id[:])}, Answer{Kind: Int, Int: 1000}))
	require.True(t, ok)
	require.Equal(t, PermitsState{Exists: true, Free: 2, Taken: 1, Waiting: 4, Permits: []TakenPermit{{string(id[:]), time.Second}}}, s)
	require.True(t, s.Permits[0].Of(manager))
	require.Equal(t, "00112233445566770000000000070001", s.Permits[0].Text())
	for _, a := range []*Answer{{Kind: Nil}, ints(1, 2, 3, 4), state("x"), state("2", Answer{Kind: Int}, Answer{Kind: Int}), state("2", Answer{Kind: Text}), state("2", Answer{Kind: Text}, Answer{Kind: Text})} {
		_, ok := ReadPermits(a)
		require.False(t, ok, "%+v", a)
	}
}

// An acquire that waits says for how long its place in the line lasts, and a release may leave the
// line. The manager is said once for all operations of a command.
func TestPermits_Line(t *testing.T) {
	const manager = "0102030405060708090a0b0c0d0e0f10"
	op := core.Op{Kind: core.Permits, Verb: core.VerbRelease, Name: "a", Most: 3, ID: 5, OtherNumbers: []uint64{7}, Leaves: true, Limit: 4}
	c := Encode(manager, &op)
	require.Equal(t, []string{manager, "redisson_sc:{a}", "{a}:line", "{a}:wants", "5", "1", "4", "3", "1"}, c.Args[:9])
	require.Equal(t, []string{"a", "{a}:timeout"}, c.Keys)
	op = core.Op{Kind: core.Permits, Verb: core.VerbAcquire, Name: "a", Permits: 2, Most: 3, Limit: 9, ID: 6, Number: 8, Lease: time.Second, Waits: 2 * time.Second, Deaf: true}
	c = Encode(manager, &op)
	require.Equal(t, []string{"1000", manager, "redisson_sc:{a}", "{a}:line", "{a}:wants", "6", "2000", "1", "2", "9", "0", "3", "1"}, c.Args[:13])
	require.Equal(t, "redisson_sc:{a}:"+manager, OwnChannel(core.Permits, manager, "a"))
	for message, is := range map[string]struct{ ours, served bool }{
		"": {}, "0": {}, "1": {}, "12": {}, "00": {true, true}, "03": {true, true}, "010": {true, true}, "000": {ours: true}, "0010": {ours: true},
	} {
		require.Equal(t, is.ours, Ours(message), "%q", message)
		require.Equal(t, is.served, Served(message), "%q", message)
	}
}
