package script_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The tests of the scripts for permits use the names p and q. A holder is written as a letter for
// its manager and a digit: a1. Its permits are a1.0, a1.1 and so on.

// permitKeys are the keys of the permits of a name, and their channel.
type permitKeys struct{ Counter, Taken, Line, Wants, Channel string }

func permitKeysOf(name string) permitKeys {
	return permitKeys{
		Counter: name, Taken: "{" + name + "}:timeout", Line: "{" + name + "}:line", Wants: "{" + name + "}:wants",
		Channel: "redisson_sc:{" + name + "}",
	}
}

// permitHolder spells out a holder: eight bytes of its manager, which differ in the last one only,
// and six of its number.
func permitHolder(short string) string {
	return "manager" + short[:1] + strings.Repeat("0", 5) + short[1:]
}

// permitMember spells out a permit.
func permitMember(short string) string {
	holder, i, _ := strings.Cut(short, ".")
	n, _ := strconv.Atoi(i)
	return permitHolder(holder) + string([]byte{byte(n / 256), byte(n % 256)})
}

// shortMember is the inverse of permitMember.
func shortMember(member string) string {
	if len(member) != 16 {
		return member
	}
	return fmt.Sprintf("%c%c.%d", member[7], member[13], int(member[14])*256+int(member[15]))
}

// A permitOp is what a script does about one name. most and holders are as the scripts have them,
// the holders short.
type permitOp struct {
	name                string
	n                   int
	limit, life, gather int64
	most                int
	holders             []string

	// The manager is the first letter of the first holder, unless it is set.
	manager string
	id      int64 // of the script
	waits   int64
	leaves  bool
	deaf    bool
	blind   bool // PUBLISH counts not all who hear
}

// runPermits runs a script for some operations, which have the same life.
func (s *scriptServer) runPermits(t testing.TB, w *wire, script string, ops ...permitOp) string {
	t.Helper()
	var keys, args []string
	number := func(all ...int64) {
		for _, n := range all {
			args = append(args, strconv.FormatInt(n, 10))
		}
	}
	flag := map[bool]string{false: "0", true: "1"}
	if script != "permits_release" {
		number(ops[0].life)
	}
	if script == "permits_acquire" || script == "permits_release" {
		manager := ops[0].manager
		if manager == "" {
			manager = ops[0].holders[0][:1]
		}
		args = append(args, manager)
	}
	for _, op := range ops {
		k := permitKeysOf(op.name)
		keys = append(keys, k.Counter, k.Taken)
		switch script {
		case "permits_acquire":
			args = append(args, k.Channel, k.Line, k.Wants)
			number(op.id, op.waits)
			args = append(args, flag[op.deaf || op.blind])
			number(int64(op.n), op.limit, op.gather, int64(op.most), int64(len(op.holders)))
		case "permits_transfer":
			args = append(args, k.Channel, k.Wants)
			number(int64(op.n), int64(len(op.holders)))
		case "permits_release":
			args = append(args, k.Channel, k.Line, k.Wants)
			number(op.id)
			args = append(args, flag[op.leaves])
			number(op.limit, int64(op.most), int64(len(op.holders)))
		case "permits_renew":
			number(int64(op.n))
		}
		for _, h := range op.holders {
			args = append(args, permitHolder(h))
		}
	}
	return s.eval(t, w, script, keys, args)
}

// now returns the server's clock in milliseconds.
func (s *scriptServer) now(t testing.TB) int64 {
	t.Helper()
	return permitClock(s.do(t, "TIME"))
}

// permitClock reads the reply of TIME.
func permitClock(reply any) int64 {
	v := reply.([]any)
	sec, _ := strconv.ParseInt(v[0].(string), 10, 64)
	micro, _ := strconv.ParseInt(v[1].(string), 10, 64)
	return sec*1000 + micro/1000
}

