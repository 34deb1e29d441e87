package stats

import (
	"math"
	"slices"
	"testing"

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
	four := []int{10, 20, 30, 40}
	for q, want := range map[float64]int{0: 10, 0.25: 10, 0.26: 20, 0.5: 20, 0.99: 40, 1: 40} {
		require.Equal(t, want, Quantile(four, q), q)
	}
	require.Equal(t, 3, Quantile([]int{3}, 0.99))
	require.Zero(t, Quantile([]int(nil), 0.5))
}
