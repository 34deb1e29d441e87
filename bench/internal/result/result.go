// Package result is what a run of the bench leaves behind: results.json, and how two of them are
// compared.
package result

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/stats"
)

// Schema names the form of results.json. It changes when a reader of the old form would misread the
// new one.
const Schema = "holdfast-bench/1"

// A Run is one run of the bench: the whole of results.json.
type Run struct {
	Schema   string            `json:"schema"`
	Started  time.Time         `json:"started"`
	Seconds  float64           `json:"seconds"`
	Command  string            `json:"command"`  // that repeats it
	Machine  Machine           `json:"machine"`  // as far as it says what it is
	Server   string            `json:"server"`   // name and version
	Versions map[string]string `json:"versions"` // of what was compared, by module
	Seed     uint64            `json:"seed"`
	LeftOut  []string          `json:"left_out,omitempty"` // what was not measured, and why
	Tables   []*Table          `json:"tables"`
}

// A Machine is what figures depend on.
type Machine struct {
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	CPU        string `json:"cpu,omitempty"`
	Cores      int    `json:"cores"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	Go         string `json:"go"`
	Load       string `json:"load,omitempty"` // of the last minutes, before the run
}

// A Table is one workload with one set of parameters.
type Table struct {
	ID      string   `json:"id"` // "fanout/hold=0s": the same in every run
	Title   string   `json:"title"`
	About   string   `json:"about"`
	Figures []Figure `json:"figures"`
	Rows    []*Row   `json:"rows"`
	// Questions are what the report begins with.
	Questions []Question `json:"questions,omitempty"`
	// Point is set if the table is a point of a curve.
	Point *Point `json:"point,omitempty"`
}

// A Point is where on a curve a table is. The figures of the tables of a curve are drawn as lines
// over a number that differs between the tables.
type Point struct {
	Curve string  `json:"curve"` // its title
	Over  string  `json:"over"`  // what the number counts
	At    float64 `json:"at"`
}

// A Question is one that a figure of a table answers.
type Question struct {
	Question string `json:"question"`
	Figure   string `json:"figure"` // its key
	// Against are the candidates that holdfast is compared with, of which the best one counts.
	// None: all other libraries.
	Against []string `json:"against,omitempty"`
}

// Better says which way a figure should go.
type Better string

// The ways.
const (
	Lower  Better = "lower"
	Higher Better = "higher"
	Either Better = "" // told, not judged
)

// A Figure is something measured: a column.
type Figure struct {
	Key    string `json:"key"`
	Name   string `json:"name"`
	Unit   string `json:"unit,omitempty"`
	Better Better `json:"better,omitempty"`
	// Count: it counts what is done, and hardly depends on how fast the machine is.
	Count bool `json:"count,omitempty"`
	// Chart: it gets a picture.
	Chart bool `json:"chart,omitempty"`
	// Long: a short run is too short for it, and leaves it out.
	Long bool `json:"-"`
}

// A Row is one candidate.
type Row struct {
	Candidate string `json:"candidate"`
	Kind      string `json:"kind"`
	About     string `json:"about"`
	// Samples are the repetitions, in the order in which they were run.
	Samples []Sample `json:"samples"`
	// Summary and Ratio sum them up by figure, see [Table.Finish].
	Summary map[string]stats.Summary `json:"summary"`
	Ratio   map[string]stats.Summary `json:"ratio,omitempty"`
}

// A Sample is one measurement.
type Sample struct {
	Rep     int                `json:"rep"` // those of one repetition were run next to each other
	Values  map[string]float64 `json:"values,omitempty"`
	Problem string             `json:"problem,omitempty"` // it hung or failed; values may be missing or partial
}

// Finish sums the samples up: medians over the repetitions, and ratios to base, the row that all
// are compared with. A ratio is formed within each repetition, where both had the machine in the
// same state, and the median is that of the ratios. Samples with a problem do not count: their
// figures say when the watchdog came, not how fast anything is.
func (t *Table) Finish(base string) {
	reference := t.row(base)
	for _, r := range t.Rows {
		r.Summary, r.Ratio = map[string]stats.Summary{}, map[string]stats.Summary{}
		for _, f := range t.Figures {
			var values, ratios []float64
			for _, s := range r.Samples {
				v, ok := s.value(f.Key)
				if !ok {
					continue
				}
				values = append(values, v)
				if reference == nil {
					continue
				}
				for _, b := range reference.Samples {
					if base, ok := b.value(f.Key); ok && b.Rep == s.Rep && base != 0 {
						ratios = append(ratios, v/base)
					}
				}
			}
			if len(values) > 0 {
				r.Summary[f.Key] = stats.Summarize(values)
			}
			if len(ratios) > 0 {
				r.Ratio[f.Key] = stats.Summarize(ratios)
			}
		}
	}
}

func (s Sample) value(key string) (float64, bool) {
	if s.Problem != "" {
		return 0, false
	}
	v, ok := s.Values[key]
	return v, ok
}

// Problems returns how many repetitions failed, and the last reason.
func (r *Row) Problems() (n int, last string) {
	for _, s := range r.Samples {
		if s.Problem != "" {
			n++
			last = s.Problem
		}
	}
	return n, last
}

// Write writes results.json.
func (r *Run) Write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Read reads results.json and refuses what it would misread.
func Read(path string) (*Run, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r Run
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("%s: its schema is %q, this program reads %q", path, r.Schema, Schema)
	}
	return &r, nil
}
