package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// several returns an operation on a set of a plain lock and the read side of a read-write lock.
func several(verb core.Verb, tokens int64) *core.Op {
	return &core.Op{Kind: core.Several, Verb: verb, Name: "a+b", Lease: lease, Number: 1, OtherNumbers: []uint64{1}, Tokens: tokens,
		Items: []core.Item{{Name: "a"}, {Name: "b", Kind: core.ReadWrite, Side: core.Shared}}}
}

// ints returns a reply of integers.
func ints(all ...int64) *Answer {
	a := &Answer{Kind: Array}
	for _, n := range all {
		a.Array = append(a.Array, Answer{Kind: Int, Int: n})
	}
	return a
}

// texts returns a reply of bulk strings.
func texts(all ...string) *Answer {
	a := &Answer{Kind: Array}
	for _, s := range all {
		a.Array = append(a.Array, Answer{Kind: Text, Text: s})
	}
	return a
}

// What no script returns is an error. It says neither that a set, or permits, are ours nor that they
// are another's.
func TestSeveral_BadReplies(t *testing.T) {
	nothing, text, gathers := &Answer{Kind: Nil}, &Answer{Kind: Text, Text: "1"}, permitOp(core.VerbAcquire, "a")
	gathers.Gather = time.Second
	for _, tt := range []struct {
		op        *core.Op
		good, bad []*Answer
	}{
		{several(core.VerbAcquire, 0), []*Answer{nothing, ints(1, 5000), ints(2, -1), ints(2, 5000, 1)},
			[]*Answer{ints(), ints(1), ints(0, 5000), ints(-1, 5000), ints(3, 5000), ints(1, 2, 3, 4), texts("1", "2"), texts("1"), {Kind: Int, Int: 1}, text}},
		{several(core.VerbAcquire, 1), []*Answer{texts("7", "9223372036854775807"), ints(1, 5000)},
			[]*Answer{nothing, texts(), texts("7"), texts("7", "8", "9"), texts("7", "0"), texts("7", "-8"), texts("7", "x"), ints(0, 7), {Kind: Text, Text: "7"},
				{Kind: Array, Array: []Answer{{Kind: Text, Text: "7"}, {Kind: Int, Int: 8}}}}},
		{several(core.VerbRelease, 0), []*Answer{nothing, ints(0, 0, -1), ints(1, 0, -1), ints(2, 2, 5)},
			[]*Answer{ints(), ints(2), ints(2, 2), ints(3, 2, 5), ints(-1, 0, 0), ints(2, 2, 5, 1), texts("2", "2", "5"), {Kind: Int, Int: 2}}},
		{permitOp(core.VerbAcquire, "a"), []*Answer{nothing, {Kind: Int, Int: 5000}, {Kind: Int, Int: -1}, ints(-1), ints(-2, 1)},
			[]*Answer{text, ints(), ints(5000, 1), ints(1, 2, 3), texts("1"), ints(-2, 0), ints(-2, 2)}},
		{gathers, []*Answer{nothing, ints(5000, 1), ints(5000, 0), ints(-1)}, []*Answer{text, ints(), ints(1, 2, 3), texts("1", "2"), texts("1")}},
		{permitOp(core.VerbRelease, "a"), []*Answer{nothing, ints(1, 3), ints(2, 3)},
			[]*Answer{text, ints(), ints(1), ints(0, 3), ints(2, 3, 4), texts("2", "3")}},
	} {
		requireShapes(t, tt.op, tt.good, tt.bad)
	}
}

// requireShapes checks that some answers are read, and that others are errors.
func requireShapes(t *testing.T, op *core.Op, good, bad []*Answer) {
	t.Helper()
	for _, a := range good {
		r := decodeOne(op, a)
		require.Equal(t, core.Yes, r.Ran, "%+v: %+v", op, a)
		require.NoError(t, r.Err)
	}
	for _, a := range bad {
		r := decodeOne(op, a)
		require.False(t, r.OK, "%+v: %+v", op, a)
		require.Equal(t, core.Maybe, r.Ran, "%+v: %+v", op, a)
		require.Error(t, r.Err)
	}
}

// A release tells how many of the locks it has found.
func TestSeveral_PartlyReleased(t *testing.T) {
	for done, partly := range []bool{false, true, false} {
		r := Decode(several(core.VerbRelease, 0), ints(int64(done), int64(done), 3), fail)
		require.Equal(t, done > 0, r.OK)
		require.Equal(t, partly, r.Partly, "%d of 2", done)
	}
}

// A refused try has kept the items before the refusal if it asked for that, unless it met another
// kind of lock.
func TestSeveral_Gathered(t *testing.T) {
	for _, tt := range []struct {
		gather time.Duration
		answer *Answer
		want   bool
	}{{0, ints(1, 5000), false}, {time.Second, ints(1, 5000), false}, {time.Second, ints(2, 5000), true}, {time.Second, ints(2, 5000, 1), false}} {
		op := several(core.VerbAcquire, 0)
		op.Gather = tt.gather
		require.Equal(t, tt.want, Decode(op, tt.answer, func(f *Failure) error { return nil }).Gathered)
	}
}
