package core

import "time"

// A retry knows how the commands of a name fare, and when the next one is due.
type retry struct {
	// at is when the phase's next script goes out: the poll in phase waiting,
	// the repetition of what failed in the others.
	at time.Duration
	// since is the first of the failures in a row, n their number.
	since time.Duration
	n     int
}

// failed counts a failure. The next try is due after a pause.
func (r *retry) failed(now, pause time.Duration) {
	if r.n == 0 {
		r.since = now
	}
	r.n++
	r.at = now + pause
}

// succeeded ends a row of failures.
func (r *retry) succeeded() { r.n, r.since = 0, 0 }

// failing reports whether the last command failed.
func (r *retry) failing() bool { return r.n > 0 }

// pause is the time before the next try after n failures in a row.
func (m *Machine) pause(n int) time.Duration {
	d := min(10*time.Millisecond<<min(n-1, 7), time.Second, m.cfg.tick()/4)
	return d/2 + m.jitter.upTo(d)
}
