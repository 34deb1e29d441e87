package wire

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// fairOp returns an operation on a fair lock.
func fairOp(verb core.Verb, name string, tokens int64, pass bool) *core.Op {
	return &core.Op{
		ID: 40, Kind: core.Fair, Verb: verb, Name: name, Lease: lease, Number: 7, OtherNumbers: []uint64{4, 5}, Tokens: tokens,
		PlaceOp: &core.PlaceOp{Join: []uint64{8, 9, 10}, Leave: []uint64{6}, Before: 7, Life: 5 * time.Second, Refresh: true, Count: 3, Pass: pass,
			GrantLease: 2 * time.Second, Secret: "5ec7e7", Fenced: true, Tell: true},
		Sent: 12345,
	}
}

// The words of a command are those that the header of fair.lua gives.
func TestFair_WordsOfACommand(t *testing.T) {
	keys := "a redisson_lock_queue:{a} redisson_lock_timeout:{a} redisson_lock_queue:{a}:waits redisson_lock_queue:{a}:absent redisson_lock_token:{a}"
	words := manager + " 5000 7 1 3 1000 0 1 7 40 redisson_lock__channel:{a} 12345 2000 5ec7e7 1 1 2 4 5 3 8 9 10 1 6"
	for _, tt := range []struct {
		op         *core.Op
		script     string
		keys, args string
	}{
		{fairOp(core.VerbAcquire, "a", 0, true), "fair_acquire", keys, words},
		{fairOp(core.VerbTransfer, "a", 0, true), "fair_transfer", keys, words},
		{fairOp(core.VerbTransfer, "a", 2, false), "fair_transfer", keys, manager + " 5000 7 1 3 1000 2 0 7 40 redisson_lock__channel:{a} 12345 2000 5ec7e7 1 1 2 4 5 3 8 9 10 1 6"},
		{&core.Op{ID: 41, Kind: core.Fair, Verb: core.VerbRelease, Name: "a", OtherNumbers: []uint64{4}, PlaceOp: &core.PlaceOp{Before: 12, Life: 5 * time.Second}},
			"fair_release", keys, manager + " 5000 12 0 0 0 0 0 0 41 redisson_lock__channel:{a} 0 0  0 0 1 4 0 0"},
		{&core.Op{Kind: core.Fair, Verb: core.VerbRenew, Name: "a", Lease: lease, Number: 7}, "renew", "a", "1000 " + manager + ":7:f"},
	} {
		c := Encode(manager, tt.op)
		require.Equal(t, tt.script, c.Script.Name)
		require.Equal(t, tt.keys, strings.Join(c.Keys, " "), "%v", tt.op.Verb)
		require.Equal(t, tt.args, strings.Join(c.Args, " "), "%v", tt.op.Verb)
	}
	for _, s := range []*Script{fairAcquire, fairTransfer, fairRelease} {
		require.True(t, strings.HasPrefix(s.Text, script.Text("grant")+script.Text("fair")), "%s lacks the common part", s.Name)
	}
}

// Renewals share a command. Other operations have commands of their own.
func TestFair_OperationsOfABatch(t *testing.T) {
	renewals := tasks(fairOp(core.VerbRenew, "a", 0, false), fairOp(core.VerbRenew, "b", 0, false))
	require.Equal(t, []string{"renew[a b][1000 u:7:f u:7:f]"}, sent(batchOf(renewals)))
	for _, verb := range []core.Verb{core.VerbAcquire, core.VerbTransfer, core.VerbRelease} {
		require.Len(t, batchOf(tasks(fairOp(verb, "a", 0, true), fairOp(verb, "b", 0, true))).commands, 2, "%v", verb)
	}
}

// A manager and a place have channels of their own, in the slot of the lock.
func TestFair_Channels(t *testing.T) {
	require.Equal(t, "redisson_lock__channel:{a}:"+manager, OwnChannel(core.Fair, manager, "a"))
	require.Equal(t, "redisson_lock__channel:{a}:"+manager+":7:f", PlaceChannel(manager, "a", 7))
	require.Equal(t, "redisson_lock__channel:x{a}y:"+manager, OwnChannel(core.Fair, manager, "x{a}y"))
}

func TestFair_Replies(t *testing.T) {
	fenced := func(token string) *Answer {
		a := ints(1, 9, 1, 0)
		a.Array = append(a.Array, Answer{Kind: Text, Text: token})
		return a
	}
	untold := &Answer{Kind: Array, Array: []Answer{{Kind: Int, Int: 1}, {Kind: Text, Text: "NOPERM no permissions to access a channel"}}}
	for _, tt := range []struct {
		verb   core.Verb
		tokens int64
		a      *Answer
		want   core.Reply
	}{
		{core.VerbAcquire, 0, ints(1, 0, 0, 0), core.Reply{OK: true}},
		{core.VerbAcquire, 0, ints(1, 9, 1, 0), core.Reply{OK: true, Front: 9, Mixed: true}},
		{core.VerbAcquire, 0, ints(1, 9, 0, 1), core.Reply{OK: true, Front: 9, Missing: true}},
		{core.VerbAcquire, 2, fenced("9223372036854775807"), core.Reply{OK: true, Front: 9, Mixed: true, Token: 1<<63 - 1}},
		{core.VerbAcquire, 0, ints(0, 250, 1, 0), core.Reply{TTL: 250 * time.Millisecond, Mixed: true}},
		{core.VerbAcquire, 2, ints(0, -1, 0, 1), core.Reply{TTL: -time.Millisecond, Missing: true}},
		{core.VerbAcquire, 0, ints(2, 250), core.Reply{TTL: 250 * time.Millisecond, OtherKind: true}},
		{core.VerbTransfer, 0, &Answer{Kind: Nil}, core.Reply{}},
		{core.VerbTransfer, 0, ints(1, 9, 1, 1), core.Reply{OK: true, Front: 9, Mixed: true, Missing: true}},
		{core.VerbTransfer, 2, fenced("12"), core.Reply{OK: true, Front: 9, Mixed: true, Token: 12}},
		{core.VerbTransfer, 0, ints(0, 250, 0, 1), core.Reply{GaveWay: true, TTL: 250 * time.Millisecond, Missing: true}},
		{core.VerbRelease, 0, ints(1), core.Reply{OK: true}},
		{core.VerbRelease, 0, ints(0), core.Reply{}},
		{core.VerbRelease, 0, untold, core.Reply{OK: true}},
	} {
		op := fairOp(tt.verb, "a", tt.tokens, true)
		got := Decode(op, tt.a, fail)
		require.Equal(t, tt.a == untold, got.Err != nil)
		tt.want.Op, tt.want.ID, tt.want.Ran, got.Err = op, op.ID, core.Yes, nil
		require.Equal(t, tt.want, got, "%v %+v", tt.verb, tt.a)
	}
}

