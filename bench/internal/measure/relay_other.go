//go:build !linux

package measure

import "time"

func holdBack(d time.Duration) { time.Sleep(d) }
