package stats

import (
	"math/bits"
	"time"
)

// Each power of two is cut into this many buckets, so that a quantile is off
// by less than 1 %.
const subBuckets = 128

// A Histogram counts durations. Its size is fixed: adding allocates nothing,
// which matters where allocations are what is measured. The zero value is
// ready. It is not safe for concurrent use; give each goroutine one and merge.
type Histogram struct {
	counts [58 * subBuckets]uint32
	n      uint64
}

// Add counts one duration. Negative ones count as zero.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucket(uint64(max(d, 0)))]++
	h.n++
}

// Merge adds all that other counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, c := range other.counts {
		h.counts[i] += c
	}
	h.n += other.n
}

// N is how many durations were counted.
func (h *Histogram) N() uint64 { return h.n }

// Quantile returns a duration that at least the share q of all do not exceed,
// to within 1 %. It is zero when nothing was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := uint64(q * float64(h.n))
	rank = min(max(rank, 1), h.n)
	var seen uint64
	for i, c := range h.counts {
		if seen += uint64(c); seen >= rank {
			return time.Duration(upper(i))
		}
	}
	return 0
}

// bucket is the identity up to subBuckets. Above it the leading bits of the
// value, without the first, are the place within its power of two.
func bucket(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - 8 // leaves 8 bits: a one, and 7 that choose
	return shift*subBuckets + int(v>>shift)
}

// upper is the largest value of a bucket.
func upper(i int) uint64 {
	if i < 2*subBuckets {
		return uint64(i)
	}
	shift := i/subBuckets - 1
	top := uint64(i - shift*subBuckets)
	return (top+1)<<shift - 1
}
