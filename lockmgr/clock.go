package lockmgr

import (
	"sync/atomic"
	"time"
)

// A clock returns the time since it was made, including the time for which the host was suspended.
// Leases run out on the server meanwhile, but Go's monotonic clock stands still on some systems,
// Linux among them. By that clock a lock would look valid after the suspension for as long as it
// had left before.
//
// If the system has a clock that counts suspensions, readClocks reads it together with the one that
// does not. The clock adds their difference to the time of package time.
type clock struct {
	origin time.Time
	read   func() (awake, all time.Duration, ok bool)
	base   time.Duration // all - awake at the origin
	slept  atomic.Int64  // suspensions noticed since the origin
	looked atomic.Int64  // the last look of now, in time awake
}

// clockNoise bounds the time between the readings of both clocks. A smaller difference is no
// suspension. It is well below Options.Margin, and no host sleeps for so short a time.
const clockNoise = 500 * time.Microsecond

func newClock(read func() (awake, all time.Duration, ok bool)) *clock {
	c := &clock{origin: time.Now(), read: read}
	if awake, all, ok := read(); ok {
		c.base = all - awake
	} else {
		c.read = nil
	}
	return c
}

// lookAgain is the time between two looks of now for a suspension. A look costs more than the rest
// of now.
const lookAgain = 10 * time.Millisecond

// now returns the present instant, which never goes back. For up to lookAgain after a suspension,
// the result may lack the time of the suspension. A new lease then counts from too early an
// instant, which is safe. The manager notices the end of an old lease late, but [Lock.Valid] uses
// exact.
func (c *clock) now() time.Duration {
	awake := time.Since(c.origin)
	if c.read == nil {
		return awake
	}
	if last := c.looked.Load(); awake-time.Duration(last) >= lookAgain {
		c.looked.Store(int64(awake))
		return awake + c.suspended()
	}
	return awake + time.Duration(c.slept.Load())
}

// exact is now with the time of each suspension.
func (c *clock) exact() time.Duration { return time.Since(c.origin) + c.suspended() }

// countsSuspensions reports whether suspensions are noticed at all.
func (c *clock) countsSuspensions() bool { return c.read != nil }

// suspended returns how long the host slept since the origin.
func (c *clock) suspended() time.Duration {
	if c.read == nil {
		return 0
	}
	known, seen := c.slept.Load(), c.difference()
	if seen > known+int64(clockNoise) {
		// A thread that loses its processor between the two readings gets too large a difference,
		// but hardly three times in a row. If so, leases end that much too early, once.
		seen = min(seen, c.difference(), c.difference())
	}
	for seen > known+int64(clockNoise) {
		if c.slept.CompareAndSwap(known, seen) {
			return time.Duration(seen)
		}
		known = c.slept.Load()
	}
	return time.Duration(known)
}

// difference returns how long the host was suspended since the origin, and the time between the
// readings on top.
func (c *clock) difference() int64 {
	awake, all, _ := c.read()
	return int64(all - awake - c.base)
}
