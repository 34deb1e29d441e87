package report

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/bench/internal/result"
)

func example(embedded bool, values ...float64) *result.Run {
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
	return &result.Run{Embedded: embedded, Tables: []*result.Table{t}}
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
	run := example(true, 10, 25)
	Text(&b, run, run.Tables[0])
	out := b.String()
	require.Contains(t, out, Stamp)
	require.Contains(t, out, "11.0 ±9%\n", "holdfast needs no ratio to itself")
	require.Contains(t, out, "27.5 ±9% (2.50x)")
	require.Contains(t, out, "! lame: 1 of 1 runs: stopped <here>")

	b.Reset()
	run.Embedded = false
	Text(&b, run, run.Tables[0])
	require.NotContains(t, b.String(), Stamp)
}

func TestPage_NeedsNothingElse(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, Page(&b, example(false, 10, 2500, 0)))
	out := b.String()
	require.Contains(t, out, "A &amp; B")
	require.Contains(t, out, "stopped &lt;here&gt;")
	require.Equal(t, 1, strings.Count(out, "<svg"))
	require.NotContains(t, out, "<?xml")
	for _, outside := range []string{"src=", "href=\"http", "@import", "<script"} {
		require.NotContains(t, out, outside)
	}
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
			run := example(true, values...)
			cs := charts(run, run.Tables[0])
			require.Len(t, cs, 1)
			require.Equal(t, name == "decades apart" || name == "zero and decades", cs[0].log)
			var b bytes.Buffer
			require.NoError(t, cs[0].png(&b))
			_, err := png.Decode(&b)
			require.NoError(t, err)
			b.Reset()
			require.NoError(t, cs[0].svg(&b))
			require.NotContains(t, b.String(), "NaN")
			require.NoError(t, xml.Unmarshal(b.Bytes(), new(struct{})), "it is well-formed")
		})
	}
	require.Empty(t, charts(example(false), example(false).Tables[0]), "nothing was measured")
}
