package script_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests of the scripts for permits use the names p and q. A holder is written as a
// letter for its manager and a digit: a1. Its permits are a1.0, a1.1 and so on.

// permitKeys are the keys of the permits of a name, and their channel.
type permitKeys struct{ Counter, Taken, Channel, Gatherer string }

func permitKeysOf(name string) permitKeys {
	return permitKeys{Counter: name, Taken: "{" + name + "}:timeout", Channel: "redisson_sc:{" + name + "}", Gatherer: "{" + name + "}:gathers"}
}

// permitHolder spells out a holder: eight bytes of its manager, which differ in the last one
// only, and six of its number.
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

// A permitOp is what a script does about one name. most and holders are as the scripts
// have them, the holders short.
type permitOp struct {
	name                string
	n                   int
	limit, life, gather int64
	most                int
	ends                string // the manager whose gathering a release ends: a or b
	holders             []string
}

// gathererOf spells out who gathers.
func gathererOf(manager string) string {
	if manager == "" {
		return ""
	}
	return permitHolder(manager + "0")[:8]
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
	if script != "permits_release" {
		number(ops[0].life)
	}
	for _, op := range ops {
		k := permitKeysOf(op.name)
		keys = append(keys, k.Counter, k.Taken)
		switch script {
		case "permits_acquire":
			args = append(args, k.Channel, k.Gatherer)
			number(int64(op.n), op.limit, op.gather, int64(op.most), int64(len(op.holders)))
		case "permits_transfer":
			args = append(args, k.Channel)
			number(int64(op.n), int64(len(op.holders)))
		case "permits_release":
			args = append(args, k.Channel, k.Gatherer)
			number(int64(op.most))
			args = append(args, gathererOf(op.ends))
			number(int64(len(op.holders)))
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

// give makes the permits of a name: how many are free, and those that are taken with their
// lives. A life of zero has ended, a negative one has no end.
func (s *scriptServer) give(t testing.TB, name, free string, taken map[string]int64) {
	t.Helper()
	k := permitKeysOf(name)
	s.do(t, "SET", k.Counter, free)
	for short, life := range taken {
		score := s.now(t) + life
		switch {
		case life == 0:
			score = 1
		case life < 0:
			score = 922337203685477
		}
		s.do(t, "ZADD", k.Taken, strconv.FormatInt(score, 10), permitMember(short))
	}
}

// permits prints what a server has of a name: the counter, then the permits that are taken
// with their lives, and who gathers.
func (s *scriptServer) permits(t testing.TB, name string) string {
	t.Helper()
	k := permitKeysOf(name)
	v := s.all(t, []string{"TIME"}, []string{"GET", k.Counter}, []string{"ZRANGE", k.Taken, "0", "-1", "WITHSCORES"},
		[]string{"GET", k.Gatherer}, []string{"PTTL", k.Gatherer})
	now, free := permitClock(v[0]), "none"
	if v[1] != nil {
		free = v[1].(string)
	}
	flat := v[2].([]any)
	var taken []string
	for i := 0; i < len(flat); i += 2 {
		score := must(strconv.ParseFloat(flat[i+1].(string), 64))(t)
		taken = append(taken, permitLife(flat[i].(string), int64(score), now, s))
	}
	slices.Sort(taken)
	out := append([]string{free}, taken...)
	if v[3] != nil {
		out = append(out, fmt.Sprintf("%c gathers for %s", v[3].(string)[7], s.show(v[4])))
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
		s.give(t, "p", "0", permitTaken{"a1.0": 20000})
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
				told = []string{k.Channel + " " + tt.told}
			}
			require.Equal(t, told, e.heard(t), "%+v", tt)
		}
	})
}

