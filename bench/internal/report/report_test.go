package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	images "image/png"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/bench/internal/result"
)

func example(values ...float64) *result.Run {
	t := &result.Table{ID: "fanout/hold=0s", Title: "A & B", About: "about",
		Figures: []result.Figure{{Key: "v", Name: "drain", Unit: "ms", Better: result.Lower, Chart: true}}}
	kinds := []string{"holdfast", "waker", "peer", "ceiling"}
	for i, v := range values {
		r := &result.Row{Candidate: string(rune('a' + i)), Kind: kinds[i%len(kinds)]}
		if i == 0 {
			r.Candidate = "holdfast"
		}
		for rep := range 3 {
			r.Samples = append(r.Samples, result.Sample{Rep: rep, Values: map[string]float64{"v": v * (1 + 0.1*float64(rep))}})
		}
		t.Rows = append(t.Rows, r)
	}
	t.Rows = append(t.Rows, &result.Row{Candidate: "lame", Kind: "peer", Samples: []result.Sample{{Problem: "stopped <here>"}}})
	t.Finish("holdfast")
	return &result.Run{Tables: []*result.Table{t}}
}

func TestNumber(t *testing.T) {
	for want, x := range map[string]float64{
		"0": 0, "0.00040": 0.0004, "0.008": 0.008, "0.50": 0.5, "9.94": 9.94, "10.0": 9.97, "99.4": 99.4,
		"100": 99.7, "1,000": 999.6, "12,345": 12345, "1,234,567": 1234567, "-1,234": -1234, "-0.50": -0.5,
	} {
		require.Equal(t, want, Number(x))
	}
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	run := example(10, 25)
	Text(&b, run.Tables[0])
	out := b.String()
	require.Contains(t, out, "11.0 ±9%\n", "holdfast needs no ratio to itself")
	require.Contains(t, out, "27.5 ±9% (2.50x)")
	require.Contains(t, out, "! lame: 1 of 1 runs: stopped <here>")
}

// wideRun has a table with more and longer columns than fit into a line, and a long reason.
func wideRun() *result.Run {
	run := example(1763.2, 25)
	t := run.Tables[0]
	t.Title = strings.Repeat("many waiters ", 12)
	for _, r := range t.Rows {
		r.Candidate = (r.Candidate + " " + strings.Repeat("tuned", 5))[:24]
		for i := range r.Samples {
			if r.Samples[i].Problem != "" {
				r.Samples[i].Problem = strings.Repeat("q", 130) + strings.Repeat(" no route", 20)
			}
		}
	}
	t.Rows[0].Candidate, t.Rows[0].Kind = "holdfast", "holdfast"
	for i := range 11 {
		f := t.Figures[0]
		f.Name = fmt.Sprint("figure ", i)
		t.Figures = append(t.Figures, f) // of the same key
	}
	t.Questions = []result.Question{{Question: strings.Repeat("how long do they wait ", 8), Figure: "v"}}
	t.Finish("holdfast")
	return run
}

// No line is wider than a terminal. Each figure of a wide table is there once, with its candidates
// beside it.
func TestText_FitsATerminal(t *testing.T) {
	run := wideRun()
	var b bytes.Buffer
	Text(&b, run.Tables[0])
	blocks := strings.Count(b.String(), "\nholdfast ")
	require.Greater(t, blocks, 1)
	require.Equal(t, blocks, strings.Count(b.String(), "\nb tuned"))
	for _, f := range run.Tables[0].Figures {
		require.Len(t, regexp.MustCompile(regexp.QuoteMeta(f.Name)+`(?:\s|$)`).FindAllString(b.String(), -1), 1, f.Name)
	}
	Verdicts(&b, run)
	Busy(&b, result.Machine{Cores: 2, Load: "3.25"})
	for line := range strings.Lines(b.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
	}
	require.Equal(t, 130, strings.Count(b.String(), "q"), "nothing is cut off")
}