// give makes the permits of a name: how many are free, and those that are taken with their lives. A
// life of zero has ended, a negative one has no end. With none for a number there is no counter.
func (s *scriptServer) give(t testing.TB, name, permits string) {
	t.Helper()
	k := permitKeysOf(name)
	for i, word := range strings.Fields(permits) {
		if i == 0 {
			if word != "none" {
				s.do(t, "SET", k.Counter, word)
			}
			continue
		}
		short, life, _ := strings.Cut(word, "~")
		score := s.now(t) + redistest.Must(strconv.ParseInt(life, 10, 64))(t)
		switch life {
		case "0":
			score = 1
		case "-1":
			score = 922337203685477
		}
		s.do(t, "ZADD", k.Taken, strconv.FormatInt(score, 10), permitMember(short))
	}
}

// permitOpOf reads an operation. 2/5 a2 a1 asks for two permits with a limit of 5 for the holder a2,
// who may carry those of a1. With the word gather before the holders the operation gathers.
func permitOpOf(name, text string) permitOp {
	words := strings.Fields(text)
	number, limit, _ := strings.Cut(words[0], "/")
	op := permitOp{name: name, life: 30000, holders: words[1:]}
	op.n, _ = strconv.Atoi(number)
	op.limit, _ = strconv.ParseInt(limit, 10, 64)
	op.most = op.n
	if words[1] == "gather" {
		op.gather, op.waits, op.holders = 10000, 50000, words[2:]
	}
	return op
}

// permits prints what a server has of a name: the counter, then the permits that are taken with
// their lives, and the line.
func (s *scriptServer) permits(t testing.TB, name string) string {
	t.Helper()
	k := permitKeysOf(name)
	v := s.all(t, []string{"TIME"}, []string{"GET", k.Counter}, []string{"ZRANGE", k.Taken, "0", "-1", "WITHSCORES"},
		[]string{"LRANGE", k.Line, "0", "-1"}, []string{"HGETALL", k.Wants})
	now, free := permitClock(v[0]), "none"
	if v[1] != nil {
		free = v[1].(string)
	}
	flat := v[2].([]any)
	var taken []string
	for i := 0; i < len(flat); i += 2 {
		score := redistest.Must(strconv.ParseFloat(flat[i+1].(string), 64))(t)
		taken = append(taken, permitLife(flat[i].(string), int64(score), now, s))
	}
	slices.Sort(taken)
	out := append([]string{free}, taken...)
	line, flat := v[3].([]any), v[4].([]any)
	require.Len(t, flat, 2*len(line))
	for _, manager := range line {
		words := strings.Fields(flat[slices.Index(flat, manager)+1].(string))
		flags := strings.ReplaceAll(strings.Join(words[3:], ""), "t", "!")
		out = append(out, fmt.Sprintf("%s wants %s%s", manager, words[0], flags))
	}
	return strings.Join(out, " ")
}

// permitLife prints a permit and its life.
func permitLife(member string, score, now int64, s *scriptServer) string {
	life := score - now
	switch {
	case score >= 922337203685477:
		life = -1
	case life <= 0:
		life = 0
	}
	return fmt.Sprintf("%s~%d", shortMember(member), s.round(life))
}

// Those who wait are told of a larger limit, and of a smaller one.
func TestScript_PermitsLimit(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		k := permitKeysOf("p")
		e := listen(t, s, k.Channel)
		s.prepare(t, "")
		s.give(t, "p", "0 a1.0~20000")
		for _, tt := range []struct{ how, n, reply, then, told string }{
			{"set", "3", "3", "2 a1.0~20000", "2"},
			{"set", "3", "3", "2 a1.0~20000", ""},
			{"add", "1", "4", "3 a1.0~20000", "3"},
			{"add", "-3", "1", "0 a1.0~20000", "0"},
			{"add", "-3", "-1", "0 a1.0~20000", ""},
		} {
			require.Equal(t, tt.reply, s.eval(t, s.wire, "permits_limit", []string{k.Counter, k.Taken}, []string{tt.how, tt.n, "4", k.Channel}))
			require.Equal(t, tt.then, s.permits(t, "p"))
			var told []string
			if tt.told != "" {
				told = []string{k.Channel + " 00" + tt.told}
			}
			require.Equal(t, told, e.heard(t), "%+v", tt)
		}
	})
}

