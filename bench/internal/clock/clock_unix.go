//go:build unix

// Package clock reads clocks of the machine.
package clock

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Now is an instant that all processes of the machine agree on. The wall clock may be set while we
// measure.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return time.Now().UnixNano()
	}
	return t.Nano()
}

// CPU is the CPU time of this process so far, user and system.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
