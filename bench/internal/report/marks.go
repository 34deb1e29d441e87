package report

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A look is the color and the shape of a kind. The colors are from the set of Okabe and Ito, which
// people with any colour vision can tell apart; the shapes do it without colour.
type look struct {
	kind, says string
	color      color.Color
	shape      draw.GlyphDrawer
}

var looks = []look{
	{"holdfast", "holdfast", color.RGBA{0, 114, 178, 255}, draw.CircleGlyph{}},
	{"waker", "same scripts, other waking", color.RGBA{230, 159, 0, 255}, draw.PyramidGlyph{}},
	{"peer", "other libraries", color.RGBA{213, 94, 0, 255}, draw.BoxGlyph{}},
	{"ceiling", "ceilings", color.RGBA{90, 90, 90, 255}, diamond},
	{"", "other ways", color.RGBA{0, 158, 115, 255}, wedge}, // of all other kinds
}

var (
	paper = color.White
	ink   = color.RGBA{40, 40, 40, 255}
	pale  = color.RGBA{226, 226, 226, 255}
)

func lookOf(kind string) look {
	for _, l := range looks {
		if l.kind == kind {
			return l
		}
	}
	return looks[len(looks)-1]
}

func style(size vg.Length, c color.Color) text.Style {
	return text.Style{Color: c, Font: sans(size), XAlign: draw.XLeft, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler}
}

// A polygon is a filled shape. Its corners are in radii.
type polygon []vg.Point

var (
	diamond = polygon{{X: -1.2}, {Y: 1.2}, {X: 1.2}, {Y: -1.2}}
	wedge   = polygon{{X: -1.2, Y: 0.84}, {X: 1.2, Y: 0.84}, {Y: -1.2}} // points down
)

func (g polygon) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	var p vg.Path
	p.Move(at.Add(g[0].Scale(s.Radius)))
	for _, corner := range g[1:] {
		p.Line(at.Add(corner.Scale(s.Radius)))
	}
	p.Close()
	c.SetColor(s.Color)
	c.Fill(p)
}

// grid draws a line at each labelled tick of the level axis, or of both.
type grid struct{ both bool }

func (g grid) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	line := draw.LineStyle{Color: pale, Width: 0.6}
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if t.Label != "" {
			c.StrokeLine2(line, x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
		}
	}
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if g.both && t.Label != "" {
			c.StrokeLine2(line, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
		}
	}
}

// dots draws the rows.
type dots struct{ *chart }

func (d dots) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, r := range d.rows {
		at := y(float64(len(d.rows) - 1 - i))
		l := lookOf(r.kind)
		if r.missing {
			c.FillText(style(9, ink), vg.Point{X: c.Min.X + 8, Y: at}, r.label)
			continue
		}
		place := func(v float64) vg.Length {
			if d.log && v < p.X.Min { // zero has no place on a log axis
				return c.Min.X
			}
			return x(v)
		}
		median, low, high := place(r.median), place(r.min), place(r.max)
		c.StrokeLine2(draw.LineStyle{Color: l.color, Width: 0.8, Dashes: []vg.Length{1, 2}}, c.Min.X, at, median, at)
		line := draw.LineStyle{Color: l.color, Width: 1.6}
		c.StrokeLine2(line, low, at, high, at)
		for _, end := range []vg.Length{low, high} {
			c.StrokeLine2(line, end, at-3.5, end, at+3.5)
		}
		c.DrawGlyph(draw.GlyphStyle{Color: l.color, Radius: 4, Shape: l.shape}, vg.Point{X: median, Y: at})
		s := style(9, ink)
		if r.kind == "holdfast" {
			s.Font.Weight = 2 // bold
		}
		c.FillText(s, vg.Point{X: max(high, median) + 9, Y: at + 1}, r.label)
	}
}

// frame draws a plot, the title below it and the legend of the kinds that are there. names is the
// room to the right of the plot.
func frame(canvas vg.CanvasSizer, p *plot.Plot, names vg.Length, below string, kinds []string) {
	area := draw.New(canvas)
	area.SetColor(paper)
	area.Fill(area.Rectangle.Path())
	p.Draw(draw.Crop(area, 4, -names, 0.52*vg.Inch, -6))
	// Not the plot's own label: it would take its width off the axis.
	title := style(10, ink)
	title.XAlign = draw.XCenter
	area.FillText(title, vg.Point{X: area.Center().X, Y: 0.42 * vg.Inch}, below)
	legend(draw.Crop(area, 0.2*vg.Inch, 0, 0.05*vg.Inch, 0), kinds)
}

// legend says what the marks mean.
func legend(area draw.Canvas, kinds []string) {
	at := vg.Point{X: area.Min.X, Y: area.Min.Y + 8}
	for _, l := range looks {
		if !slices.ContainsFunc(kinds, func(kind string) bool { return lookOf(kind).kind == l.kind }) {
			continue
		}
		area.DrawGlyph(draw.GlyphStyle{Color: l.color, Radius: 4, Shape: l.shape}, at)
		s := style(9, ink)
		area.FillText(s, vg.Point{X: at.X + 8, Y: at.Y}, l.says)
		at.X += 8 + s.Width(l.says) + 32
	}
	s := style(9, ink)
	area.FillText(s, vg.Point{X: at.X, Y: at.Y}, "mark: median, bar: all runs")
}
