package check

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Loss is what a holder saw of the end of its lease: the claim that was over, and a reading after
// the loss had been signalled. It may also be about a plain timer of the same process: how late
// that is, nothing in the process can beat.
type Loss struct {
	Proc       uint32
	Claim, Saw int64
	Timer      bool
}

// Lateness counts how long after the claim's end losses were signalled. A process that is stopped
// can't signal anything, so the time that it was stopped does not count; and as it takes the system
// a while to let it go on, those losses are counted by themselves. The zero value is ready. It is
// not safe for concurrent use.
type Lateness struct {
	Running Delays // the process was not stopped from the claim's end to the signal
	Stopped Delays // it was stopped in between
	Timers  Delays // plain timers of processes that were not stopped
	Early   int    // told before the claim was over: closed, or removed

	stops map[uint32][]stop
}

// Delays are how late things were. The zero value is ready.
type Delays struct {
	counts *hdrhistogram.Histogram
	Max    time.Duration
}

// longest is what counts as itself: all that is longer counts as this.
const longest = int64(time.Hour)

func (d *Delays) add(late int64) {
	late = max(0, late)
	if d.counts == nil {
		d.counts = hdrhistogram.New(1, longest, 2)
	}
	_ = d.counts.RecordValue(min(late, longest)) // which is in its range
	d.Max = max(d.Max, time.Duration(late))
}

// N is how many there were.
func (d *Delays) N() uint64 {
	if d.counts == nil {
		return 0
	}
	return uint64(d.counts.TotalCount())
}

// Quantile returns a delay that at least the share q of all do not exceed, to within 1 %; zero if
// there were none.
func (d *Delays) Quantile(q float64) time.Duration {
	if d.counts == nil {
		return 0
	}
	return time.Duration(d.counts.ValueAtPercentile(100 * q))
}

type stop struct{ from, to int64 }

// Stop records that a process is to be stopped: from is a reading before.
func (l *Lateness) Stop(proc uint32, from int64) {
	if l.stops == nil {
		l.stops = map[uint32][]stop{}
	}
	l.stops[proc] = append(l.stops[proc], stop{from, math.MaxInt64})
}

// Continue records that it goes on: to is a reading after.
func (l *Lateness) Continue(proc uint32, to int64) {
	if s := l.stops[proc]; len(s) > 0 {
		s[len(s)-1].to = to
	}
}

// Add counts a loss, or a timer.
func (l *Lateness) Add(x Loss) {
	late, stopped := less(x, l.stops[x.Proc])
	switch {
	case x.Timer:
		if !stopped {
			l.Timers.add(late)
		}
	case x.Saw <= x.Claim:
		l.Early++
	case stopped:
		l.Stopped.add(late)
	default:
		l.Running.add(late)
	}
}

// less returns how late a loss was without the time that lies within stops, and whether there was
// any.
func less(x Loss, stops []stop) (late int64, found bool) {
	late = x.Saw - x.Claim
	for _, s := range stops {
		if both := min(s.to, x.Saw) - max(s.from, x.Claim); both > 0 {
			late -= both
			found = true
		}
	}
	return late, found
}