// The line is served in order. A manager gets free permits if enough are left for those before it.
func TestScript_PermitsLine(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		k := permitKeysOf("p")
		e := listen(t, s, k.Channel, k.Channel+":a", k.Channel+":b", k.Channel+":c")
		id := int64(0)
		try := func(n int, holders ...string) string {
			id++
			return s.runPermits(t, s.wire, "permits_acquire", permitOp{name: "p", id: id, waits: 50000, n: n, limit: 3, life: 30000, most: 3, holders: holders})
		}
		release := func(holder string) string {
			return s.runPermits(t, s.wire, "permits_release", permitOp{name: "p", most: 1, holders: []string{holder}})
		}
		told := func(managers ...string) (out []string) {
			for _, m := range managers {
				name, free, _ := strings.Cut(m, " ")
				out = append(out, strings.TrimSuffix(k.Channel+":"+name, ":")+" "+free)
			}
			return out
		}
		s.prepare(t, "")
		s.give(t, "p", "0 d1.0~20000 d2.0~20000 d3.0~20000")
		require.Equal(t, "[20000]", try(2, "a1"))
		require.Equal(t, "[20000]", try(1, "b1"))
		require.Equal(t, "[20000]", try(1, "c1"))
		require.Equal(t, "[20000]", try(1, "c2"), "a manager has one place")
		require.Equal(t, "0 d1.0~20000 d2.0~20000 d3.0~20000 a wants 2 b wants 1 c wants 1", s.permits(t, "p"))
		require.Equal(t, "50000", s.show(s.do(t, "PTTL", k.Line)))
		require.Equal(t, "50000", s.show(s.do(t, "PTTL", k.Wants)))

		require.Equal(t, "[[1 1]]", release("d1"))
		require.Equal(t, told(" 01"), e.heard(t), "one is not enough for a, who is first")
		require.Equal(t, "[20000]", try(1, "b2"), "and is kept for a")
		require.Equal(t, "[[1 1]]", release("d2"))
		require.Equal(t, told("a 1", " 02"), e.heard(t))
		require.Equal(t, "2 d3.0~20000 a wants 2! b wants 1 c wants 1", s.permits(t, "p"))
		require.Regexp(t, `^\[(2000|1\d{3})\]$`, try(1, "b3"), "if a is gone, its place is free in two seconds")
		require.Equal(t, "[[1 1]]", release("d3"))
		require.Equal(t, told("b 1", " 03"), e.heard(t), "a was told before")
		require.Regexp(t, `^\[(2000|1\d{3})\]$`, try(1, "c3"))
		require.Equal(t, "[nil]", try(1, "b4"), "three are enough for a and b")
		require.Equal(t, "[nil]", try(2, "a2"))
		require.Equal(t, "0 a2.0~30000 a2.1~30000 b4.0~30000 c wants 1", s.permits(t, "p"))
		require.Empty(t, e.heard(t))

		require.Equal(t, "[[1 1]]", release("b4"))
		require.Equal(t, told("c 1", " 01"), e.heard(t))
		require.Equal(t, "[nil]", try(1, "c4"))
		require.Equal(t, "0 a2.0~30000 a2.1~30000 c4.0~30000", s.permits(t, "p"))
	})
}

