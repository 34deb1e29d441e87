package lockmgr

import (
	"syscall"
	"time"
	"unsafe"
)

// The clocks of clock_gettime(2). Package time reads the first one.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// readClocks reads the clock that stands still while the host is suspended, then the one that goes
// on. In this order the time between the two readings makes leases shorter, never longer. The calls
// don't block, and take some hundred nanoseconds.
func readClocks() (awake, all time.Duration, ok bool) {
	awake, ok = readClock(clockMonotonic)
	if ok {
		all, ok = readClock(clockBoottime)
	}
	return awake, all, ok
}

func readClock(id uintptr) (time.Duration, bool) {
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano()), errno == 0
}
