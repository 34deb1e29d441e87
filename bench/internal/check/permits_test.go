package check

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// permits makes a hold one of n permits.
func permits(n int, h *Hold) *Hold {
	h.Permits = uint16(n)
	return h
}

func TestPermits_UpToTheLimitPass(t *testing.T) {
	p := Permits{Limit: 4}
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
	require.Zero(t, p.Overruns)
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
				p := Permits{Limit: 4}
				for _, i := range r.Perm(len(holds)) {
					if v := p.Add(holds[i]); v != nil {
						require.Contains(t, v.String(), "more permits than there are")
					}
				}
				require.Positive(t, p.Overruns)
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
		p := Permits{Limit: 6}
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
		found += p.Overruns
	}
	require.Positive(t, found)
}

func TestPermits_OfDifferentNamesAreNotCompared(t *testing.T) {
	p := Permits{Limit: 1}
	one, two := permits(1, kept(1, 100, 200)), permits(1, kept(2, 100, 200))
	two.Name = 1
	require.Nil(t, p.Add(one))
	require.False(t, p.Has(1))
	require.Nil(t, p.Add(two))
	require.True(t, p.Has(1))
	require.Nil(t, p.Add(permits(1, &Hold{ID: 3, Asked: 10})), "never seen valid")
	require.Equal(t, 1, p.Empty)
}

// A million holds must not need the memory of a million.
func TestPermits_MemoryIsBounded(t *testing.T) {
	p := Permits{Limit: 2}
	const n, length = 100_000, int64(1e9) / 100 // a thousand seconds
	for i := range n {
		at := int64(i+1) * length
		require.Nil(t, p.Add(permits(2, kept(uint64(i), at, at+length))))
	}
	require.LessOrEqual(t, len(p.names[0].steps), 3*int(horizon/length))
	require.Equal(t, n, p.Checked)
	require.Nil(t, p.Add(permits(2, kept(n, 1, 2))))
	require.Equal(t, 1, p.Unchecked, "what comes half a minute late is counted, not judged")
	last := int64(n) * length
	require.NotNil(t, p.Add(permits(1, kept(n+1, last+1, last+2))), "what is new is judged")
	require.NotNil(t, p.Add(permits(1, kept(n+2, last-int64(29e9)+1, last-int64(29e9)+2))), "and what is 29 s old")
}
