package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// A curve shows one figure of several tables: a line a candidate, over the number that differs
// between the tables. Both axes are logarithmic.
type curve struct {
	point  *result.Point // the first
	figure result.Figure
	places []float64 // of all points, in order
	lines  []line
}

// A line is what is drawn of one candidate.
type line struct {
	name, kind string
	points     []spot
}

// A spot is a candidate's figure at a place.
type spot struct{ at, median, min, max float64 }

// curves returns those that a table begins: a curve is shown at the first of its points.
func curves(run *result.Run, first *result.Table) []*curve {
	if first.Point == nil {
		return nil
	}
	var tables []*result.Table
	for _, t := range run.Tables {
		if t.Point != nil && t.Point.Curve == first.Point.Curve {
			tables = append(tables, t)
		}
	}
	if tables[0] != first {
		return nil
	}
	var out []*curve
	for _, f := range first.Figures {
		if !f.Chart {
			continue
		}
		c := &curve{point: first.Point, figure: f}
		for _, t := range tables {
			c.add(t)
		}
		if len(c.places) > 0 {
			slices.Sort(c.places)
			out = append(out, c)
		}
	}
	return out
}

// add adds the figures of a table. Zero has no place on a log axis.
func (c *curve) add(t *result.Table) {
	for _, r := range t.Rows {
		s, ok := r.Summary[c.figure.Key]
		if !ok || s.Min <= 0 {
			continue
		}
		i := slices.IndexFunc(c.lines, func(l line) bool { return l.name == r.Candidate })
		if i < 0 {
			i = len(c.lines)
			c.lines = append(c.lines, line{name: r.Candidate, kind: r.Kind})
		}
		c.lines[i].points = append(c.lines[i].points, spot{t.Point.At, s.Median, s.Min, s.Max})
		if !slices.Contains(c.places, t.Point.At) {
			c.places = append(c.places, t.Point.At)
		}
	}
}

func (c *curve) id() string { return c.point.Curve + "-" + c.figure.Key }

func (c *curve) height() vg.Length { return 4.6 * vg.Inch }

func (c *curve) draw(canvas vg.CanvasSizer) {
	p := newPlot(titleOf(c.figure) + "\n" + c.point.Curve)
	low, high := math.Inf(1), 0.0
	for _, l := range c.lines {
		for _, s := range l.points {
			low, high = min(low, s.min), max(high, s.max)
		}
	}
	p.Y.Min, p.Y.Max, p.Y.Scale, p.Y.Tick.Marker = low/1.2, high*1.2, plot.LogScale{}, plot.TickerFunc(fineTicks)
	if c.places[0] > 0 {
		p.X.Scale = plot.LogScale{}
	}
	last := c.places[len(c.places)-1]
	p.X.Min, p.X.Max = c.places[0]/1.15, last*1.15
	p.X.Tick.Marker = plot.TickerFunc(func(float64, float64) []plot.Tick {
		ticks := make([]plot.Tick, len(c.places))
		for i, v := range c.places {
			ticks[i] = plot.Tick{Value: v, Label: Whole(v)}
		}
		return ticks
	})
	p.Add(grid{both: true}, strokes{c})
	kinds := make([]string, len(c.lines))
	for i, l := range c.lines {
		kinds[i] = l.kind
	}
	frame(canvas, p, namesWidth, c.point.Over+"; upwards: "+measureOf(c.figure)+"; log scales", kinds)
}

// fineTicks has a label at 1, 2 and 5 of each decade.
func fineTicks(low, high float64) []plot.Tick {
	ticks := logTicks(low, high)
	for i := range ticks {
		v := ticks[i].Value
		e := math.Floor(math.Log10(v) + 1e-9)
		if d := math.Round(v / math.Pow(10, e)); d == 2 || d == 5 {
			ticks[i].Label = strings.Replace(decade(e), "1", strconv.Itoa(int(d)), 1)
		}
	}
	return ticks
}

// The names of the lines stand to the right of them.
const (
	namesWidth = 1.45 * vg.Inch
	nameHeight = 11 // the least distance
)

// strokes draws the lines.
type strokes struct{ *curve }

func (s strokes) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	type name struct {
		line
		ends, at vg.Length
	}
	var names []name
	for _, l := range slices.Backward(s.lines) { // the first above the others
		look := lookOf(l.kind)
		stroke := draw.LineStyle{Color: look.color, Width: 1}
		if l.kind == "holdfast" {
			stroke.Width = 2.2
		}
		slices.SortFunc(l.points, func(a, b spot) int { return int(a.at - b.at) })
		var path []vg.Point
		for _, q := range l.points {
			at := vg.Point{X: x(q.at), Y: y(q.median)}
			path = append(path, at)
			c.StrokeLine2(draw.LineStyle{Color: look.color, Width: 0.8}, at.X, y(q.min), at.X, y(q.max))
			c.DrawGlyph(draw.GlyphStyle{Color: look.color, Radius: 3, Shape: look.shape}, at)
		}
		c.StrokeLines(stroke, path)
		end := path[len(path)-1].Y
		names = append(names, name{l, end, end})
	}
	slices.SortFunc(names, func(a, b name) int { return cmp.Compare(a.ends, b.ends) })
	for i := range names {
		if i > 0 {
			names[i].at = max(names[i].at, names[i-1].at+nameHeight)
		}
	}
	for i, top := len(names)-1, c.Max.Y; i >= 0; i-- {
		names[i].at = min(names[i].at, top)
		top = names[i].at - nameHeight
	}
	for _, n := range names {
		look := lookOf(n.kind)
		last := n.points[len(n.points)-1]
		from := vg.Point{X: x(last.at) + 4, Y: n.ends}
		to := vg.Point{X: c.Max.X + 8, Y: n.at}
		c.StrokeLines(draw.LineStyle{Color: look.color, Width: 0.4}, []vg.Point{from, to})
		st := style(9, ink)
		if n.kind == "holdfast" {
			st.Font.Weight = 2 // bold
		}
		c.FillText(st, vg.Point{X: to.X + 3, Y: to.Y}, n.name)
	}
}
