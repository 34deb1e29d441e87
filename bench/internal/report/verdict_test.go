package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// A column is what the candidates of a table have, one value each.
func asked(better result.Better, q result.Question, values map[string]float64) *result.Table {
	t := &result.Table{Figures: []result.Figure{{Key: "v", Name: "figure", Unit: "ms", Better: better}}, Questions: []result.Question{q}}
	for _, c := range []struct{ name, kind string }{
		{"holdfast", "holdfast"}, {"raw", "ceiling"}, {"slow", "peer"}, {"quick", "peer"}, {"protocol", "permit"}, {"poll", "waker"},
	} {
		if v, ok := values[c.name]; ok {
			t.Rows = append(t.Rows, &result.Row{Candidate: c.name, Kind: c.kind, Samples: []result.Sample{{Values: map[string]float64{"v": v}}}})
		}
	}
	t.Finish("holdfast")
	return t
}

func TestVerdict(t *testing.T) {
	q := result.Question{Question: "how long", Figure: "v"}
	against := result.Question{Question: "how long", Figure: "v", Against: []string{"protocol", "poll"}}
	all := map[string]float64{"holdfast": 10, "raw": 1, "slow": 400, "quick": 40, "protocol": 80, "poll": 60}
	for name, c := range map[string]struct {
		table *result.Table
		who   string
		says  string
		kind  string
	}{
		"less is better":             {asked(result.Lower, q, all), "quick", "4.00 x better", "better"},
		"more is better":             {asked(result.Higher, q, all), "slow", "40.0 x worse", "worse"},
		"against some of ours":       {asked(result.Lower, against, all), "poll (ours)", "6.00 x better", "better"},
		"worse":                      {asked(result.Lower, q, map[string]float64{"holdfast": 10, "slow": 5}), "slow", "2.00 x worse", "worse"},
		"the same":                   {asked(result.Lower, q, map[string]float64{"holdfast": 10, "slow": 10.4}), "slow", "about the same", "same"},
		"more, and it is so":         {asked(result.Higher, q, map[string]float64{"holdfast": 10, "slow": 4}), "slow", "2.50 x better", "better"},
		"nothing at all":             {asked(result.Lower, q, map[string]float64{"holdfast": 0, "slow": 4}), "slow", "holdfast: 0", "better"},
		"none, and more is better":   {asked(result.Higher, q, map[string]float64{"holdfast": 0, "slow": 4}), "slow", "holdfast: 0", "worse"},
		"none of the other":          {asked(result.Lower, q, map[string]float64{"holdfast": 2, "slow": 0}), "slow", "other: 0", "worse"},
		"none of it, more is better": {asked(result.Higher, q, map[string]float64{"holdfast": 2, "slow": 0}), "slow", "other: 0", "better"},
	} {
		t.Run(name, func(t *testing.T) {
			got := verdicts(&result.Run{Tables: []*result.Table{c.table}})
			require.Len(t, got, 1)
			require.Equal(t, verdict{Question: "how long", Unit: "ms", Ours: got[0].Ours, Theirs: got[0].Theirs, Who: c.who, Says: c.says, Kind: c.kind}, got[0])
		})
	}
}

// stopped returns a table in which the watchdog stopped a candidate's last n runs of two.
func stopped(candidate string, n int, values map[string]float64) *result.Table {
	t := asked(result.Lower, result.Question{Question: "how long", Figure: "v"}, values)
	for _, r := range t.Rows {
		r.Samples = append(r.Samples, result.Sample{Rep: 1, Values: r.Samples[0].Values})
		for i := range r.Samples {
			if r.Candidate == candidate && i >= len(r.Samples)-n {
				r.Samples[i].Problem = "stopped by the watchdog after 40s"
			}
		}
	}
	t.Finish("holdfast")
	return t
}

// A verdict names what was stopped, holdfast too.
func TestVerdict_NamesWhatWasStopped(t *testing.T) {
	two := map[string]float64{"holdfast": 10, "slow": 40}
	three := map[string]float64{"holdfast": 10, "slow": 40, "quick": 20, "raw": 1}
	for name, c := range map[string]struct {
		table *result.Table
		want  verdict
	}{
		"the best":      {stopped("quick", 2, three), verdict{Ours: "10.0", Theirs: "40.0", Who: "slow", Says: "4.00 x better; quick was stopped", Kind: "better"}},
		"half the runs": {stopped("quick", 1, three), verdict{Ours: "10.0", Theirs: "20.0", Who: "quick", Says: "2.00 x better; quick was stopped in 1 of 2 runs", Kind: "better"}},
		"a ceiling":     {stopped("raw", 2, three), verdict{Ours: "10.0", Theirs: "20.0", Who: "quick", Says: "2.00 x better", Kind: "better"}},
		"all others":    {stopped("slow", 2, two), verdict{Ours: "10.0", Theirs: "-", Who: "no other", Says: "slow was stopped", Kind: "same"}},
		"holdfast":      {stopped("holdfast", 2, two), verdict{Ours: "-", Theirs: "40.0", Who: "slow", Says: "holdfast was stopped", Kind: "worse"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Question, c.want.Unit = "how long", "ms"
			require.Equal(t, []verdict{c.want}, verdicts(&result.Run{Tables: []*result.Table{c.table}}))
		})
	}
	failed := stopped("quick", 2, three)
	for _, r := range failed.Rows {
		if r.Candidate == "quick" {
			r.Samples[1].Problem = "connection refused"
		}
	}
	require.Equal(t, "4.00 x better; quick failed", verdicts(&result.Run{Tables: []*result.Table{failed}})[0].Says)
}

