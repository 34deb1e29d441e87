package check

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// kept is a hold that was valid from one instant to another, and released.
func kept(id uint64, from, to int64) *Hold {
	return &Hold{ID: id, Proc: uint32(id % 3), Asked: from - 1, From: from, Seen: to, Ending: to, Ended: to + 1, How: Released}
}

func TestBeliefs_ThatFollowEachOtherPass(t *testing.T) {
	var b Beliefs
	r := rand.New(rand.NewPCG(1, 1))
	const n = 5000
	for _, i := range r.Perm(n) { // as they may be reported
		at := int64(i+1) * 100
		require.Nil(t, b.Add(kept(uint64(i), at, at+100)), "the end of one may be the begin of the next")
	}
	require.Equal(t, n, b.Checked)
	require.Zero(t, b.Overlaps)
	require.Positive(t, b.Crossed)
}

func TestBeliefs_ThatIntersectAreFound(t *testing.T) {
	for name, c := range map[string]struct{ from, to int64 }{
		"by one":        {199, 300},
		"the same":      {100, 200},
		"within":        {120, 130},
		"around":        {50, 250},
		"into the next": {200, 301},
	} {
		t.Run(name, func(t *testing.T) {
			add := func(order ...*Hold) int {
				var b Beliefs
				for _, h := range order {
					if v := b.Add(h); v != nil {
						require.Contains(t, v.String(), "believed")
					}
				}
				return b.Overlaps
			}
			one, two, other := kept(1, 100, 200), kept(2, 300, 400), kept(3, c.from, c.to)
			require.Positive(t, add(one, two, other), "whichever is reported last")
			require.Positive(t, add(other, one, two))
			require.Positive(t, add(two, other, one))
		})
	}
}

// A million holds must not need the memory of a million.
func TestBeliefs_MemoryIsBounded(t *testing.T) {
	var b Beliefs
	const n, length = 100_000, int64(1e9) / 100 // a thousand seconds
	for i := range n {
		at := int64(i+1) * length
		require.Nil(t, b.Add(kept(uint64(i), at, at+length)))
	}
	require.LessOrEqual(t, len(b.names[0].steps), 3*int(horizon/length))
	require.Equal(t, n, b.Checked)
	require.Nil(t, b.Add(kept(n, 1, 2)))
	require.Equal(t, 1, b.Unchecked, "what comes half a minute late is counted, not judged")
	last := int64(n) * length
	require.NotNil(t, b.Add(kept(n+1, last+1, last+2)), "what is new is judged")
	require.NotNil(t, b.Add(kept(n+2, last-int64(20e9)+1, last-int64(20e9)+2)), "and what is 20 s old")
}

func shared(h *Hold) *Hold {
	h.Shared = true
	return h
}

// Shared holds may intersect each other, and nothing else.
func TestBeliefs_OfReaders(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 200 {
		// Readers from 100 to 200 and from 300 to 400, in pieces that intersect.
		var holds []*Hold
		for id := range 20 {
			begin := int64(100 + 200*(id%2))
			from := begin + r.Int64N(60)
			holds = append(holds, shared(kept(uint64(id+1), from, from+1+r.Int64N(begin+100-from))))
		}
		holds = append(holds, shared(kept(21, 100, 200)), shared(kept(22, 300, 400)), kept(23, 200, 300))
		b := Beliefs{}
		for _, i := range r.Perm(len(holds)) {
			require.Nil(t, b.Add(holds[i]))
		}
		require.Equal(t, len(holds), b.Checked)

		wrong := []*Hold{kept(30, 199, 210), kept(30, 150, 151), kept(30, 50, 101), kept(30, 390, 500), kept(30, 90, 500), shared(kept(30, 199, 201)), shared(kept(30, 299, 301))}[r.IntN(7)]
		holds = append(holds, wrong)
		b = Beliefs{}
		for _, i := range r.Perm(len(holds)) {
			b.Add(holds[i])
		}
		require.Positive(t, b.Overlaps, "%+v", wrong)
	}
}

// permits makes a hold one of n permits.
func permits(n int, h *Hold) *Hold {
	h.Permits = uint16(n)
	return h
}

func TestPermits_UpToTheLimitPass(t *testing.T) {
	p := Beliefs{Limit: 4}
	r := rand.New(rand.NewPCG(1, 4))
	const n = 2000
	var holds []*Hold
	for i := range n { // one of three all the time, and others beside it
		at := int64(i+1) * 100
		holds = append(holds, permits(3, kept(uint64(2*i+1), at, at+100)), permits(1, kept(uint64(2*i+2), at+50, at+150)))
	}
	for _, i := range r.Perm(len(holds)) { // as they may be reported
		require.Nil(t, p.Add(holds[i]), "the end of one may be the begin of the next")
	}
	require.Equal(t, 2*n, p.Checked)
	require.Zero(t, p.Overlaps)
	require.Equal(t, 4, p.Most)
}

func TestPermits_OneTooManyIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		from, to int64
		n        int
	}{
		"by one, at the end":   {199, 300, 1},
		"by one, at the begin": {50, 101, 1},
		"within":               {120, 130, 1},
		"around":               {50, 250, 1},
		"between two":          {210, 290, 4},
		"into the next":        {250, 301, 3},
	} {
		t.Run(name, func(t *testing.T) {
			holds := []*Hold{
				permits(2, kept(1, 100, 200)), permits(2, kept(2, 100, 200)), permits(2, kept(3, 300, 400)),
				permits(1, kept(4, 200, 300)), permits(c.n, kept(5, c.from, c.to)),
			}
			r := rand.New(rand.NewPCG(2, 4))
			for range 20 { // whichever is reported last
				p := Beliefs{Limit: 4}
				for _, i := range r.Perm(len(holds)) {
					if v := p.Add(holds[i]); v != nil {
						require.Contains(t, v.String(), "more permits than there are")
					}
				}
				require.Positive(t, p.Overlaps)
				require.Equal(t, 5, p.Most)
			}
		})
	}
}

// The checker finds the same as a count at each instant does.
func TestPermits_AsACountAtEachInstant(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	found := 0
	for range 500 {
		p := Beliefs{Limit: 6}
		var held [100]int
		for id := range 12 {
			from := 1 + r.Int64N(90)
			to := from + r.Int64N(100-from)
			n := 1 + r.IntN(3)
			most := 0
			for at := from; at < to; at++ {
				held[at] += n
				most = max(most, held[at])
			}
			v := p.Add(permits(n, kept(uint64(id+1), from, to)))
			require.Equal(t, most > 6, v != nil)
		}
		found += p.Overlaps
	}
	require.Positive(t, found)
}

func TestPermits_OfDifferentNamesAreNotCompared(t *testing.T) {
	p := Beliefs{Limit: 1}
	one, two := permits(1, kept(1, 100, 200)), permits(1, kept(2, 100, 200))
	two.Name = 1
	require.Nil(t, p.Add(one))
	require.False(t, p.Has(1))
	require.Nil(t, p.Add(two))
	require.True(t, p.Has(1))
	require.Nil(t, p.Add(permits(1, &Hold{ID: 3, Asked: 10})), "never seen valid")
	require.Equal(t, 2, p.Checked)
}
