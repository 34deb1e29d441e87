package core

import "time"

// A retry counts the failures in a row of an entry's scripts, and says when the next script is due.
type retry struct {
	// at is when the next script of the phase is due: in phase waiting the poll, in all other
	// phases the repetition of a failed script, or a renewal of extend.
	at time.Duration
	// failingSince is when the first of the failures in a row came. n is their number.
	failingSince time.Duration
	n            int
}

// failed counts a failure. The next script is due after a pause.
func (r *retry) failed(now, pause time.Duration) {
	if r.n == 0 {
		r.failingSince = now
	}
	r.n++
	r.at = now + pause
}

// hasten makes the next script due at an instant, or earlier.
func (r *retry) hasten(at time.Duration) { r.at = min(r.at, at) }

// succeeded ends a row of failures, if any.
func (r *retry) succeeded() { r.n, r.failingSince = 0, 0 }

// failing reports whether the last script failed.
func (r *retry) failing() bool { return r.n > 0 }

// pause returns the time until the next script after n failures in a row.
func (m *Machine) pause(n int) time.Duration {
	d := min(10*time.Millisecond<<min(n-1, 7), time.Second, m.cfg.tick()/4)
	return d/2 + m.jitter.upTo(d)
}
