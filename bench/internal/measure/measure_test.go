package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	order := func(procs ...int) (out []grant) {
		for i, p := range procs {
			out = append(out, grant{int64(i) * int64(time.Second), p})
		}
		return out
	}
	for name, c := range map[string]struct {
		in   []grant
		want shares
	}{
		"in turn":                  {order(0, 1, 0, 1, 0, 1, 0, 1), shares{1, 1, 1, 1, 1}},
		"one after the other":      {order(0, 0, 0, 0, 1, 1, 1, 1), shares{0, 2, 4, 0, 0}},
		"nobody else waits":        {order(0, 1, 1, 1), shares{1, 1, 1, 1, 1}},
		"a run that others end in": {order(0, 1, 1, 0, 0, 0), shares{2.0 / 3, 4.0 / 3, 2, 0.5, 0.5}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, judge(c.in, 2))
		})
	}
	mixed := []grant{{30, 1}, {10, 0}, {20, 0}, {40, 1}}
	require.Equal(t, 2, judge(mixed, 2).streak, "grants are put in order first")
}

func TestDisorder(t *testing.T) {
	for want, grants := range map[int][]int64{0: {1, 2, 3}, 1: {2, 1, 3}, 2: {1, 3, 5, 4, 2}, 4: {5, 4, 3, 2, 1}} {
		require.Equal(t, want, disorder(grants), grants)
	}
}
