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