func TestPage_NeedsNothingElse(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, Page(&b, example(10, 2500, 0)))
	out := b.String()
	require.Contains(t, out, "A &amp; B")
	require.Contains(t, out, "stopped &lt;here&gt;")
	require.Equal(t, 1, strings.Count(out, "<svg"))
	require.NotContains(t, out, "<?xml")
	for _, outside := range []string{"src=", "href=\"http", "@import", "<script"} {
		require.NotContains(t, out, outside)
	}
}

// Each color is said twice, for light and for dark windows, and each table scrolls by itself.
func TestPage_DarkAndNarrow(t *testing.T) {
	root, dark := regexp.MustCompile(`:root \{[^}]*\}`), regexp.MustCompile(`@media \(prefers-color-scheme: dark\) \{\s*:root \{[^}]*\}`)
	names := func(css string) []string { return regexp.MustCompile(`--[a-z]+:`).FindAllString(css, -1) }
	light := root.FindString(pageText)
	require.Contains(t, light, "color-scheme: light dark")
	require.NotEmpty(t, names(light))
	require.ElementsMatch(t, names(light), names(dark.FindString(pageText)))
	require.NotRegexp(t, `#[0-9a-f]{3,6}\b`, root.ReplaceAllString(pageText, ""), "a color for one scheme only")
	require.Equal(t, strings.Count(pageText, "<table"), len(regexp.MustCompile(`<div class="wide">\s*<table`).FindAllString(pageText, -1)))
	require.Regexp(t, `\.wide[^{]*\{[^}]*overflow-x: auto`, pageText)
}

// The tables of a curve have one picture a figure, at the first of them.
func TestCurve(t *testing.T) {
	run := example(10, 2500, 2600, 2650)
	for _, at := range []float64{4, 256} {
		more := example(7, 30, 2700, 0).Tables[0]
		more.Point = &result.Point{Curve: "A & B", Over: "goroutines", At: at}
		run.Tables = append(run.Tables, more)
	}
	run.Tables[0].Point = &result.Point{Curve: "A & B", Over: "goroutines", At: 1}
	run.Tables = append(run.Tables, example(1).Tables...)
	cs := curves(run, run.Tables[0])
	require.Len(t, cs, 1)
	require.Equal(t, []float64{1, 4, 256}, cs[0].places)
	require.Equal(t, []int{3, 3, 3, 1}, []int{len(cs[0].lines[0].points), len(cs[0].lines[1].points), len(cs[0].lines[2].points), len(cs[0].lines[3].points)})
	require.Empty(t, charts(run.Tables[0]))
	for _, other := range run.Tables[1:] {
		require.Empty(t, curves(run, other))
	}
	var b bytes.Buffer
	require.NoError(t, png(cs[0], &b))
	_, err := images.Decode(&b)
	require.NoError(t, err)
	b.Reset()
	require.NoError(t, Page(&b, run))
	require.Equal(t, 2, strings.Count(b.String(), "<svg"))
	require.NotContains(t, b.String(), "NaN")
}

// Whatever the figures are, there is a picture.
func TestChart_OfOddFigures(t *testing.T) {
	for name, values := range map[string][]float64{
		"decades apart":    {0.003, 40, 5e6},
		"close":            {10, 11, 12},
		"one":              {5},
		"all zero":         {0, 0},
		"zero and decades": {0, 1, 1000},
		"zero and one":     {0, 7},
	} {
		t.Run(name, func(t *testing.T) {
			run := example(values...)
			cs := charts(run.Tables[0])
			require.Len(t, cs, 1)
			require.Equal(t, name == "decades apart" || name == "zero and decades", cs[0].log)
			var b bytes.Buffer
			require.NoError(t, png(cs[0], &b))
			_, err := images.Decode(&b)
			require.NoError(t, err)
			b.Reset()
			require.NoError(t, svg(cs[0], &b))
			require.NotContains(t, b.String(), "NaN")
			require.NoError(t, xml.Unmarshal(b.Bytes(), new(struct{})), "it is well-formed")
		})
	}
	require.Empty(t, charts(example().Tables[0]), "nothing was measured")
}