// What no script returns is an error. It says neither that the lock is ours nor that it is
// another's.
func TestFair_BadReplies(t *testing.T) {
	elements := []Answer{
		{Kind: Int, Int: -1}, {Kind: Int}, {Kind: Int, Int: 1}, {Kind: Int, Int: 2}, {Kind: Int, Int: 3},
		{Kind: Text, Text: "0"}, {Kind: Text, Text: "1"}, {Kind: Text, Text: "x"}, {}, *ints(1),
	}
	all := []Answer{{Kind: Array}, *ints(1, 2, 0, 0, 0, 0), *ints(0, 2, 0, 0, 0, 0)}
	for i := 0; i < len(all); i++ { // adds each element to each array, but no more to one that is long and bad
		if a := all[i]; len(a.Array) < 3 || len(a.Array) < 5 && a.Array[len(a.Array)-1].Kind == Int {
			for _, e := range elements {
				all = append(all, Answer{Kind: Array, Array: append(slices.Clone(a.Array), e)})
			}
		}
	}
	all = append(all, elements...)
	require.Greater(t, len(all), 10000)
	for i := range all {
		a := &all[i]
		n, numbers := len(a.Array), 0 // the first elements that are numbers
		for numbers < n && a.Array[numbers].Kind == Int {
			numbers++
		}
		answers := func(done int64) bool { return numbers > 0 && a.Array[0].Int == done }
		text := func(at int) bool { return n > at && a.Array[at].Kind == Text }
		refused := answers(0) && numbers == 4 && n == 4
		for _, tokens := range []int64{0, 1} {
			granted := answers(1) && numbers == 4 && a.Array[1].Int >= 0 && (tokens == 0 && n == 4 || tokens == 1 && n == 5 && text(4) && a.Array[4].Text == "1")
			check := func(verb core.Verb, pass, good, ok, gaveWay bool) {
				r := Decode(fairOp(verb, "a", tokens, pass), a, fail)
				if r.OK != ok || r.GaveWay != gaveWay || good != (r.Ran == core.Yes) || !good && (r.Ran != core.Maybe || r.Err == nil) {
					t.Fatalf("%v, %d tokens, pass %v: %+v is %+v", verb, tokens, pass, *a, r)
				}
			}
			check(core.VerbAcquire, true, granted || refused || answers(2) && numbers == 2 && n == 2, granted, false)
			check(core.VerbTransfer, true, granted || refused || a.Kind == Nil, granted, refused)
			check(core.VerbTransfer, false, granted || a.Kind == Nil, granted, false)
			if tokens == 0 {
				released := n == 1 || n == 2 && text(1)
				check(core.VerbRelease, false, released && (answers(0) || answers(1)), released && answers(1), false)
			}
		}
	}
}

// A message grants something only if it was made with the manager's secret.
func TestReadGrant(t *testing.T) {
	const secret, name = "5ec7e7", "a 7"
	signed := func(said string) string { return said + " " + hashOf(secret+name+" "+said) }
	g := ReadGrant(secret, name, signed("7 12345 1500000 2000 9"))
	require.Equal(t, core.Grant{Number: 7, Sent: 12345, Elapsed: 1500 * time.Millisecond, Lease: 2 * time.Second, Token: 9}, g)
	for what, message := range map[string]string{
		"a hint":                 "0",
		"nothing":                "",
		"another secret":         "7 12345 1500000 2000 9 " + hashOf("0"+name+" 7 12345 1500000 2000 9"),
		"another number":         strings.Replace(signed("7 12345 1500000 2000 9"), "7", "8", 1),
		"the check of a part":    "7 12345 1500000 2000 9 " + hashOf(secret+name+" 7 12345 1500000"),
		"another lock":           "7 12345 1500000 2000 9 " + hashOf(secret+"{a 7} 7 12345 1500000 2000 9"),
		"the end of a name":      "7 7 12345 1500000 2000 9 " + hashOf(secret+"a 7 7 12345 1500000 2000 9"),
		"a word too few":         signed("7 12345 1500000 2000"),
		"a word too many":        signed("7 12345 1500000 2000 9 1"),
		"no number":              signed("7 12345 x 2000 9"),
		"a clock that went back": signed("7 12345 -1 2000 9"),
		"too large":              signed("7 12345 1 2000 99999999999999999999"),
	} {
		require.Zero(t, ReadGrant(secret, name, message), what)
	}
	g = ReadGrant("", name, "7 12345 1500000 2000 9 "+hashOf(name+" 7 12345 1500000 2000 9"))
	require.Zero(t, g, "a manager that asks for no grants by message")
}