// A place goes if nobody listens on the channel of its manager, or two seconds after its manager
// was told, or if the manager leaves the line.
func TestScript_PermitsPlacesEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		k := permitKeysOf("p")
		e := listen(t, s, k.Channel+":b", k.Channel+":c")
		try := func(id int64, holder string, waits int64, blind bool) string {
			return s.runPermits(t, s.wire, "permits_acquire", permitOp{name: "p", id: id, waits: waits, n: 1, limit: 1, life: 30000, most: 1, holders: []string{holder}, blind: blind})
		}
		release := func(op permitOp) string {
			op.name, op.most = "p", 1
			return s.runPermits(t, s.wire, "permits_release", op)
		}
		full := func() {
			s.prepare(t, "")
			s.give(t, "p", "0 d1.0~20000")
		}
		full()
		require.Equal(t, "[20000]", try(1, "a1", 50000, false))
		require.Equal(t, "[20000]", try(2, "b1", 50000, false))
		require.Equal(t, "[20000]", try(3, "e1", 0, false), "a try that does not wait")
		require.Equal(t, "[[1 0]]", release(permitOp{holders: []string{"d1"}}))
		require.Equal(t, []string{k.Channel + ":b 1"}, e.heard(t))
		require.Equal(t, "1 b wants 1!", s.permits(t, "p"), "a is gone")

		full()
		try(1, "a1", 50000, true)
		try(2, "b1", 50000, false)
		release(permitOp{holders: []string{"d1"}})
		require.Equal(t, "1 a wants 1d! b wants 1", s.permits(t, "p"), "a may be there")
		require.Regexp(t, `^\[(2000|1\d{3})\]$`, try(3, "b2", 50000, false))
		require.Equal(t, "[nil]", try(4, "a2", 50000, true))
		e.heard(t)

		full()
		s.runPermits(t, s.wire, "permits_acquire", permitOp{name: "p", id: 1, waits: 50000, deaf: true, n: 1, limit: 1, life: 30000, most: 1, holders: []string{"a1"}})
		release(permitOp{holders: []string{"d1"}})
		require.Equal(t, "1 a wants 1d!", s.permits(t, "p"), "a will ask")
		require.Regexp(t, `^\[(2000|1\d{3})\]$`, try(2, "b1", 50000, false))
		require.Equal(t, "[nil]", try(3, "a2", 50000, false))
		e.heard(t)

		full()
		try(1, "b1", 50000, false)
		try(2, "c1", 50000, false)
		release(permitOp{holders: []string{"d1"}})
		require.Equal(t, []string{k.Channel + ":b 1"}, e.heard(t))
		s.do(t, "HSET", k.Wants, "b", fmt.Sprintf("1 1 %d ", s.now(t)))
		require.Equal(t, "[nil]", try(3, "c2", 50000, false), "b has run no script for long")
		require.Equal(t, "0 c2.0~30000", s.permits(t, "p"))

		full()
		try(5, "b1", 50000, false)
		try(6, "c1", 50000, false)
		require.Equal(t, "[nil]", release(permitOp{manager: "b", id: 4, leaves: true}))
		require.Equal(t, "0 d1.0~20000 b wants 1 c wants 1", s.permits(t, "p"), "a newer script has joined")
		try(4, "b1", 50000, false)
		require.Equal(t, "0 d1.0~20000 b wants 1 c wants 1", s.permits(t, "p"))
		release(permitOp{holders: []string{"d1"}})
		require.Equal(t, "[nil]", release(permitOp{manager: "b", id: 7, leaves: true}))
		require.Equal(t, []string{k.Channel + ":b 1", k.Channel + ":c 1"}, e.heard(t), "what was kept for b is for c")
		require.Equal(t, "1 c wants 1!", s.permits(t, "p"))
	})
}

