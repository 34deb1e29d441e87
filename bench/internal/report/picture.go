package report

import (
	"io"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A picture is a chart or a curve.
type picture interface {
	id() string // unique in a run
	height() vg.Length
	draw(canvas vg.CanvasSizer)
}

// fileName is the name of a picture's file, without the suffix.
func fileName(p picture) string {
	return strings.NewReplacer("/", "-", "=", "-", " ", "-", ",", "").Replace(p.id())
}

func svg(p picture, w io.Writer) error {
	canvas := vgsvg.New(chartWidth, p.height())
	p.draw(canvas)
	_, err := canvas.WriteTo(w)
	return err
}

func png(p picture, w io.Writer) error {
	canvas := vgimg.NewWith(vgimg.UseWH(chartWidth, p.height()), vgimg.UseDPI(110))
	p.draw(canvas)
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}
