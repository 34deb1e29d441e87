//go:build !unix

package clock

import "time"

// Now is the wall clock.
func Now() int64 { return time.Now().UnixNano() }

// CPU is not known.
func CPU() time.Duration { return 0 }