// The first manager of the line gathers. It is told of each permit that comes free.
func TestScript_PermitsFirstGathers(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		k := permitKeysOf("p")
		e := listen(t, s, k.Channel+":a", k.Channel+":b")
		id := int64(0)
		try := func(holders ...string) string {
			id++
			return s.runPermits(t, s.wire, "permits_acquire", permitOp{name: "p", id: id, waits: 50000, n: 3, limit: 3, life: 30000, gather: 10000, most: 3, holders: holders})
		}
		s.prepare(t, "")
		s.give(t, "p", "1 d1.0~20000 d2.0~20000")
		require.Equal(t, "[[10000 1]]", try("a1"))
		require.Equal(t, "[[10000 0]]", try("b1"))
		require.Equal(t, "0 a1.0~10000 d1.0~20000 d2.0~20000 a wants 2g b wants 3", s.permits(t, "p"))
		s.runPermits(t, s.wire, "permits_release", permitOp{name: "p", most: 1, holders: []string{"d1"}})
		require.Equal(t, []string{k.Channel + ":a 1"}, e.heard(t))
		require.Regexp(t, `^\[(2000|1\d{3})\]$`, s.runPermits(t, s.wire, "permits_acquire", permitOp{name: "p", id: 9, n: 1, limit: 3, life: 30000, most: 1, holders: []string{"c1"}}), "it is kept for a")
		require.Equal(t, "[[10000 1]]", try("a2", "a1"))
		s.runPermits(t, s.wire, "permits_release", permitOp{name: "p", most: 1, holders: []string{"d2"}})
		require.Equal(t, []string{k.Channel + ":a 1"}, e.heard(t))
		require.Equal(t, "[nil]", try("a3", "a2"))
		require.Equal(t, "0 a3.0~30000 a3.1~30000 a3.2~30000 b wants 3", s.permits(t, "p"))
	})
}

func TestScripts_Permits(t *testing.T) { runTable(t, permitScriptTests, permitKeysOf("p").Channel) }

const permitScriptTests = `
permits_acquire:
the first sets the limit | | 2/5 a1 | [nil] | 3 a1.0~30000 a1.1~30000
a late copy does not shorten what was renewed | 3 a1.0~50000 a1.1~50000 | 2/5 gather a1 | [nil] | 3 a1.0~50000 a1.1~50000
the limit of the server counts | 1 | 2/5 a1 | [[-2 1]] | 1
the limit is zero | 0 | 2/5 a1 | [-1] | 0
some are taken | 1 b1.0~20000 b2.0~50000 | 2/5 a1 | [20000] | 1 b1.0~20000 b2.0~50000
taken without end | 0 b1.0~-1 | 1/5 a1 | [-1] | 0 b1.0~-1
an old one has expired | 0 b1.0~0 b2.0~20000 | 1/5 a1 | [nil] | 0 a1.0~30000 b2.0~20000
more have expired than it takes | 0 b1.0~0 b1.1~0 | 1/5 a1 | [nil] | 1 a1.0~30000 | p 01
too few have expired | 0 b1.0~0 b2.0~20000 | 2/5 a1 | [20000] | 1 b2.0~20000 | p 01
takes over what an earlier run has | 1 a1.0~20000 a1.1~20000 | 3/5 a2 a1 | [nil] | 0 a2.0~30000 a2.1~30000 a2.2~30000
gives back what an earlier run has | 0 a1.0~20000 b1.0~20000 | 2/5 a2 a1 | [20000] | 1 b1.0~20000 | p 01
another manager's stay | 0 b1.0~20000 | 1/5 a1 a2 | [20000] | 0 b1.0~20000
a counter that was deleted | none b1.0~20000 | 2/3 a1 | [nil] | 0 a1.0~30000 a1.1~30000 b1.0~20000
a counter that was deleted, and more are taken than the limit | none b1.0~20000 b1.1~20000 b1.2~20000 b2.0~0 | 1/2 a1 | [20000] | -1 b1.0~20000 b1.1~20000 b1.2~20000
a late copy while more are taken than there are | -3 a1.0~20000 a1.1~20000 b1.0~20000 | 2/5 a1 | [nil] | -3 a1.0~20000 a1.1~20000 b1.0~20000
more are taken than there are | -2 b1.0~0 b2.0~20000 | 1/3 a1 | [20000] | -1 b2.0~20000
gathers | 1 b1.0~20000 b1.1~20000 | 3/5 gather a1 | [[10000 1]] | 0 a1.0~10000 b1.0~20000 b1.1~20000 a wants 2g
gathers nothing yet | 0 b1.0~20000 b1.1~20000 | 2/5 gather a1 | [[20000 1]] | 0 b1.0~20000 b1.1~20000 a wants 2g
gathers on | 1 a1.0~10000 b1.0~20000 | 3/5 gather a2 a1 | [[10000 1]] | 0 a2.0~10000 a2.1~10000 b1.0~20000 a wants 1g
an own one that has expired | 0 a1.0~0 | 1/5 a2 a1 | [nil] | 0 a2.0~30000
has gathered all | 1 a1.0~10000 | 2/5 gather a2 a1 | [nil] | 0 a2.0~30000 a2.1~30000
gathers not what there is not | 1 b1.0~20000 | 3/5 gather a1 | [[-2 2]] | 1 b1.0~20000

permits_transfer:
from one to the next | 1 a1.0~20000 a1.1~50000 | 2 a2 a1 | [1] | 1 a2.0~30000 a2.1~30000
a copy does not shorten | 1 a2.0~20000 a2.1~50000 | 2 a2 a1 | [1] | 1 a2.0~30000 a2.1~50000
of the third | 1 a1.0~20000 | 1 a2 a3 a1 | [1] | 1 a2.0~30000
one is gone | 1 a1.0~20000 | 2 a2 a1 | [nil] | 1 a1.0~20000
one has expired | 1 a1.0~20000 a1.1~0 | 2 a2 a1 | [nil] | 1 a1.0~20000 a1.1~0

permits_renew:
longer | 1 a1.0~20000 a1.1~50000 | 2 a1 | [] | 1 a1.0~30000 a1.1~50000
one is gone | 1 a1.1~20000 | 2 a1 | [1] | 1 a1.1~20000
one has expired | 1 a1.0~0 | 1 a1 | [1] | 1 a1.0~0

permits_release:
two | 1 a1.0~20000 a1.1~20000 b1.0~20000 | 2 a1 | [[2 1]] | 3 b1.0~20000 | p 03 | [nil]
of several holders | 0 a1.0~20000 a2.1~20000 | 2 a3 a1 a2 | [[2 1]] | 2 | p 02 | [nil]
none | 1 b1.0~20000 | 2 a1 | [nil] | 1 b1.0~20000
one has expired | 0 a1.0~0 a1.1~20000 | 2 a1 | [[1 1]] | 2 | p 02 | [nil]
all have expired | 0 a1.0~0 | 1 a1 | [nil] | 1 | p 01
more than there are | -2 a1.0~20000 | 1 a1 | [[1 -1]] | -1 | | [nil]
without a counter | none a1.0~20000 | 1 a1 | [[1 -1]] | none | | [nil]
`

