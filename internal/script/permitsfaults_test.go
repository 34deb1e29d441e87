package script_test

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// total returns how many permits of p there are.
func (s *scriptServer) total(t testing.TB) int {
	t.Helper()
	fields := strings.Fields(strings.Split(s.permits(t, "p"), " gathers")[0])
	n := must(strconv.Atoi(fields[0]))(t)
	for _, f := range fields[1:] {
		if strings.Contains(f, "~") {
			n++
		}
	}
	return n
}

// While the server is out of memory no permit can be taken. Those that are taken can be
// renewed, passed on and given back.
func TestScript_PermitsOutOfMemory(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	fill := func(on bool) { s.do(t, "CONFIG", "SET", "maxmemory", map[bool]string{true: "1", false: "0"}[on]) }
	own := permitTaken{"a1.0": 20000, "a1.1": 20000}
	for _, tt := range []struct {
		script      string
		free        string
		taken       permitTaken
		op          permitOp
		reply, then string
	}{
		{"permits_acquire", "3", nil, permitOp{n: 2, limit: 3, life: 30000, most: 2, holders: []string{"a1"}}, "[!OOM", "3"},
		{"permits_acquire", "1", own, permitOp{n: 2, limit: 3, life: 30000, gather: 10000, most: 2, holders: []string{"b1"}}, "[!OOM", "1 a1.0~20000 a1.1~20000"},
		{"permits_acquire", "0", own, permitOp{n: 2, limit: 3, life: 30000, most: 2, holders: []string{"b1"}}, "[20000]", "0 a1.0~20000 a1.1~20000"},
		{"permits_transfer", "1", own, permitOp{n: 2, life: 30000, holders: []string{"a2", "a1"}}, "[0]", "1 a2.0~30000 a2.1~30000"},
		{"permits_renew", "1", own, permitOp{n: 2, life: 30000, holders: []string{"a1"}}, "[]", "1 a1.0~30000 a1.1~30000"},
		{"permits_release", "1", own, permitOp{most: 2, holders: []string{"a1"}}, "[[2 0]]", "3"},
	} {
		fill(false)
		s.prepare(t, "")
		s.give(t, "p", tt.free, tt.taken)
		fill(true)
		tt.op.name = "p"
		reply := s.runPermits(t, s.wire, tt.script, tt.op)
		require.True(t, strings.HasPrefix(reply, tt.reply), "%s: %s", tt.script, reply)
		require.Equal(t, tt.then, s.permits(t, "p"), tt.script)
	}
	fill(false)
	s.prepare(t, "")
	fill(true)
	reply := s.runPermits(t, s.wire, "permits_acquire", permitOp{name: "p", n: 1, limit: 3, life: 30000, most: 1, holders: []string{"a1"}})
	require.True(t, strings.HasPrefix(reply, "[!OOM"), reply)
	require.Equal(t, "none", s.permits(t, "p"))
}

// A script that is stopped half-way, because the user may not use one of its commands, loses
// no permit and makes none. It harms nobody else, and reports no loss.
func TestScript_PermitsStoppedHalfway(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	states := map[string]permitTaken{
		"free": {}, "ours": {"a1.0": 20000, "a1.1": 20000}, "expired": {"b1.0": 0, "b2.0": 20000}, "all": {"a1.0": 20000, "a1.1": 20000, "b1.0": 0, "b2.0": 20000},
	}
	calls := map[string][]permitOp{
		"permits_acquire": {
			{n: 1, limit: 5, life: 30000, most: 1, holders: []string{"a5"}}, {n: 2, limit: 5, life: 30000, most: 2, holders: []string{"a5", "a1"}},
			{n: 5, limit: 5, life: 30000, gather: 10000, most: 5, holders: []string{"a5", "a1"}},
		},
		"permits_transfer": {{n: 2, life: 30000, holders: []string{"a5", "a1"}}}, "permits_renew": {{n: 2, life: 30000, holders: []string{"a1"}}},
		"permits_release": {{most: 2, holders: []string{"a5", "a1"}}},
	}
	for denied := range strings.FieldsSeq("time get hlen zrangebyscore zscore zcard set zrem incrby zadd pttl publish del") {
		t.Run(denied, func(t *testing.T) {
			w := s.as(t, "-"+denied)
			for state, taken := range states {
				for script, ops := range calls {
					for _, op := range ops {
						s.prepare(t, "")
						s.give(t, "p", "2", taken)
						op.name = "p"
						before, total := s.permits(t, "p"), s.total(t)
						reply := s.runPermits(t, w, script, op)
						after := s.permits(t, "p")
						told := fmt.Sprintf("%s, %s %+v: %q became %q, reply %s", state, script, op, before, after, reply)
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
			s.give(t, "p", "2", states["ours"])
			before := s.permits(t, "p")
			k := permitKeysOf("p")
			ids := []string{k.Channel, hex.EncodeToString([]byte(permitMember("a1.0"))), hex.EncodeToString([]byte(permitMember("a1.1")))}
			if reply := s.eval(t, w, "permits_return", []string{k.Counter, k.Taken}, ids); reply != "1" {
				require.Equal(t, before, s.permits(t, "p"), "%s, return: %s", denied, reply)
			} else {
				require.Equal(t, "4", s.permits(t, "p"), denied)
			}
		})
	}
}

// The permits of a counter that its user gave an end have the same end.
func TestScript_PermitsOfACounterThatEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		s.prepare(t, "SET p 3; PEXPIRE p 50000")
		op := permitOp{name: "p", n: 1, limit: 3, life: 30000, most: 1, holders: []string{"a1"}}
		require.Equal(t, "[nil]", s.runPermits(t, s.wire, "permits_acquire", op))
		require.Equal(t, "50000", s.show(s.do(t, "PTTL", permitKeysOf("p").Taken)))
	})
}

// One bad name does not keep the others of a command from being served.
func TestScript_PermitsTroubleStaysWhereItIs(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		s.prepare(t, "")
		s.give(t, "q", "1", permitTaken{"a1.0": 20000})
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
