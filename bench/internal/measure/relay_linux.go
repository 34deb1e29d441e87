package measure

import (
	"syscall"
	"time"
)

// holdBack is time.Sleep with a finer grain: a timer of the runtime may be a millisecond late.
func holdBack(d time.Duration) {
	if d > 0 {
		t := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&t, nil) // a signal may end it early
	}
}
