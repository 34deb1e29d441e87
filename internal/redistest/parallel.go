package redistest

import (
	"flag"
	"strconv"
)

// Parallel lets n parallel tests run at once, unless -parallel says otherwise. It is for packages
// whose tests wait for leases to end most of the time, so that more of them can run than there are
// processors. Call it from TestMain, after all flags are defined: it parses them.
func Parallel(n int) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // fails only for what is no number
	}
}