// total returns how many permits of p there are.
func (s *scriptServer) total(t testing.TB) int {
	t.Helper()
	fields := strings.Fields(s.permits(t, "p"))
	n := redistest.Must(strconv.Atoi(fields[0]))(t)
	for _, f := range fields[1:] {
		if strings.Contains(f, "~") {
			n++
		}
	}
	return n
}

// While the server is out of memory no permit can be taken. Those that are taken can be passed on.
func TestScript_PermitsOutOfMemory(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	const own = " a1.0~20000 a1.1~20000"
	for _, tt := range []struct{ script, given, op, reply, then string }{
		{"permits_acquire", "", "1/3 a1", "[!OOM", "none"},
		{"permits_acquire", "3", "2/3 a1", "[!OOM", "3"},
		{"permits_acquire", "1" + own, "2/3 gather b1", "[[10000 1]]", "0 a1.0~20000 a1.1~20000 b1.0~10000 b wants 1g"},
		{"permits_acquire", "0" + own, "2/3 b1", "[20000]", "0" + own},
		{"permits_transfer", "1" + own, "2 a2 a1", "[0]", "1 a2.0~30000 a2.1~30000"},
	} {
		s.fill(t, false)
		s.prepare(t, "")
		s.give(t, "p", tt.given)
		s.fill(t, true)
		reply := s.call(t, s.wire, tt.script, tt.op)
		require.True(t, strings.HasPrefix(reply, tt.reply), "%s: %s", tt.script, reply)
		require.Equal(t, tt.then, s.permits(t, "p"), tt.script)
	}
}

