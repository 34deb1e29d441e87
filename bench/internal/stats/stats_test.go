package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSummarize(t *testing.T) {
	for name, c := range map[string]struct {
		in   []float64
		want Summary
	}{
		"nothing": {nil, Summary{}},
		"one":     {[]float64{7}, Summary{1, 7, 7, 7}},
		"odd":     {[]float64{9, 1, 4}, Summary{3, 4, 1, 9}},
		"even":    {[]float64{4, 1, 9, 2}, Summary{4, 3, 1, 9}},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(c.in)
			require.Equal(t, c.want, Summarize(c.in))
			require.Equal(t, before, c.in, "the order of repetitions is kept")
		})
	}
	require.True(t, math.IsNaN(Median(nil)))
	require.Equal(t, 2.5, Median([]float64{4, 1, 9, 1}))
}

func TestQuantile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	require.Equal(t, 50, Quantile(hundred, 0.5))
	require.Equal(t, 99, Quantile(hundred, 0.99))
	require.Equal(t, 100, Quantile(hundred, 1))
	require.Equal(t, 1, Quantile(hundred, 0))
	require.Equal(t, 3, Quantile([]int{3}, 0.99))
	require.Zero(t, Quantile([]int(nil), 0.5))
}

func TestBucketsHaveNoGaps(t *testing.T) {
	last := -1
	for v := uint64(0); v < 1<<16; v++ {
		b := bucket(v)
		require.True(t, b == last || b == last+1, "%d is in bucket %d after %d", v, b, last)
		require.GreaterOrEqual(t, upper(b), v)
		last = b
	}
	var h Histogram
	h.Add(math.MaxInt64)
	h.Add(-5)
	require.Equal(t, uint64(2), h.N())
	require.Zero(t, h.Quantile(0.5))
}

// Against the exact answer, over the decades that are measured.
func TestHistogramIsWithinOnePercent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var parts [3]Histogram
	var all []time.Duration
	for i := range 9000 {
		d := time.Duration(math.Pow(10, 3+7*r.Float64()))
		all = append(all, d)
		parts[i%3].Add(d)
	}
	slices.Sort(all)
	var h Histogram
	for i := range parts {
		h.Merge(&parts[i])
	}
	for _, q := range []float64{0.001, 0.5, 0.9, 0.99, 1} {
		require.InEpsilon(t, float64(Quantile(all, q)), float64(h.Quantile(q)), 0.01, "q=%v", q)
	}
	require.Zero(t, new(Histogram).Quantile(0.5))
}
