//go:build !unix

package measure

import "time"

func clock() int64           { return time.Now().UnixNano() }
func cpuTime() time.Duration { return 0 }
