//go:build !linux

package lockmgr

import "time"

// readClocks reports that the standard library offers no second clock here. On Windows, package
// time counts suspensions itself.
func readClocks() (awake, all time.Duration, ok bool) { return 0, 0, false }