// The terminal and the page say what a verdict is, and print no candidate of ours as a library.
func TestVerdict_SaysWhatItIs(t *testing.T) {
	q := result.Question{Question: "how long", Figure: "v", Against: []string{"poll"}}
	run := &result.Run{Tables: []*result.Table{asked(result.Lower, q, map[string]float64{"holdfast": 10, "poll": 60})}}
	var text, page bytes.Buffer
	Verdicts(&text, run)
	require.NoError(t, Page(&page, run))
	require.Contains(t, text.String(), "holdfast 10.0 ms, poll (ours) 60.0 ms: 6.00 x better\n")
	for _, out := range []string{text.String(), page.String()} {
		out, _, _ = strings.Cut(out, "<h2 id=")
		out = strings.Join(strings.Fields(out), " ")
		require.Contains(t, out, verdictNote)
		require.Contains(t, out, "poll (ours)")
		require.NotContains(t, out, "best other")
	}
}

// The first line says that the machine was busy, and no verdict of the page is bold then.
func TestBusy(t *testing.T) {
	run := example(10, 25)
	run.Machine = result.Machine{Cores: 2, Load: "0.50 9 9"}
	var quiet, busy, text bytes.Buffer
	require.NoError(t, Page(&quiet, run))
	run.Machine.Load = "3.25 0 0"
	require.NoError(t, Page(&busy, run))
	Busy(&text, result.Machine{Cores: 2, Load: "0.50 9 9"})
	Busy(&text, run.Machine)
	told := "THE MACHINE WAS BUSY before the run: load 3.25 on 2 cores"
	require.Equal(t, told+"\n", text.String())
	require.Regexp(t, `<h1>[^<]*</h1>\s*<p class="stamp">`+told+"</p>", busy.String())
	require.NotContains(t, quiet.String(), "BUSY")
	require.Contains(t, quiet.String(), `<body>`)
	require.Contains(t, busy.String(), `<body class="busy">`)
	require.Contains(t, busy.String(), ".busy .better, .busy .worse { font-weight: normal; }")
	require.Less(t, strings.Index(quiet.String(), "load before the run 0.50"), strings.Index(quiet.String(), "<h2"))
}

// Without a figure of holdfast, or of another one, there is no verdict.
func TestVerdict_NothingToCompare(t *testing.T) {
	q := result.Question{Question: "how long", Figure: "v"}
	unknown := result.Question{Question: "how long", Figure: "another"}
	for _, table := range []*result.Table{
		asked(result.Lower, q, map[string]float64{"holdfast": 1, "raw": 2}), asked(result.Lower, q, map[string]float64{"slow": 1}),
		asked(result.Lower, unknown, map[string]float64{"holdfast": 1, "slow": 2}), {},
	} {
		require.Empty(t, verdicts(&result.Run{Tables: []*result.Table{table}}))
	}
	var b bytes.Buffer
	Verdicts(&b, &result.Run{})
	require.Empty(t, b.String())
}

// The verdicts come first, twelve of them at most.
func TestVerdict_OnTopOfThePage(t *testing.T) {
	run := &result.Run{}
	for i := range 15 {
		run.Tables = append(run.Tables, asked(result.Lower, result.Question{Question: fmt.Sprint("question ", i), Figure: "v"}, map[string]float64{"holdfast": 1, "slow": 34}))
	}
	var b bytes.Buffer
	require.NoError(t, Page(&b, run))
	require.Equal(t, 12, bytes.Count(b.Bytes(), []byte("34.0 x better")))
	require.Less(t, bytes.Index(b.Bytes(), []byte("question 11")), bytes.Index(b.Bytes(), []byte("<h2 id=")))
	b.Reset()
	Verdicts(&b, run)
	require.Equal(t, 12, bytes.Count(b.Bytes(), []byte("34.0 x better")))
	require.Contains(t, b.String(), "question 0")
}
