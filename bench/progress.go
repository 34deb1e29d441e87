package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows what is running and how long it will take. It is nil, and shows nothing, if the
// output is not a terminal.
type progress struct {
	bar   *progressbar.ProgressBar
	plans []*plan
	took  map[string]time.Duration // by plan and candidate, once known
	left  map[string]int           // repetitions
}

func newProgress(w io.Writer, plans []*plan) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	p := &progress{plans: plans, took: map[string]time.Duration{}, left: map[string]int{}}
	n := 0
	for _, pl := range plans {
		for _, c := range pl.candidates {
			p.left[pl.table.ID+c] = pl.reps
			n += pl.reps
		}
	}
	p.bar = progressbar.NewOptions(n, progressbar.OptionSetWriter(w), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(false), progressbar.OptionFullWidth(), progressbar.OptionUseANSICodes(true))
	return p
}

func (p *progress) at(pl *plan, candidate string, rep int) {
	if p == nil {
		return
	}
	p.bar.Describe(fmt.Sprintf("%s %s %d/%d, about %v left", pl.spec.Workload, candidate, rep+1, pl.reps, p.remaining().Round(time.Second)))
}

func (p *progress) done(pl *plan, candidate string, rep int, took time.Duration, lame bool) {
	if p == nil {
		return
	}
	key := pl.table.ID + candidate
	p.took[key] = took
	p.left[key] = pl.reps - rep - 1
	if lame && rep+1 >= slowReps {
		p.left[key] = 0
	}
	_ = p.bar.Add(1)
}

// remaining estimates the time that is left. A candidate takes as long as its last repetition, or
// the shortest time of its workload if it has not run yet.
func (p *progress) remaining() time.Duration {
	var d time.Duration
	for _, pl := range p.plans {
		for _, c := range pl.candidates {
			key := pl.table.ID + c
			took, known := p.took[key]
			if !known {
				took = pl.idle() + time.Second
			}
			d += time.Duration(p.left[key]) * took
		}
	}
	return d
}

func (p *progress) end() {
	if p != nil {
		_ = p.bar.Finish()
	}
}
