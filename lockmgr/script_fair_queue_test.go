package lockmgr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/model"
)

// A queue and its deadlines may not agree: a server or an administrator has lost a part of them.
// Nobody waits for ever because of that.
func TestScript_FairBrokenQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		k := fairKeys
		s.prepare(t, "")
		s.do(t, "RPUSH", k.Queue, "j:1", "b:3:f")
		x := model.Line{Manager: "a", ID: 1, LifeMs: fairLife, Before: 1, Number: 1, Joins: []uint64{1}}
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