// A script that is stopped half-way, because the user may not use one of its commands, loses no
// permit and makes none. It harms nobody else, and reports no loss.
func TestScript_PermitsStoppedHalfway(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	states := map[string]string{
		"free": "", "ours": " a1.0~20000 a1.1~20000", "expired": " b1.0~0 b2.0~20000", "all": " a1.0~20000 a1.1~20000 b1.0~0 b2.0~20000",
	}
	calls := map[string][]string{
		"permits_acquire": {"1/5 a5", "2/5 a5 a1", "5/5 gather a5 a1"}, "permits_transfer": {"2 a5 a1"}, "permits_renew": {"2 a1"}, "permits_release": {"2 a5 a1"},
	}
	for denied := range strings.FieldsSeq("time get hlen zrangebyscore zscore zcard set zrem incrby zadd pttl publish del") {
		t.Run(denied, func(t *testing.T) {
			w := s.as(t, "-"+denied)
			for state, taken := range states {
				for script, ops := range calls {
					for _, op := range ops {
						s.prepare(t, "")
						s.give(t, "p", "2"+taken)
						before, total := s.permits(t, "p"), s.total(t)
						reply := s.call(t, w, script, op)
						after := s.permits(t, "p")
						told := fmt.Sprintf("%s, %s %s: %q became %q, reply %s", state, script, op, before, after, reply)
						require.Equal(t, total, s.total(t), told)
						require.Equal(t, strings.Contains(before, "b2.0~20000"), strings.Contains(after, "b2.0~20000"), told)
						if strings.Contains(reply, "!") {
							require.NotContains(t, after, "a5.", told)
							require.NotEqual(t, "publish", denied, told)
						}
						if denied == "publish" && script == "permits_release" && strings.Contains(before, "a1.") {
							require.Contains(t, reply, ` -1 "`, "why nobody was told: "+told)
						}
						if (state == "ours" || state == "all") && script != "permits_acquire" {
							require.NotContains(t, []string{"[nil]", "[1]"}[:1+map[bool]int{true: 1}[script == "permits_renew"]], reply, "what can't be read is not lost: "+told)
						}
					}
				}
			}

			s.prepare(t, "")
			s.give(t, "p", "2"+states["ours"])
			before := s.permits(t, "p")
			k := permitKeysOf("p")
			ids := []string{k.Channel, k.Line, k.Wants, hex.EncodeToString([]byte(permitMember("a1.0"))), hex.EncodeToString([]byte(permitMember("a1.1")))}
			if reply := s.eval(t, w, "permits_return", []string{k.Counter, k.Taken}, ids); reply != "1" {
				require.Equal(t, before, s.permits(t, "p"), "%s, return: %s", denied, reply)
			} else {
				require.Equal(t, "4", s.permits(t, "p"), denied)
			}

			s.prepare(t, "")
			s.give(t, "p", "2"+states["ours"])
			reply := s.runPermits(t, w, "permits_release", permitOp{name: "p", limit: 4, most: 2, holders: []string{"a1"}})
			want := []string{"4", "none"}
			if strings.Contains(reply, "!") {
				want = []string{before}
			}
			require.Contains(t, want, s.permits(t, "p"), "%s, a release that removes the counter: %s", denied, reply)
		})
	}
}

// The permits of a counter that its user gave an end have the same end.
func TestScript_PermitsOfACounterThatEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		s.prepare(t, "SET p 3; PEXPIRE p 50000")
		require.Equal(t, "[nil]", s.call(t, s.wire, "permits_acquire", "1/3 a1"))
		require.Equal(t, "50000", s.show(s.do(t, "PTTL", permitKeysOf("p").Taken)))
	})
}

