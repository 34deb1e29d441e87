package soak

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/bench/internal/check"
	"github.com/holdfast-go/holdfast/internal/redisserver"
)

// What a killed process held was held: others are compared with it.
func TestJudge_CountsTheHoldsOfAKilledProcess(t *testing.T) {
	j := newJudge(false)
	one := newReporter(j, 1)
	two := newReporter(j, 2)
	one.take(record{Open: &check.Hold{ID: 1, Proc: 1, Asked: 5, From: 10, Seen: 20}})
	one.take(record{Open: &check.Hold{ID: 1, Proc: 1, Asked: 5, From: 10, Seen: 50}}) // later
	one.take(record{Open: &check.Hold{ID: 2, Proc: 1, Name: 1, Asked: 5, From: 10, Seen: 50}})
	one.take(record{Hold: &check.Hold{ID: 2, Proc: 1, Name: 1, Asked: 5, From: 10, Seen: 60, Ending: 60, Ended: 61, How: check.Released}})
	two.take(record{Hold: &check.Hold{ID: 3, Proc: 2, Asked: 5, From: 30, Seen: 40, Ending: 40, Ended: 41, How: check.Released}})
	require.Zero(t, j.violations())
	two.dead()
	require.Zero(t, j.violations())
	one.dead()
	one.dead()
	j.finish()
	require.Equal(t, 1, j.beliefs.Overlaps)
	require.Equal(t, 1, j.Illegal)
	require.Equal(t, 1, j.Legal)
	require.Equal(t, 3, j.Grants)
	require.Equal(t, 1, j.CutOff)
	require.Equal(t, 2, j.violations())
	require.Len(t, j.Told, 2)
}

// Permits are judged by how many there are, and are in no history.
func TestJudge_CountsPermits(t *testing.T) {
	j := newJudge(false)
	one := newReporter(j, 1)
	two := newReporter(j, 2)
	hold := func(id uint64, proc uint32, permits uint16, from, to int64) *check.Hold {
		return &check.Hold{ID: id, Proc: proc, Name: 8, Permits: permits, Asked: 5, From: from, Seen: to, Ending: to, Ended: to + 1, How: check.Released}
	}
	one.take(record{Hold: hold(1, 1, 2, 10, 50)})
	two.take(record{Hold: hold(2, 2, 2, 20, 60)})
	require.Zero(t, j.violations())
	two.take(record{Open: &check.Hold{ID: 3, Proc: 2, Name: 8, Permits: 1, Asked: 5, From: 40, Seen: 45}})
	two.dead()
	j.finish()
	require.Equal(t, 1, j.permits.Overlaps)
	require.Equal(t, 1, j.violations())
	require.Equal(t, 3, j.Grants)
	require.Zero(t, j.Legal+j.Illegal+j.Undecided)
	require.Len(t, j.Told, 1)

	forgetful := newJudge(true)
	forgetful.permits = j.permits
	forgetful.finish()
	require.Zero(t, forgetful.violations())
}

func TestJudge_SumsTheNewestFiguresOfEachLife(t *testing.T) {
	j := newJudge(false)
	for _, r := range []*reporter{newReporter(j, 1), newReporter(j, 2)} {
		r.take(record{Figures: &figures{requests: 1}})
		r.take(record{Figures: &figures{requests: 5, passes: 2}})
	}
	j.finish()
	r := (&run{Config: valid, judge: j, fleet: &fleet{nodes: []*redisServer{{Server: new(redisserver.Server)}}}}).result(nil, 1e9, Leftovers{})
	require.Equal(t, 10, r.Requests)
	require.Equal(t, 4, r.HandedOn)
}
