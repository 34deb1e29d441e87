package agenda

import "time"

// A Rand is a splitmix64 generator. Its value is the seed.
type Rand uint64

// Next returns a number of 64 bits.
func (r *Rand) Next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below returns a number in [0, n).
func (r *Rand) Below(n int) int { return int(r.Next() % uint64(n)) }

// Between returns an instant or a length of time in [lo, hi], or lo if hi is less.
func (r *Rand) Between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(r.Next()%uint64(hi-lo+1))
}

// LogBetween is like Between, but returns short times more often.
func (r *Rand) LogBetween(lo, hi time.Duration) time.Duration {
	for hi/4 > lo && r.Next()%2 == 0 {
		hi /= 4
	}
	return r.Between(lo, hi)
}

// Percent returns true with a probability of p/100.
func (r *Rand) Percent(p int) bool { return r.Next()%100 < uint64(p) }

// Permille returns true with a probability of p/1000.
func (r *Rand) Permille(p int) bool { return r.Next()%1000 < uint64(p) }

// Evenly returns a length of time in [lo, hi]. All orders of magnitude in that range are about
// equally likely.
func (r *Rand) Evenly(lo, hi time.Duration) time.Duration {
	lo = max(lo, 1)
	n := 1
	for t := hi / 4; t > lo; t /= 4 {
		n++
	}
	for range r.Below(n) {
		hi /= 4
	}
	return r.Between(max(lo, hi/4), hi)
}
