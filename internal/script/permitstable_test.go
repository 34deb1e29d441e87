package script_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

type permitTaken = map[string]int64

var permitScriptTests = []struct {
	what         string
	free         string // of p; empty: there is no counter
	taken        permitTaken
	script       string
	op           permitOp
	reply, then  string
	told         string // the message
	again, later string // of the second run, if they differ
}{
	{what: "the first sets the limit", script: "permits_acquire", op: permitOp{n: 2, limit: 5, life: 30000, most: 2, holders: []string{"a1"}},
		reply: "[nil]", then: "3 a1.0~30000 a1.1~30000"},
	{what: "a late copy does not shorten what was renewed", free: "3", taken: permitTaken{"a1.0": 50000, "a1.1": 50000}, script: "permits_acquire",
		op: permitOp{n: 2, limit: 5, life: 30000, gather: 10000, most: 2, holders: []string{"a1"}}, reply: "[nil]", then: "3 a1.0~50000 a1.1~50000"},
	{what: "the limit of the server counts", free: "1", script: "permits_acquire", op: permitOp{n: 2, limit: 5, life: 30000, most: 2, holders: []string{"a1"}},
		reply: "[[-2 1]]", then: "1"},
	{what: "the limit is zero", free: "0", script: "permits_acquire", op: permitOp{n: 2, limit: 5, life: 30000, most: 2, holders: []string{"a1"}},
		reply: "[-1]", then: "0"},
	{what: "some are taken", free: "1", taken: permitTaken{"b1.0": 20000, "b2.0": 50000}, script: "permits_acquire",
		op: permitOp{n: 2, limit: 5, life: 30000, most: 2, holders: []string{"a1"}}, reply: "[20000]", then: "1 b1.0~20000 b2.0~50000"},
	{what: "taken without end", free: "0", taken: permitTaken{"b1.0": -1}, script: "permits_acquire",
		op: permitOp{n: 1, limit: 5, life: 30000, most: 1, holders: []string{"a1"}}, reply: "[-1]", then: "0 b1.0~-1"},
	{what: "an old one has expired", free: "0", taken: permitTaken{"b1.0": 0, "b2.0": 20000}, script: "permits_acquire",
		op: permitOp{n: 1, limit: 5, life: 30000, most: 1, holders: []string{"a1"}}, reply: "[nil]", then: "0 a1.0~30000 b2.0~20000"},
	{what: "more have expired than it takes", free: "0", taken: permitTaken{"b1.0": 0, "b1.1": 0}, script: "permits_acquire",
		op: permitOp{n: 1, limit: 5, life: 30000, most: 1, holders: []string{"a1"}}, reply: "[nil]", then: "1 a1.0~30000", told: "1"},
	{what: "too few have expired", free: "0", taken: permitTaken{"b1.0": 0, "b2.0": 20000}, script: "permits_acquire",
		op: permitOp{n: 2, limit: 5, life: 30000, most: 2, holders: []string{"a1"}}, reply: "[20000]", then: "1 b2.0~20000", told: "1"},
	{what: "takes over what an earlier run has", free: "1", taken: permitTaken{"a1.0": 20000, "a1.1": 20000}, script: "permits_acquire",
		op: permitOp{n: 3, limit: 5, life: 30000, most: 3, holders: []string{"a2", "a1"}}, reply: "[nil]", then: "0 a2.0~30000 a2.1~30000 a2.2~30000"},
	{what: "gives back what an earlier run has", free: "0", taken: permitTaken{"a1.0": 20000, "b1.0": 20000}, script: "permits_acquire",
		op: permitOp{n: 2, limit: 5, life: 30000, most: 2, holders: []string{"a2", "a1"}}, reply: "[20000]", then: "1 b1.0~20000", told: "1"},
	{what: "another manager's stay", free: "0", taken: permitTaken{"b1.0": 20000}, script: "permits_acquire",
		op: permitOp{n: 1, limit: 5, life: 30000, most: 1, holders: []string{"a1", "a2"}}, reply: "[20000]", then: "0 b1.0~20000"},
	{what: "a counter that was deleted", taken: permitTaken{"b1.0": 20000}, script: "permits_acquire",
		op: permitOp{n: 2, limit: 3, life: 30000, most: 2, holders: []string{"a1"}}, reply: "[nil]", then: "0 a1.0~30000 a1.1~30000 b1.0~20000"},
	{what: "a counter that was deleted, and more are taken than the limit", taken: permitTaken{"b1.0": 20000, "b1.1": 20000, "b1.2": 20000, "b2.0": 0},
		script: "permits_acquire", op: permitOp{n: 1, limit: 2, life: 30000, most: 1, holders: []string{"a1"}}, reply: "[20000]",
		then: "-1 b1.0~20000 b1.1~20000 b1.2~20000"},
	{what: "a late copy while more are taken than there are", free: "-3", taken: permitTaken{"a1.0": 20000, "a1.1": 20000, "b1.0": 20000}, script: "permits_acquire",
		op: permitOp{n: 2, limit: 5, life: 30000, most: 2, holders: []string{"a1"}}, reply: "[nil]", then: "-3 a1.0~20000 a1.1~20000 b1.0~20000"},
	{what: "more are taken than there are", free: "-2", taken: permitTaken{"b1.0": 0, "b2.0": 20000}, script: "permits_acquire",
		op: permitOp{n: 1, limit: 3, life: 30000, most: 1, holders: []string{"a1"}}, reply: "[20000]", then: "-1 b2.0~20000"},

	{what: "gathers", free: "1", taken: permitTaken{"b1.0": 20000, "b1.1": 20000}, script: "permits_acquire",
		op: permitOp{n: 3, limit: 5, life: 30000, gather: 10000, most: 3, holders: []string{"a1"}}, reply: "[[10000 1]]",
		then: "0 a1.0~10000 b1.0~20000 b1.1~20000 a gathers for 10000"},
	{what: "gathers nothing yet", free: "0", taken: permitTaken{"b1.0": 20000, "b1.1": 20000}, script: "permits_acquire",
		op: permitOp{n: 2, limit: 5, life: 30000, gather: 10000, most: 2, holders: []string{"a1"}}, reply: "[[20000 1]]",
		then: "0 b1.0~20000 b1.1~20000 a gathers for 10000"},
	{what: "gathers on", free: "1", taken: permitTaken{"a1.0": 10000, "b1.0": 20000}, script: "permits_acquire",
		op: permitOp{n: 3, limit: 5, life: 30000, gather: 10000, most: 3, holders: []string{"a2", "a1"}}, reply: "[[10000 1]]",
		then: "0 a2.0~10000 a2.1~10000 b1.0~20000 a gathers for 10000"},
	{what: "an own one that has expired", free: "0", taken: permitTaken{"a1.0": 0}, script: "permits_acquire",
		op: permitOp{n: 1, limit: 5, life: 30000, most: 1, holders: []string{"a2", "a1"}}, reply: "[nil]", then: "0 a2.0~30000"},
	{what: "has gathered all", free: "1", taken: permitTaken{"a1.0": 10000}, script: "permits_acquire",
		op: permitOp{n: 2, limit: 5, life: 30000, gather: 10000, most: 2, holders: []string{"a2", "a1"}}, reply: "[nil]", then: "0 a2.0~30000 a2.1~30000"},

	{what: "gathers not what there is not", free: "1", taken: permitTaken{"b1.0": 20000}, script: "permits_acquire",
		op: permitOp{n: 3, limit: 5, life: 30000, gather: 10000, most: 3, holders: []string{"a1"}}, reply: "[[-2 2]]", then: "1 b1.0~20000"},

	{what: "from one to the next", free: "1", taken: permitTaken{"a1.0": 20000, "a1.1": 50000}, script: "permits_transfer",
		op: permitOp{n: 2, life: 30000, holders: []string{"a2", "a1"}}, reply: "[1]", then: "1 a2.0~30000 a2.1~30000"},
	{what: "a copy does not shorten", free: "1", taken: permitTaken{"a2.0": 20000, "a2.1": 50000}, script: "permits_transfer",
		op: permitOp{n: 2, life: 30000, holders: []string{"a2", "a1"}}, reply: "[1]", then: "1 a2.0~30000 a2.1~50000"},
	{what: "of the third", free: "1", taken: permitTaken{"a1.0": 20000}, script: "permits_transfer",
		op: permitOp{n: 1, life: 30000, holders: []string{"a2", "a3", "a1"}}, reply: "[1]", then: "1 a2.0~30000"},
	{what: "one is gone", free: "1", taken: permitTaken{"a1.0": 20000}, script: "permits_transfer",
		op: permitOp{n: 2, life: 30000, holders: []string{"a2", "a1"}}, reply: "[nil]", then: "1 a1.0~20000"},
	{what: "one has expired", free: "1", taken: permitTaken{"a1.0": 20000, "a1.1": 0}, script: "permits_transfer",
		op: permitOp{n: 2, life: 30000, holders: []string{"a2", "a1"}}, reply: "[nil]", then: "1 a1.0~20000 a1.1~0"},

	{what: "longer", free: "1", taken: permitTaken{"a1.0": 20000, "a1.1": 50000}, script: "permits_renew",
		op: permitOp{n: 2, life: 30000, holders: []string{"a1"}}, reply: "[]", then: "1 a1.0~30000 a1.1~50000"},
	{what: "one is gone", free: "1", taken: permitTaken{"a1.1": 20000}, script: "permits_renew",
		op: permitOp{n: 2, life: 30000, holders: []string{"a1"}}, reply: "[1]", then: "1 a1.1~20000"},
	{what: "one has expired", free: "1", taken: permitTaken{"a1.0": 0}, script: "permits_renew",
		op: permitOp{n: 1, life: 30000, holders: []string{"a1"}}, reply: "[1]", then: "1 a1.0~0"},

	{what: "two", free: "1", taken: permitTaken{"a1.0": 20000, "a1.1": 20000, "b1.0": 20000}, script: "permits_release",
		op: permitOp{most: 2, holders: []string{"a1"}}, reply: "[[2 1]]", then: "3 b1.0~20000", told: "3", again: "[nil]"},
	{what: "of several holders", free: "0", taken: permitTaken{"a1.0": 20000, "a2.1": 20000}, script: "permits_release",
		op: permitOp{most: 2, holders: []string{"a3", "a1", "a2"}}, reply: "[[2 1]]", then: "2", told: "2", again: "[nil]"},
	{what: "none", free: "1", taken: permitTaken{"b1.0": 20000}, script: "permits_release",
		op: permitOp{most: 2, holders: []string{"a1"}}, reply: "[nil]", then: "1 b1.0~20000"},
	{what: "one has expired", free: "0", taken: permitTaken{"a1.0": 0, "a1.1": 20000}, script: "permits_release",
		op: permitOp{most: 2, holders: []string{"a1"}}, reply: "[[1 1]]", then: "2", told: "2", again: "[nil]"},
	{what: "all have expired", free: "0", taken: permitTaken{"a1.0": 0}, script: "permits_release",
		op: permitOp{most: 1, holders: []string{"a1"}}, reply: "[nil]", then: "1", told: "1"},
	{what: "more than there are", free: "-2", taken: permitTaken{"a1.0": 20000}, script: "permits_release",
		op: permitOp{most: 1, holders: []string{"a1"}}, reply: "[[1 -1]]", then: "-1", again: "[nil]"},
	{what: "without a counter", taken: permitTaken{"a1.0": 20000}, script: "permits_release",
		op: permitOp{most: 1, holders: []string{"a1"}}, reply: "[[1 -1]]", then: "none", again: "[nil]"},
}

func TestScripts_Permits(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		e := listen(t, s, permitKeysOf("p").Channel)
		for _, tt := range permitScriptTests {
			t.Run(tt.script+"/"+tt.what, func(t *testing.T) {
				s.prepare(t, "")
				s.give(t, "p", tt.free, tt.taken)
				if tt.free == "" {
					s.do(t, "DEL", "p")
				}
				tt.op.name = "p"
				require.Equal(t, tt.reply, s.runPermits(t, s.wire, tt.script, tt.op))
				require.Equal(t, tt.then, s.permits(t, "p"))
				var told []string
				if tt.told != "" {
					told = []string{permitKeysOf("p").Channel + " " + tt.told}
				}
				require.Equal(t, told, e.heard(t))
				again, later := tt.again, tt.later
				if again == "" {
					again = tt.reply
				}
				if later == "" {
					later = tt.then
				}
				require.Equal(t, again, s.runPermits(t, s.wire, tt.script, tt.op), "second run")
				require.Equal(t, later, s.permits(t, "p"), "second run")
				require.Empty(t, e.heard(t), "second run")
			})
		}
	})
}
