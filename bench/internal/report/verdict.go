package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// What stands above the verdicts.
const (
	verdictTitle = "In short: holdfast beside the best library, or beside a stand-in of this bench (ours)"
	verdictNote  = "A verdict is the median of the ratios within each repetition. " +
		"A verdict can differ from the ratio of the two medians beside it."
)

// mostVerdicts is how many rows the table at the top has at most.
const mostVerdicts = 12

// A verdict is one row of the table at the top: holdfast beside the best of the others.
type verdict struct {
	Question, Unit, Ours, Theirs, Who string
	// Says is how the two compare and which candidates failed or were stopped, and Kind is
	// "better", "worse" or "same".
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

// answer compares holdfast with the best of the others. It has no answer if holdfast, or every
// other, was neither measured nor stopped.
func answer(t *result.Table, q result.Question) (v verdict, ok bool) {
	i := slices.IndexFunc(t.Figures, func(f result.Figure) bool { return f.Key == q.Figure })
	if i < 0 {
		return v, false
	}
	f := t.Figures[i]
	var ours, best *result.Row
	var troubles []string
	for _, r := range t.Rows {
		switch s, measured := r.Summary[f.Key]; {
		case r.Kind == "holdfast":
			ours = r
		case len(q.Against) == 0 && r.Kind != "peer", len(q.Against) > 0 && !slices.Contains(q.Against, r.Candidate):
			continue
		case !measured:
		case best == nil, (s.Median < best.Summary[f.Key].Median) == (f.Better == result.Lower):
			best = r
		}
		if n, why := r.Problems(); n > 0 {
			troubles = append(troubles, troubleOf(r, n, why))
		}
	}
	if ours == nil || best == nil && len(troubles) == 0 {
		return v, false
	}
	v = verdict{Question: q.Question, Unit: f.Unit, Ours: "-", Theirs: "-", Who: "no other", Kind: "same"}
	if best != nil {
		v.Theirs, v.Who = Number(best.Summary[f.Key].Median), best.Candidate
		if best.Kind != "peer" {
			v.Who += " (ours)"
		}
	}
	s, measured := ours.Summary[f.Key]
	switch n, _ := ours.Problems(); {
	case measured:
		v.Ours = Number(s.Median)
		if best != nil {
			v.Kind, v.Says = judge(f, best)
			troubles = slices.Insert(troubles, 0, v.Says)
		}
	case n == 0:
		return v, false
	default:
		v.Kind = "worse"
	}
	v.Says = strings.Join(troubles, "; ")
	return v, true
}

// troubleOf says that runs of a candidate failed or were stopped.
func troubleOf(r *result.Row, n int, why string) string {
	text := r.Candidate + " failed"
	if strings.HasPrefix(why, "stopped") {
		text = r.Candidate + " was stopped"
	}
	if n < len(r.Samples) {
		text += fmt.Sprintf(" in %d of %d runs", n, len(r.Samples))
	}
	return text
}

// judge compares the best of the others with holdfast. There is no ratio if holdfast's figure is
// zero.
func judge(f result.Figure, best *result.Row) (kind, says string) {
	ratio, ok := best.Ratio[f.Key]
	switch {
	case !ok && f.Better == result.Higher:
		return "worse", "holdfast: 0"
	case !ok:
		return "better", "holdfast: 0"
	case f.Better == result.Higher:
		return compare(1 / ratio.Median)
	}
	return compare(ratio.Median)
}

// compare says how holdfast compares. x is the other's figure divided by holdfast's. For a figure
// of which more is better, it is the inverse.
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
	fmt.Fprintf(w, "\n%s\n%s\n", verdictTitle, Wrap(verdictNote))
	for _, v := range all {
		figure := func(who, number string) string { return strings.TrimSpace(who + " " + number + " " + v.Unit) }
		fmt.Fprintf(w, "\n%s\n%s\n", Wrap(v.Question), Wrap("  "+figure("holdfast", v.Ours)+", "+figure(v.Who, v.Theirs)+": "+v.Says))
	}
}