// A release that says the limit removes the counter if all permits are free and nobody stands in
// the line.
func TestScript_PermitsForgotten(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		k := permitKeysOf("p")
		leave := permitOp{name: "p", id: 9, leaves: true, limit: 3, most: 1, holders: []string{"a1"}}
		for _, tt := range []struct {
			what, given string
			limit       int64
			then        string
		}{
			{"all are free", "2 a1.0~20000", 3, "none"},
			{"the others have expired", "0 a1.0~20000 a2.0~0 b1.0~0", 3, "none"},
			{"none was taken", "3", 3, "none"},
			{"without a limit", "2 a1.0~20000", 0, "3"},
			{"the limit was changed", "4 a1.0~20000", 3, "5"},
			{"there are no permits", "-1 a1.0~20000", 3, "0"},
			{"there are no permits, without a limit", "-1 a1.0~20000", 0, "0"},
			{"another has a permit", "1 a1.0~20000 b1.0~20000", 3, "2 b1.0~20000"},
			{"another has a permit without an end", "1 a1.0~20000 b1.0~-1", 3, "2 b1.0~-1"},
			{"as many are free as another limit says", "2 a1.0~20000 b1.0~20000", 3, "3 b1.0~20000"},
		} {
			s.prepare(t, "")
			s.give(t, "p", tt.given)
			for range 2 {
				leave.limit = tt.limit
				s.runPermits(t, s.wire, "permits_release", leave)
				require.Equal(t, tt.then, s.permits(t, "p"), tt.what)
			}
			if tt.then == "none" {
				require.Equal(t, "0", s.show(s.do(t, "EXISTS", k.Counter, k.Taken)), tt.what)
				s.call(t, s.wire, "permits_acquire", "1/5 b1")
				require.Equal(t, "4 b1.0~30000", s.permits(t, "p"), "the next request sets the limit")
			}
		}

		s.prepare(t, "")
		s.give(t, "p", "0 d1.0~20000")
		s.runPermits(t, s.wire, "permits_acquire", permitOp{name: "p", id: 1, waits: 50000, deaf: true, n: 1, limit: 1, life: 30000, most: 1, holders: []string{"a1"}})
		s.runPermits(t, s.wire, "permits_release", permitOp{name: "p", limit: 1, most: 1, holders: []string{"d1"}})
		require.Equal(t, "1 a wants 1d!", s.permits(t, "p"), "one waits")
		leave.limit = 1
		s.runPermits(t, s.wire, "permits_release", leave)
		require.Equal(t, "none", s.permits(t, "p"))
	})
}

// One bad name does not keep the others of a command from being served.
func TestScript_PermitsTroubleStaysWhereItIs(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		s.prepare(t, "")
		s.give(t, "q", "1 a1.0~20000")
		for _, spoil := range [][]string{{"HSET", "p", "x", "1"}, {"RPUSH", "p", "x"}, {"SET", "p", "x"}, {"SET", "{p}:timeout", "x"}} {
			s.do(t, "DEL", "p", "{p}:timeout")
			s.do(t, spoil...)
			both := func(script string, op permitOp) string {
				p, q := op, op
				p.name, q.name = "p", "q"
				return s.runPermits(t, s.wire, script, p, q)
			}
			reply := both("permits_acquire", permitOp{n: 1, limit: 3, life: 30000, most: 1, holders: []string{"a2"}})
			switch spoil[0] {
			case "HSET":
				require.Equal(t, "[[-1] nil]", reply)
			default:
				require.Regexp(t, `^\[!.*WRONGTYPE.* nil\]$`, reply, spoil)
			}
			require.Regexp(t, `^\[(!.*|nil) 0\]$`, both("permits_transfer", permitOp{n: 1, life: 30000, holders: []string{"a3", "a2"}}), spoil)
			require.Equal(t, "[1]", both("permits_renew", permitOp{n: 1, life: 30000, holders: []string{"a3"}}), spoil)
			require.Regexp(t, `^\[(!.*|nil) \[1 0\]\]$`, both("permits_release", permitOp{most: 1, holders: []string{"a3"}}), spoil)
		}
	})
}
