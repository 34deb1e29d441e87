package result

import (
	"math"

	"github.com/holdfast-go/holdfast/bench/internal/stats"
)

// A Change is how one figure of one candidate went from one run to another.
type Change struct {
	Table    string
	Figure   Figure
	Old, New stats.Summary
	// Factor is the new median by the old one, after the machine's own change is taken out. Above 1
	// is more, whether that is good or bad.
	Factor float64
	// Machine is the change that the other candidates of the table saw; 1 for counts, and where
	// there are too few to tell.
	Machine float64
	Verdict Verdict
}

// A Verdict says what a change means.
type Verdict string

// The verdicts.
const (
	Same   Verdict = "same"   // within the noise
	Worse  Verdict = "worse"  // a regression
	Gain   Verdict = "better" // the opposite
	Unsure Verdict = "unsure" // large, but so is the noise or there are too few runs
	Gone   Verdict = "gone"   // it has no value any more: it fails now
)

// Few others could all have changed by chance.
const fewestOthers = 3

// Compare compares the candidate's rows of two runs. A change is a regression if it is larger than
// threshold (0.1 is 10 %) and larger than the noise: the repetitions of the new run, corrected for
// the machine, must all lie beyond those of the old run. One repetition says nothing about noise,
// so that it takes two on each side, except for counts.
//
// Two runs are seldom made in the same hour on the same machine. So figures of time are corrected
// by the median change of all other candidates in the same table: if all became slower by a fifth,
// that was the machine. Counts, such as commands a handoff, are compared as they are.
func Compare(before, after *Run, candidate string, threshold float64) []Change {
	var out []Change
	for _, t := range before.Tables {
		u := after.table(t.ID)
		if u == nil {
			continue
		}
		a, b := t.row(candidate), u.row(candidate)
		if a == nil || b == nil {
			continue
		}
		for _, f := range t.Figures {
			o, ok := a.Summary[f.Key]
			if !ok || f.Better == Either {
				continue
			}
			c := Change{Table: t.ID, Figure: f, Old: o, Machine: 1, Factor: math.NaN()}
			if c.New, ok = b.Summary[f.Key]; !ok {
				c.Verdict = Gone
				out = append(out, c)
				continue
			}
			if !f.Count {
				c.Machine = drift(t, u, f.Key, candidate)
			}
			c.judge(threshold)
			out = append(out, c)
		}
	}
	return out
}

func (c *Change) judge(threshold float64) {
	o, n := c.Old, c.New
	n.Median, n.Min, n.Max = n.Median/c.Machine, n.Min/c.Machine, n.Max/c.Machine
	switch {
	case o.Median == n.Median:
		c.Factor = 1
	case o.Median == 0:
		c.Factor = math.Inf(1)
	default:
		c.Factor = n.Median / o.Median
	}
	if c.Factor <= 1+threshold && c.Factor >= 1/(1+threshold) {
		c.Verdict = Same
		return
	}
	more := c.Factor > 1
	apart := more && n.Min > o.Max || !more && n.Max < o.Min
	known := c.Figure.Count || o.N >= 2 && n.N >= 2
	switch {
	case !apart || !known:
		c.Verdict = Unsure
	case more == (c.Figure.Better == Lower):
		c.Verdict = Worse
	default:
		c.Verdict = Gain
	}
}

// drift is by how much the other candidates changed.
func drift(before, after *Table, key, except string) float64 {
	var factors []float64
	for _, a := range before.Rows {
		b := after.row(a.Candidate)
		if b == nil || a.Candidate == except {
			continue
		}
		if o, n := a.Summary[key], b.Summary[key]; o.Median > 0 && n.Median > 0 {
			factors = append(factors, n.Median/o.Median)
		}
	}
	if len(factors) < fewestOthers {
		return 1
	}
	return stats.Median(factors)
}

func (r *Run) table(id string) *Table {
	for _, t := range r.Tables {
		if t.ID == id {
			return t
		}
	}
	return nil
}

func (t *Table) row(candidate string) *Row {
	for _, r := range t.Rows {
		if r.Candidate == candidate {
			return r
		}
	}
	return nil
}
