package sim

// Shrink looks for a smaller simulation of the same seed that violates the same invariant: with
// fewer kinds of faults, and with an earlier end. It returns the smallest one that it has found.
func Shrink(res Result) Result {
	best := res
	try := func(o Options) bool {
		o.Phases = false
		r := Run(o)
		if r.Violation == nil || r.Violation.Invariant != res.Violation.Invariant {
			return false
		}
		best = r
		return true
	}
	for again := true; again; {
		again = false
		for f := Faults(1); f < allFaults; f <<= 1 {
			if best.Faults&f != 0 {
				o := best.Options
				o.Off |= f
				again = try(o) || again
			}
		}
		// A run with fewer events may go another way, so halving need not find the smallest number
		// of events.
		for cut := best.Options.Events / 2; cut > 0; cut /= 2 {
			for best.Options.Events > cut {
				o := best.Options
				o.Events -= cut
				if !try(o) {
					break
				}
				again = true
			}
		}
	}
	return best
}
