package report

import (
	"bytes"
	"fmt"
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
		"against some":               {asked(result.Lower, against, all), "poll", "6.00 x better", "better"},
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
