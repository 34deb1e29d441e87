// Package stats is the arithmetic of the bench: medians, spread and quantiles. It holds no opinion
// about what is measured.
package stats

import (
	"cmp"
	"math"
	"slices"
)

// A Summary says what repeated measurements of one thing came to. Few repetitions are honest about
// their spread only by their extremes, so these are kept rather than a deviation.
type Summary struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Summarize returns the summary of values, which may be empty. It does not change values.
func Summarize(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	return Summary{N: len(sorted), Median: median(sorted), Min: sorted[0], Max: sorted[len(sorted)-1]}
}

// Median returns the median of values, or NaN if there are none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return median(slices.Sorted(slices.Values(values)))
}

func median(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// Quantile returns the smallest of values that at least the share q of them do not exceed, and zero
// if there are none. The values must be sorted.
func Quantile[T cmp.Ordered](sorted []T, q float64) T {
	if len(sorted) == 0 {
		var zero T
		return zero
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
