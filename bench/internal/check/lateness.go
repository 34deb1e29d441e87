package check

import (
	"math"
	"slices"
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
	Beyond  Delays // Running, less the time in which a plain timer of the process was late too
	Early   int    // told before the claim was over: closed, or removed

	stops   map[uint32][]stop
	starved map[uint32][]stop // when plain timers were late
	pending map[uint32][]Loss // until the timers of their time are known
}

// Starved times are kept for so long, in nanoseconds: timers are reported in order, at most one
// pause of them after a loss.
const starvedFor = 10e9

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

// Add counts a loss. Those of one process have to come in order, timers among them.
func (l *Lateness) Add(x Loss) {
	late, stopped := less(x.Saw-x.Claim, x, l.stops[x.Proc])
	switch {
	case x.Timer:
		if !stopped {
			l.Timers.add(late)
		}
		l.timer(x)
	case x.Saw <= x.Claim:
		l.Early++
	case stopped:
		l.Stopped.add(late)
	default:
		l.Running.add(late)
		if l.pending == nil {
			l.pending = map[uint32][]Loss{}
		}
		l.pending[x.Proc] = append(l.pending[x.Proc], x)
	}
}

// timer keeps when a timer was late, and settles the losses before its end.
func (l *Lateness) timer(x Loss) {
	if l.starved == nil {
		l.starved = map[uint32][]stop{}
	}
	all := append(l.starved[x.Proc], stop{x.Claim, x.Saw})
	for len(all) > 0 && all[0].to < x.Saw-starvedFor {
		all = all[1:]
	}
	l.starved[x.Proc] = all
	l.settle(x.Proc, x.Saw)
}

func (l *Lateness) settle(proc uint32, until int64) {
	if len(l.pending[proc]) == 0 {
		return
	}
	l.pending[proc] = slices.DeleteFunc(l.pending[proc], func(x Loss) bool {
		if x.Saw > until {
			return false
		}
		late, _ := less(x.Saw-x.Claim, x, l.starved[proc])
		l.Beyond.add(late)
		return true
	})
}

// Finish settles what still waits for a timer.
func (l *Lateness) Finish() {
	for proc := range l.pending {
		l.settle(proc, math.MaxInt64)
	}
}

// less takes off the time of a loss that lies within stops, and tells whether there was any.
func less(late int64, x Loss, stops []stop) (int64, bool) {
	found := false
	for _, s := range stops {
		if both := min(s.to, x.Saw) - max(s.from, x.Claim); both > 0 {
			late -= both
			found = true
		}
	}
	return late, found
}
