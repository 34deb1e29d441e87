package lockmgr

import "time"

// WithClocks gives a manager a host of its own: one clock that stands still
// while the host is suspended, and one that does not.
func WithClocks(o Options, read func() (awake, all time.Duration, ok bool)) Options {
	o.readClocks = read
	return o
}
