package script_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A queue and its deadlines may not agree: a server or an administrator has lost a part of them.
// Nobody waits for ever because of that.
func TestScript_FairBrokenQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		k := fairKeys
		s.prepare(t, "")
		s.do(t, "RPUSH", k.Queue, "j:1", "b:3:f")
		x := fairLine{Manager: "a", ID: 1, LifeMs: fairLife, Before: 1, Number: 1, Joins: []uint64{1}}
		require.Equal(t, "[1 0 0 0]", s.runFair(t, s.wire, "fair_acquire", x, 1000, 0), "the first members have no deadlines")
		require.Empty(t, s.do(t, "LRANGE", k.Queue, "0", "-1"))

		s.prepare(t, "")
		s.do(t, "HSET", k.Lock, "b:1:f", "1")
		s.do(t, "RPUSH", k.Queue, "b:2:f")
		s.do(t, "ZADD", k.Deadlines, "9999999999999", "a:1:f", "9999999999999", "b:2:f")
		x.Refresh = true
		s.runFair(t, s.wire, "fair_acquire", x, 1000, 0)
		require.Equal(t, []any{"b:2:f", "a:1:f"}, s.do(t, "LRANGE", k.Queue, "0", "-1"), "a deadline without a place")
	})
}

// A client of Redisson that is the last to leave the queue does not know what the scripts have
// noted. The notes end within the time for which a place lasts.
func TestScript_FairNotesEndBehindRedisson(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		acquire := fairLine{Manager: "a", ID: 1, LifeMs: fairLife, Before: 1, Number: 1}
		release := fairLine{Manager: "a", ID: 2, LifeMs: fairLife, Before: 2, Others: []uint64{1}}
		queued := fairLine{Manager: "b", ID: 1, LifeMs: fairLife, Before: 1, Number: 1, Joins: []uint64{1}}
		leaves := fairLine{Manager: "b", ID: 2, LifeMs: fairLife, Before: 2, Leave: []uint64{1}}
		for name, script := range map[string]func(){
			"the holder releases": func() { s.runFair(t, s.wire, "fair_release", release, 0, 0) },
			"a request leaves": func() {
				s.runFair(t, s.wire, "fair_acquire", queued, 1000, 0)
				s.runFair(t, s.wire, "fair_release", leaves, 0, 0)
			},
			"a request is refused": func() {
				s.runFair(t, s.wire, "fair_acquire", fairLine{Manager: "b", ID: 1, LifeMs: fairLife, Before: 2, Number: 1}, 1000, 0)
			},
			"a late copy runs": func() {
				s.runFair(t, s.wire, "fair_acquire", queued, 1000, 0)
				s.runFair(t, s.wire, "fair_release", leaves, 0, 0)
				s.runFair(t, s.wire, "fair_acquire", queued, 1000, 0)
			},
		} {
			s.prepare(t, "")
			require.Equal(t, "[1 0 0 0]", s.runFair(t, s.wire, "fair_acquire", acquire, 100000, 0))
			require.Equal(t, "0", s.redisson(t, "acquire", "j:1", 300000, 100000))
			script()
			s.runFair(t, s.wire, "fair_release", release, 0, 0)
			require.Equal(t, "1", s.redisson(t, "acquire", "j:1", 300000, 100000))
			require.Equal(t, "1", s.redisson(t, "release", "j:1", 0, 0))
			for key, state := range s.state(t) {
				require.Equal(t, fairKeys.Waits, key, name)
				require.Regexp(t, ` for 50000$`, state, name)
			}
		}
	})
}

// The notes have expired while a client of Redisson and a place behind it wait: no manager ran
// a script for a while. The next script reads the waits again, and a place that joins then is
// not over when the client leaves.
func TestScript_FairNotesAreReadAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		k := fairKeys
		s.prepare(t, "")
		s.do(t, "HSET", k.Lock, "c:1:f", "1")
		s.do(t, "PEXPIRE", k.Lock, "10000")
		require.Equal(t, "0", s.redisson(t, "acquire", "j:1", 300000, 100000))
		x := fairLine{Manager: "a", ID: 1, LifeMs: fairLife, Before: 1, Number: 1, Joins: []uint64{1}}
		require.Equal(t, "[0 10000 1 0]", s.runFair(t, s.wire, "fair_acquire", x, 1000, 0))
		require.Equal(t, "0", s.redisson(t, "acquire", "j:2", 40000, 100000))
		s.do(t, "DEL", k.Waits)
		x = fairLine{Manager: "b", ID: 1, LifeMs: fairLife, Before: 2, Number: 2, Joins: []uint64{2}}
		require.Equal(t, "[0 10000 1 0]", s.runFair(t, s.wire, "fair_acquire", x, 1000, 0))
		require.Equal(t, `["c:1:f" "1"]10000[j:1~310000 a:1:f~360000 j:2~400000 b:2:f~400000] [@b=1 j:1=310000 j:2=40000 sum=350000]`, s.fair(t))
	})
}

// The places of managers that died end by themselves, with all that the scripts have written. A
// queue in which a client of Redisson waits stays.
func TestScript_FairQueueEndsWithItsPlaces(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		k := fairKeys
		held := fairLine{Manager: "a", ID: 1, LifeMs: fairLife, Before: 1, Number: 1}
		waits := fairLine{Manager: "b", ID: 1, LifeMs: fairLife, Before: 1, Number: 1, Joins: []uint64{1, 3}}
		passes := fairLine{Manager: "a", ID: 2, LifeMs: fairLife, Before: 2, Number: 2, Others: []uint64{1}, Joins: []uint64{2, 4}}
		release := fairLine{Manager: "a", ID: 3, LifeMs: fairLife, Before: 2, Others: []uint64{1, 2}}
		ttls := func() map[any]any {
			return map[any]any{k.Queue: s.show(s.do(t, "PTTL", k.Queue)), k.Deadlines: s.show(s.do(t, "PTTL", k.Deadlines)), k.Waits: s.show(s.do(t, "PTTL", k.Waits))}
		}
		ours, mixed := map[any]any{k.Queue: "50000", k.Deadlines: "50000", k.Waits: "50000"}, map[any]any{k.Queue: "1000000000000", k.Deadlines: "1000000000000", k.Waits: "50000"}
		s.prepare(t, "")
		s.runFair(t, s.wire, "fair_acquire", held, 1000, 0)
		s.runFair(t, s.wire, "fair_acquire", waits, 1000, 0)
		require.Equal(t, ours, ttls(), "after an acquire")
		s.do(t, "PERSIST", k.Queue)
		s.runFair(t, s.wire, "fair_transfer", passes, 1000, 0)
		require.Equal(t, ours, ttls(), "after a transfer")
		s.do(t, "PERSIST", k.Deadlines)
		s.runFair(t, s.wire, "fair_release", release, 0, 0)
		require.Equal(t, ours, ttls(), "after a release")

		require.Equal(t, "0", s.redisson(t, "acquire", "j:1", 300000, 100000))
		waits.ID, waits.Refresh = 2, true
		s.runFair(t, s.wire, "fair_acquire", waits, 1000, 0)
		require.Equal(t, mixed, ttls(), "Redisson waits behind places")
		s.redisson(t, "leave", "j:1", 300000, 0)
		waits.ID = 3
		s.runFair(t, s.wire, "fair_acquire", waits, 1000, 0)
		waits.ID = 4
		s.runFair(t, s.wire, "fair_acquire", waits, 1000, 0)
		require.Equal(t, ours, ttls(), "Redisson has left")
	})
}
