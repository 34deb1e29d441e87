//go:build !linux

package lockmgr

import "time"

// readClocks tells that there is no second clock to be had here without more
// than the standard library. On Windows, package time counts suspensions
// itself.
func readClocks() (awake, all time.Duration, ok bool) { return 0, 0, false }
