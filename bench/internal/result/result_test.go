package result

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/bench/internal/stats"
)

var (
	drain    = Figure{Key: "drain", Name: "drain", Unit: "ms", Better: Lower}
	rate     = Figure{Key: "rate", Name: "rate", Unit: "/s", Better: Higher}
	calls    = Figure{Key: "calls", Name: "calls", Better: Lower, Count: true}
	unjudged = Figure{Key: "rounds", Name: "rounds"}
)

// row has the values of one figure, one for each repetition.
func row(name, key string, values ...float64) *Row {
	r := &Row{Candidate: name}
	for i, v := range values {
		r.Samples = append(r.Samples, Sample{Rep: i, Values: map[string]float64{key: v}})
	}
	return r
}

func run(f Figure, rows ...*Row) *Run {
	t := &Table{ID: "t", Figures: []Figure{f}, Rows: rows}
	t.Finish("holdfast")
	return &Run{Schema: Schema, Tables: []*Table{t}}
}

func TestRatio_IsFormedWithinARepetition(t *testing.T) {
	// The machine was ten times slower in the second repetition. The ratio of the medians would be
	// 20/10.
	ours, other := row("holdfast", "drain", 1, 100, 10), row("other", "drain", 3, 300, 20)
	run(drain, ours, other)
	require.Equal(t, stats.Summary{N: 3, Median: 10, Min: 1, Max: 100}, ours.Summary["drain"])
	require.Equal(t, stats.Summary{N: 3, Median: 3, Min: 2, Max: 3}, other.Ratio["drain"])
}

func TestSummary_LeavesProblemsOut(t *testing.T) {
	ours, other := row("holdfast", "drain", 1, 2), row("other", "drain", 3, 4000)
	other.Samples[1].Problem = "stopped"
	run(drain, ours, other)
	require.Equal(t, stats.Summary{N: 1, Median: 3, Min: 3, Max: 3}, other.Summary["drain"])
	n, why := other.Problems()
	require.Equal(t, 1, n)
	require.Equal(t, "stopped", why)

	lame := row("holdfast", "drain", 5)
	lame.Samples[0].Problem = "stopped"
	other = row("other", "drain", 3)
	run(drain, lame, other)
	require.Empty(t, lame.Summary)
	require.Empty(t, other.Ratio, "there is nothing to compare with")
}

func TestResults_RoundTrip(t *testing.T) {
	r := run(drain, row("holdfast", "drain", 1, 2), row("other", "drain", 3))
	r.Started, r.Seconds, r.Command, r.Seed = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), 12, "go run ./bench", 7
	r.Machine = Machine{OS: "linux", Cores: 2}
	r.Versions = map[string]string{"m": "v1"}
	path := filepath.Join(t.TempDir(), "results.json")
	require.NoError(t, r.Write(path))
	back, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, r, back)

	require.NoError(t, os.WriteFile(path, []byte(`{"schema":"holdfast-bench/0"}`), 0o600))
	_, err = Read(path)
	require.ErrorContains(t, err, "holdfast-bench/0")
	require.NoError(t, os.WriteFile(path, []byte(`{`), 0o600))
	_, err = Read(path)
	require.Error(t, err)
}

func TestCompare(t *testing.T) {
	others := func(key string, v float64) []*Row {
		return []*Row{row("a", key, v, v), row("b", key, 2*v, 2*v), row("c", key, v, v)}
	}
	for name, c := range map[string]struct {
		figure   Figure
		old, new []float64
		machine  float64 // by how much the others changed
		want     Verdict
	}{
		"the same":                    {drain, []float64{10, 11, 12}, []float64{10, 11, 12}, 1, Same},
		"below the threshold":         {drain, []float64{10, 10, 10}, []float64{11, 11, 11}, 1, Same},
		"slower":                      {drain, []float64{10, 11, 12}, []float64{20, 21, 22}, 1, Worse},
		"faster":                      {drain, []float64{20, 21, 22}, []float64{10, 11, 12}, 1, Gain},
		"fewer a second":              {rate, []float64{20, 21, 22}, []float64{10, 11, 12}, 1, Worse},
		"more a second":               {rate, []float64{10, 11, 12}, []float64{20, 21, 22}, 1, Gain},
		"the machine was slower":      {drain, []float64{10, 11, 12}, []float64{20, 22, 24}, 2, Same},
		"hidden by a faster machine":  {drain, []float64{10, 11, 12}, []float64{10, 11, 12}, 0.5, Worse},
		"within the noise":            {drain, []float64{10, 11, 30}, []float64{20, 21, 22}, 1, Unsure},
		"once is not enough":          {drain, []float64{10}, []float64{20}, 1, Unsure},
		"but for a count":             {calls, []float64{10}, []float64{20}, 1, Worse},
		"counts know no slow machine": {calls, []float64{10, 10}, []float64{20, 20}, 2, Worse},
		"from nothing":                {calls, []float64{0}, []float64{3}, 1, Worse},
		"from nothing to nothing":     {calls, []float64{0}, []float64{0}, 1, Same},
	} {
		t.Run(name, func(t *testing.T) {
			key := c.figure.Key
			before := run(c.figure, append(others(key, 100), row("holdfast", key, c.old...))...)
			after := run(c.figure, append(others(key, 100*c.machine), row("holdfast", key, c.new...))...)
			changes := Compare(before, after, "holdfast", 0.15)
			require.Len(t, changes, 1)
			require.Equal(t, c.want, changes[0].Verdict, "%+v", changes[0])
		})
	}
}

func TestCompare_WhatIsNotThere(t *testing.T) {
	before := run(drain, row("holdfast", "drain", 1, 2))
	failed := row("holdfast", "drain", 1)
	failed.Samples[0].Problem = "stopped"
	changes := Compare(before, run(drain, failed), "holdfast", 0.1)
	require.Equal(t, Gone, changes[0].Verdict)
	require.True(t, math.IsNaN(changes[0].Factor))

	require.Empty(t, Compare(before, run(drain), "holdfast", 0.1))
	require.Empty(t, Compare(before, &Run{}, "holdfast", 0.1))
	told := run(unjudged, row("holdfast", "rounds", 1))
	require.Empty(t, Compare(told, told, "holdfast", 0.1))
}
