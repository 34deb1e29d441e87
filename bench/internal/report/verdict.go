package report

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// mostVerdicts is how many rows the table at the top has at most.
const mostVerdicts = 12

// A verdict is one row of the table at the top: holdfast beside the best of the others.
type verdict struct {
	Question, Unit, Ours, Theirs, Who string
	// Says is how the two compare, and Kind is "better", "worse" or "same".
	Says, Kind string
}

// verdicts answers the questions of a run.
func verdicts(run *result.Run) (all []verdict) {
	for _, t := range run.Tables {
		for _, q := range t.Questions {
			if v, ok := answer(t, q); ok && len(all) < mostVerdicts {
				all = append(all, v)
			}
		}
	}
	return all
}

// answer compares holdfast with the best of the others. It has no answer if either was not measured.
func answer(t *result.Table, q result.Question) (v verdict, ok bool) {
	i := slices.IndexFunc(t.Figures, func(f result.Figure) bool { return f.Key == q.Figure })
	if i < 0 {
		return v, false
	}
	f := t.Figures[i]
	var ours, best *result.Row
	for _, r := range t.Rows {
		s, measured := r.Summary[f.Key]
		switch {
		case !measured:
		case r.Kind == "holdfast":
			ours = r
		case len(q.Against) == 0 && r.Kind != "peer", len(q.Against) > 0 && !slices.Contains(q.Against, r.Candidate):
		case best == nil, (s.Median < best.Summary[f.Key].Median) == (f.Better == result.Lower):
			best = r
		}
	}
	if ours == nil || best == nil {
		return v, false
	}
	v = verdict{Question: q.Question, Unit: f.Unit, Ours: Number(ours.Summary[f.Key].Median), Theirs: Number(best.Summary[f.Key].Median), Who: best.Candidate}
	ratio, ok := best.Ratio[f.Key]
	if !ok { // holdfast's figure is zero
		v.Kind, v.Says = "better", "holdfast: 0"
		if f.Better == result.Higher {
			v.Kind = "worse"
		}
		return v, true
	}
	x := ratio.Median
	if f.Better == result.Higher {
		x = 1 / x
	}
	v.Kind, v.Says = compare(x)
	return v, true
}

// compare says how holdfast compares. x is the other's figure divided by holdfast's. For a figure of which
// more is better, it is the inverse.
func compare(x float64) (kind, says string) {
	switch {
	case math.IsInf(x, 0):
		return "better", "other: 0"
	case x == 0:
		return "worse", "other: 0"
	case x > 1.05:
		return "better", Number(x) + " x better"
	case x < 0.95:
		return "worse", Number(1/x) + " x worse"
	}
	return "same", "about the same"
}

// Verdicts writes the answers for a terminal.
func Verdicts(w io.Writer, run *result.Run) {
	all := verdicts(run)
	if len(all) == 0 {
		return
	}
	fmt.Fprint(w, "\nIn short: holdfast beside the best of the others\n")
	rows := [][]string{{"", "holdfast", "best other", "", "", ""}}
	for _, v := range all {
		rows = append(rows, []string{v.Question, v.Ours, v.Theirs, v.Unit, v.Who, v.Says})
	}
	align(w, rows)
}
