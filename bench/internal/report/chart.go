package report

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"

	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// A chart shows one figure of one table: a line a candidate, a mark at the median, a bar from the
// least to the largest repetition.
type chart struct {
	table  *result.Table
	figure result.Figure
	rows   []bar
	log    bool
}

// A bar is what is drawn of one candidate.
type bar struct {
	name, kind       string
	median, min, max float64
	label            string
	missing          bool
}

// Values this far apart get a log axis.
const wide = 30

// charts returns those of a table: a figure that all share needs none. The figures of a point are
// drawn as a part of its curve.
func charts(t *result.Table) []*chart {
	var out []*chart
	if t.Point != nil {
		return nil
	}
	for _, f := range t.Figures {
		if !f.Chart {
			continue
		}
		c := &chart{table: t, figure: f}
		least, most, some := math.Inf(1), 0.0, false
		for _, r := range t.Rows {
			b := bar{name: r.Candidate, kind: r.Kind}
			s, ok := r.Summary[f.Key]
			n, _ := r.Problems()
			switch {
			case ok:
				some = true
				b.median, b.min, b.max = s.Median, s.Min, s.Max
				b.label = Number(s.Median)
				if ratio, ok := r.Ratio[f.Key]; ok && r.Kind != "holdfast" {
					b.label += "  (" + Ratio(ratio.Median) + ")"
				}
				if n > 0 {
					b.label += fmt.Sprintf("  %d of %d runs failed", n, len(r.Samples))
				}
				if s.Min > 0 {
					least = min(least, s.Min)
				}
				most = max(most, s.Max)
			case n > 0:
				b.missing, b.label = true, "no run was completed"
			default:
				continue // not a figure of this candidate
			}
			c.rows = append(c.rows, b)
		}
		c.log = most > wide*least
		if some {
			out = append(out, c)
		}
	}
	return out
}

const (
	chartWidth = 8.2 * vg.Inch
	rowHeight  = 0.27 * vg.Inch
	around     = 1.65 * vg.Inch // title, axis and legend
)

func (c *chart) height() vg.Length { return around + rowHeight*vg.Length(len(c.rows)) }

// sans is the font of all text.
func sans(size vg.Length) font.Font {
	return font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size)
}

func (c *chart) id() string { return c.table.ID + "-" + c.figure.Key }

func (c *chart) draw(canvas vg.CanvasSizer) {
	p := newPlot(titleOf(c.figure) + "\n" + c.table.Title)
	names, kinds := make([]string, len(c.rows)), make([]string, len(c.rows))
	for i, r := range c.rows {
		names[len(c.rows)-1-i], kinds[i] = r.name, r.kind // the first on top
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(c.rows))-0.4
	p.Y.LineStyle.Width = 0
	c.scale(p)
	p.Add(grid{}, dots{c})

	frame(canvas, p, 12, c.axisTitle(), kinds)
}

// newPlot returns a plot without axes.
func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font = sans(12)
	p.Title.Padding = 6
	p.X.Tick.Label.Font, p.Y.Tick.Label.Font = sans(9), sans(10)
	return p
}

// titleOf says what was measured.
func titleOf(f result.Figure) string {
	name := strings.ToUpper(f.Name[:1]) + f.Name[1:]
	switch {
	case f.Unit == "/s":
		name += " per second"
	case strings.HasPrefix(f.Unit, "/"):
		name += " per " + f.Unit[1:]
	case f.Unit == "round trips":
		name += " in round trips"
	}
	return name
}

// measureOf says what the numbers of an axis are.
func measureOf(f result.Figure) string {
	var text string
	switch f.Better {
	case result.Lower:
		text = "less is better"
	case result.Higher:
		text = "more is better"
	default:
		text = f.Name
	}
	if f.Unit != "" && !strings.HasPrefix(f.Unit, "/") {
		text = f.Unit + ", " + text
	}
	return text
}

func (c *chart) axisTitle() string {
	text := measureOf(c.figure)
	if c.log {
		text += ", log scale"
	}
	return text + "; in brackets the ratio to holdfast"
}

// scale sets the axis so that all marks and their labels have room.
func (c *chart) scale(p *plot.Plot) {
	least, most, longest := math.Inf(1), 0.0, 0
	for _, r := range c.rows {
		if r.min > 0 {
			least = min(least, r.min)
		}
		most = max(most, r.max)
		longest = max(longest, len(r.label))
	}
	room := 0.10 + 0.0085*float64(longest) // of the axis, for the labels
	if !c.log {
		p.X.Min, p.X.Max = 0, max(most, 1e-9)/(1-min(room, 0.6))
		p.X.Tick.Marker = plot.TickerFunc(linearTicks)
		return
	}
	low := math.Floor(math.Log10(least) - 0.15)
	high := math.Log10(most)
	p.X.Min = math.Pow(10, low)
	p.X.Max = math.Pow(10, low+(high-low)/(1-min(room, 0.6)))
	p.X.Scale = plot.LogScale{}
	p.X.Tick.Marker = plot.TickerFunc(logTicks)
}

// logTicks has a label a decade.
func logTicks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(low)); math.Pow(10, e) <= high*1.0001; e++ {
		for d := 1.0; d < 10; d++ {
			v := d * math.Pow(10, e)
			if v < low*0.9999 || v > high*1.0001 {
				continue
			}
			t := plot.Tick{Value: v}
			if d == 1 {
				t.Label = decade(e)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

func decade(e float64) string {
	switch v := math.Pow(10, e); {
	case e < 0:
		return fmt.Sprintf("%.*f", int(-e), v)
	case e >= 6:
		return Number(v/1e6) + "M"
	default:
		return Whole(v)
	}
}

func linearTicks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			if ticks[i].Label = Number(ticks[i].Value); ticks[i].Value >= 1 && ticks[i].Value == math.Trunc(ticks[i].Value) {
				ticks[i].Label = Whole(ticks[i].Value)
			}
		}
	}
	return ticks
}
