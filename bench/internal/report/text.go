// Package report shows a run to people: as text, as charts and as one page.
package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/bench/internal/result"
	"github.com/holdfast-go/holdfast/bench/internal/stats"
)

// lineWidth is how many columns a line of text has at most.
const lineWidth = 100

// Busy writes the line that a report begins with if the machine was busy before the run.
func Busy(w io.Writer, m result.Machine) {
	if text := busy(m); text != "" {
		fmt.Fprintln(w, Wrap(text))
	}
}

// busy says that a run began while more than a quarter of the cores had work.
func busy(m result.Machine) string {
	var load float64 // of the last minute
	if _, err := fmt.Sscan(m.Load, &load); err != nil || load <= float64(m.Cores)/4 {
		return ""
	}
	return fmt.Sprintf("THE MACHINE WAS BUSY before the run: load %.2f on %d cores", load, m.Cores)
}

// Wrap breaks a line that has more columns than lineWidth. The lines that follow begin as the
// first.
func Wrap(text string) string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	var out []string
	line := indent
	for word := range strings.FieldsSeq(text) {
		if line != indent && utf8.RuneCountInString(line+" "+word) > lineWidth {
			out, line = append(out, line), indent
		}
		if line != indent {
			line += " "
		}
		line += word
		for runes := []rune(line); len(runes) > lineWidth; runes = []rune(line) {
			out, line = append(out, string(runes[:lineWidth])), indent+string(runes[lineWidth:])
		}
	}
	return strings.Join(append(out, line), "\n")
}

// Text writes a table for a terminal.
func Text(w io.Writer, t *result.Table) {
	fmt.Fprintf(w, "\n%s\n", Wrap(t.Title))
	rows := [][]string{{""}, {""}}
	for _, f := range t.Figures {
		rows[0], rows[1] = append(rows[0], f.Name), append(rows[1], f.Unit)
	}
	for _, r := range t.Rows {
		line := []string{r.Candidate}
		for _, f := range t.Figures {
			line = append(line, cell(r, f))
		}
		rows = append(rows, line)
	}
	align(w, rows)
	for _, r := range t.Rows {
		if n, why := r.Problems(); n > 0 {
			fmt.Fprintln(w, Wrap(fmt.Sprintf("! %s: %d of %d runs: %s", r.Candidate, n, len(r.Samples), why)))
		}
	}
}

// cell is the median; for the figures that matter most also how far the repetitions were apart, and
// how many times holdfast's it is.
func cell(r *result.Row, f result.Figure) string {
	s, ok := r.Summary[f.Key]
	if !ok {
		return "-"
	}
	text := Number(s.Median)
	if !f.Chart {
		return text
	}
	if spread := Spread(s); spread != "" {
		text += " " + spread
	}
	if ratio, ok := r.Ratio[f.Key]; ok && r.Kind != "holdfast" {
		text += " (" + Ratio(ratio.Median) + ")"
	}
	return text
}

// median is the median alone.
func median(r *result.Row, f result.Figure) string {
	if s, ok := r.Summary[f.Key]; ok {
		return Number(s.Median)
	}
	return "-"
}

// Spread is half the distance of the extremes, in percent of the median.
func Spread(s stats.Summary) string {
	if s.N < 2 || s.Median == 0 {
		return ""
	}
	return fmt.Sprintf("±%.0f%%", 50*(s.Max-s.Min)/math.Abs(s.Median))
}

// Ratio writes how many times as much something is.
func Ratio(x float64) string { return Number(x) + "x" }

// Number writes three digits that mean something, and no exponent.
func Number(x float64) string {
	a := math.Abs(x)
	switch {
	case a == 0:
		return "0"
	case a < 0.0005:
		return fmt.Sprintf("%.5f", x)
	case a < 0.095:
		return fmt.Sprintf("%.3f", x)
	case a < 9.95:
		return fmt.Sprintf("%.2f", x)
	case a < 99.5:
		return fmt.Sprintf("%.1f", x)
	}
	return Whole(x)
}

// Whole writes a whole number, in groups of three.
func Whole[T int | float64](x T) string {
	text := fmt.Sprintf("%.0f", float64(x))
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// align writes columns: the first to the left, the rest to the right. Columns for which a line has
// no room follow below, beside the first again.
func align(w io.Writer, rows [][]string) {
	var width []int
	for _, row := range rows {
		for i, text := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(text))
		}
	}
	for from, to := 1, 1; from < len(width); from = to {
		if from > 1 {
			fmt.Fprintln(w)
		}
		for total := width[0]; to < len(width) && (to == from || total+2+width[to] <= lineWidth); to++ {
			total += 2 + width[to]
		}
		for _, row := range rows {
			line := fmt.Sprintf("%-*s", width[0], row[0])
			for i := from; i < min(to, len(row)); i++ {
				line += fmt.Sprintf("  %*s", width[i], row[i])
			}
			fmt.Fprintln(w, strings.TrimRight(line, " "))
		}
	}
}