// Of two managers that want several permits one gathers at a time.
func TestScript_PermitsOneGathers(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		s.prepare(t, "")
		s.give(t, "p", "2", permitTaken{"c1.0": 20000})
		try := func(n int, holders ...string) string {
			return s.runPermits(t, s.wire, "permits_acquire", permitOp{name: "p", n: n, limit: 3, life: 30000, gather: 10000, most: 3, holders: holders})
		}
		require.Equal(t, "[[10000 1]]", try(3, "a1"))
		require.Equal(t, "[[10000 0]]", try(3, "b1"), "a gathers")
		require.Equal(t, "0 a1.0~10000 a1.1~10000 c1.0~20000 a gathers for 10000", s.permits(t, "p"))
		require.Equal(t, "[[1 0]]", s.runPermits(t, s.wire, "permits_release", permitOp{name: "p", most: 1, holders: []string{"c1"}}))
		require.Equal(t, "[[10000 0]]", try(1, "b2"), "what is free is for a")
		plain := permitOp{name: "p", n: 1, limit: 3, life: 30000, most: 1, holders: []string{"b2"}}
		require.Equal(t, "[10000]", s.runPermits(t, s.wire, "permits_acquire", plain), "and this tells until when")
		require.Equal(t, "1 a1.0~10000 a1.1~10000 a gathers for 10000", s.permits(t, "p"))
		require.Equal(t, "[nil]", try(3, "a3", "a1"))
		require.Equal(t, "0 a3.0~30000 a3.1~30000 a3.2~30000", s.permits(t, "p"), "nobody gathers any more")
		require.Equal(t, "[[30000 1]]", try(3, "b3"))
	})
}

// A manager that gathers no more tells the others, who were refused what is free.
func TestScript_PermitsGatheringEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		e := listen(t, s, permitKeysOf("p").Channel)
		told := func(n string) []string { return []string{permitKeysOf("p").Channel + " " + n} }
		gather := func(holders ...string) string {
			return s.runPermits(t, s.wire, "permits_acquire", permitOp{name: "p", n: 3, limit: 5, life: 30000, gather: 10000, most: 3, holders: holders})
		}
		release := func(ends string, holders ...string) string {
			return s.runPermits(t, s.wire, "permits_release", permitOp{name: "p", most: 3, ends: ends, holders: holders})
		}
		s.prepare(t, "")
		s.give(t, "p", "0", permitTaken{"c1.0": 20000, "c2.0": 20000, "c2.1": 20000, "c2.2": 20000, "c3.0": 0})
		require.Equal(t, "[[10000 1]]", gather("a1"))
		require.Equal(t, "[[3 1]]", release("", "c2"))
		require.Equal(t, told("3"), e.heard(t))
		require.Equal(t, "[nil]", gather("a2", "a1"))
		require.Equal(t, told("1"), e.heard(t), "one is left")
		require.Equal(t, "1 a2.0~30000 a2.1~30000 a2.2~30000 c1.0~20000", s.permits(t, "p"))

		require.Equal(t, "[[10000 1]]", gather("b1"), "two are missing")
		require.Equal(t, "[[3 1]]", release("", "a2"))
		require.Equal(t, told("3"), e.heard(t))
		require.Equal(t, "[nil]", release("", "b2"), "another request of b")
		require.Equal(t, "[nil]", release("a", "a4"), "a does not gather")
		require.Empty(t, e.heard(t))
		require.Equal(t, "3 b1.0~10000 c1.0~20000 b gathers for 10000", s.permits(t, "p"))
		require.Equal(t, "[nil]", release("b"), "b1's run is not known here")
		require.Equal(t, told("3"), e.heard(t))
		require.Equal(t, "3 b1.0~10000 c1.0~20000", s.permits(t, "p"))

		s.prepare(t, "")
		s.give(t, "p", "5", nil)
		require.Equal(t, "[nil]", gather("a5"))
		require.Empty(t, e.heard(t), "nobody was refused")
		s.do(t, "SET", permitKeysOf("p").Gatherer, "somebody")
		plain := permitOp{name: "p", n: 1, limit: 5, life: 30000, most: 1, holders: []string{"d1"}}
		require.Equal(t, "[nil]", s.runPermits(t, s.wire, "permits_release", permitOp{name: "p", most: 1, ends: "d", holders: []string{"d1"}}))
		require.Equal(t, "[[3 1]]", release("", "a5"))
		e.heard(t)
		require.Equal(t, "[nil]", s.runPermits(t, s.wire, "permits_acquire", plain), "what never ends is no gathering")

		s.prepare(t, "")
		s.give(t, "p", "0", permitTaken{"c1.0": 20000, "c1.1": 20000, "c1.2": 20000})
		require.Equal(t, "[[20000 1]]", gather("a6"))
		require.Equal(t, "[10000]", s.runPermits(t, s.wire, "permits_acquire", plain), "until the gathering ends")
	})
}
