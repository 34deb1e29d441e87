package check

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// Long enough to decide any of these on a slow machine.
const decide = time.Minute

func judged(t *testing.T, want porcupine.CheckResult, holds ...*Hold) {
	t.Helper()
	all := make([]Hold, len(holds))
	for i, h := range holds {
		all[i] = *h
	}
	v := History(all, decide)
	require.Equal(t, want, v.Result)
	require.Equal(t, want == porcupine.Illegal, v.Violation() != nil)
}

func fenced(token int64, h *Hold) *Hold {
	h.Token = token
	return h
}

func lostAt(h *Hold) *Hold {
	h.How, h.Claim, h.Ending, h.Ended = Lost, h.Seen, 0, 0
	return h
}

func TestHistories(t *testing.T) {
	ok, illegal := porcupine.Ok, porcupine.Illegal
	t.Run("one after the other", func(t *testing.T) {
		judged(t, ok, fenced(1, kept(1, 10, 20)), fenced(2, kept(2, 30, 40)))
	})
	t.Run("two at once", func(t *testing.T) {
		judged(t, illegal, kept(1, 10, 50), kept(2, 20, 40))
	})
	t.Run("requests that overlap, holds that do not", func(t *testing.T) {
		one, two := kept(1, 10, 20), kept(2, 21, 30)
		two.Asked = 5
		judged(t, ok, one, two)
	})
	t.Run("a release that is still under way", func(t *testing.T) {
		one, two := kept(1, 10, 20), kept(2, 22, 30)
		one.Ended = 60
		judged(t, ok, one, two)
	})
	t.Run("readers at once", func(t *testing.T) {
		judged(t, ok, fenced(1, kept(1, 10, 20)), fenced(1, shared(kept(2, 30, 60))), fenced(1, shared(kept(3, 40, 50))), fenced(2, kept(4, 70, 80)))
	})
	t.Run("a writer beside a reader", func(t *testing.T) {
		judged(t, illegal, shared(kept(1, 10, 50)), kept(2, 20, 40))
		judged(t, illegal, shared(kept(1, 20, 40)), kept(2, 10, 50))
	})
	t.Run("a writer beside the last of two readers", func(t *testing.T) {
		judged(t, illegal, shared(kept(1, 10, 50)), shared(kept(2, 12, 20)), kept(3, 30, 40))
	})
	t.Run("a reader with the token of an earlier writer", func(t *testing.T) {
		judged(t, illegal, fenced(2, kept(1, 10, 20)), fenced(1, shared(kept(2, 30, 40))))
	})
	t.Run("a writer with the token of a reader before it", func(t *testing.T) {
		judged(t, illegal, fenced(2, shared(kept(1, 10, 20))), fenced(2, kept(2, 30, 40)))
	})
	t.Run("a token that falls", func(t *testing.T) {
		judged(t, illegal, fenced(2, kept(1, 10, 20)), fenced(1, kept(2, 30, 40)))
	})
	t.Run("a token that is given twice", func(t *testing.T) {
		judged(t, illegal, fenced(2, kept(1, 10, 20)), fenced(2, kept(2, 30, 40)))
	})
	t.Run("holds without tokens between those with", func(t *testing.T) {
		judged(t, ok, fenced(1, kept(1, 10, 20)), kept(2, 30, 40), fenced(3, kept(3, 50, 60)))
	})
	t.Run("granted after a loss", func(t *testing.T) {
		judged(t, ok, lostAt(kept(1, 10, 20)), kept(2, 25, 30))
	})
	t.Run("granted before a loss", func(t *testing.T) {
		judged(t, illegal, lostAt(kept(1, 10, 40)), kept(2, 25, 30))
	})
	t.Run("lost, and nobody after it", func(t *testing.T) {
		judged(t, ok, kept(1, 10, 20), lostAt(kept(2, 25, 30)))
	})
	t.Run("granted while an unlock had no answer", func(t *testing.T) {
		one := kept(1, 10, 20)
		one.How, one.Ended = Unknown, 22
		judged(t, ok, one, kept(2, 100, 110))
	})
	t.Run("granted before an unlock that had no answer", func(t *testing.T) {
		one := kept(1, 10, 50)
		one.How = Unknown
		judged(t, illegal, one, kept(2, 20, 30))
	})
	t.Run("cut off by a kill", func(t *testing.T) {
		one := kept(1, 10, 20)
		one.How, one.Ending, one.Ended = Open, 0, 0
		judged(t, ok, one, kept(2, 21, 30))
		judged(t, illegal, one, kept(2, 13, 15))
	})
	t.Run("lost before anybody could look", func(t *testing.T) {
		one := &Hold{ID: 1, Token: 1, Asked: 10}
		one.Sample(20, 21, 0)
		one.Finish(25, false)
		judged(t, ok, one, fenced(2, kept(2, 15, 30)))
		judged(t, ok, fenced(2, kept(2, 27, 30)), one)
		judged(t, illegal, one, fenced(2, kept(2, 5, 8)))
	})
}

// history makes a legal one as processes would see it: with requests that wait, losses, unlocks
// without an answer, and unlocks that return late.
func history(r *rand.Rand, n int) []Hold {
	var out []Hold
	at, token := int64(1000), int64(0)
	for i := range n {
		at += 10 + r.Int64N(100)
		h := kept(uint64(i)+1, at, at+10+r.Int64N(50))
		h.Asked = at - r.Int64N(1000)
		at = h.Seen + 1
		if r.IntN(3) > 0 {
			token += 1 + r.Int64N(3)
			h.Token = token
		}
		switch r.IntN(20) {
		case 0:
			lostAt(h)
		case 1:
			h.How = Unknown
		default:
			h.Ended = at + r.Int64N(300)
		}
		out = append(out, *h)
	}
	return out
}

func TestHistory_FullOneIsDecided(t *testing.T) {
	holds := history(rand.New(rand.NewPCG(1, 3)), HoldsPerHistory)
	v := History(holds, decide)
	require.Equal(t, porcupine.Ok, v.Result)
	t.Logf("%d operations in %v", 2*len(holds), v.Took)

	// One more grant, in the middle of a hold of some length.
	i := slices.IndexFunc(holds[HoldsPerHistory/2:], func(h Hold) bool { return h.Seen-h.From > 20 }) + HoldsPerHistory/2
	bad := append(slices.Clone(holds), *kept(1<<40, holds[i].From+5, holds[i].From+9))
	require.Equal(t, porcupine.Illegal, History(bad, decide).Result)
}

func TestHistory_AnyPartOfALegalOneIsLegal(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	for range 20 {
		holds := history(r, 300)
		part := slices.DeleteFunc(slices.Clone(holds), func(Hold) bool { return r.IntN(3) == 0 })
		require.Equal(t, porcupine.Ok, History(part, decide).Result)
	}
}

func TestHistory_DoubleGrantIsFound(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 50 {
		holds := history(r, 200)
		h := &holds[r.IntN(len(holds))]
		other := *kept(1<<40, h.From+1, h.From+4) // all are valid for 10 or longer
		require.Equal(t, porcupine.Illegal, History(append(holds, other), decide).Result)
	}
}

func TestHistory_UndecidedAfterTooLong(t *testing.T) {
	// Nothing orders these, and each order is as good as the other, until the last hold shows that
	// none is legal.
	var holds []Hold
	for i := range 40 {
		h := kept(uint64(i)+1, 1000, 1001)
		h.Asked, h.Ending, h.Ended, h.How = 1, 2, 2000, Released
		holds = append(holds, *h)
	}
	holds = append(holds, *fenced(2, kept(100, 3000, 3001)), *fenced(1, kept(101, 4000, 4001)))
	v := History(holds, 50*time.Millisecond)
	require.Equal(t, porcupine.Unknown, v.Result)
	require.Nil(t, v.Violation(), "which is no proof of anything")
}

func TestChunks_LoseNothing(t *testing.T) {
	var c Chunks
	const n = 2*HoldsPerHistory + 1000
	r := rand.New(rand.NewPCG(4, 3))
	seen := map[uint64]bool{}
	take := func(holds []Hold) {
		require.True(t, slices.IsSortedFunc(holds, func(a, b Hold) int { return int(a.From - b.From) }))
		for _, h := range holds {
			require.False(t, seen[h.ID])
			seen[h.ID] = true
		}
	}
	full := 0
	for i := range n {
		at := int64(i)*10 + r.Int64N(50) // not quite in order
		if holds := c.Add(*kept(uint64(i), at+1, at+2)); holds != nil {
			require.Len(t, holds, HoldsPerHistory)
			full++
			take(holds)
		}
	}
	require.Equal(t, 2, full)
	for _, holds := range c.Rest() {
		take(holds)
	}
	require.Len(t, seen, n)
}
