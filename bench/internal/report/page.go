package report

import (
	"bytes"
	_ "embed" // the page
	"html/template"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/result"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"cell": cell, "median": median, "busy": busy,
	"verdictTitle": func() string { return verdictTitle }, "verdictNote": func() string { return verdictNote },
}).Parse(pageText))

// Write writes report.html and a folder of charts, each as SVG and as PNG.
func Write(dir string, run *result.Run) error {
	folder := filepath.Join(dir, "charts")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, t := range run.Tables {
		for _, p := range pictures(run, t) {
			for suffix, write := range map[string]func(picture, io.Writer) error{".svg": svg, ".png": png} {
				var b bytes.Buffer
				if err := write(p, &b); err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(folder, fileName(p)+suffix), b.Bytes(), 0o644); err != nil {
					return err
				}
			}
		}
	}
	f, err := os.Create(filepath.Join(dir, "report.html"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := Page(f, run); err != nil {
		return err
	}
	return f.Close()
}

// pictures returns those that are shown with a table.
func pictures(run *result.Run, t *result.Table) (all []picture) {
	for _, c := range curves(run, t) {
		all = append(all, c)
	}
	for _, c := range charts(t) {
		all = append(all, c)
	}
	return all
}

// Page writes the whole report as one page that needs nothing else.
func Page(w io.Writer, run *result.Run) error {
	type problem struct {
		Candidate string
		N, Of     int
		Why       string
	}
	type section struct {
		*result.Table
		Charts   []template.HTML
		Curve    string // that begins here
		Curves   []template.HTML
		Main     []result.Figure // those with a chart
		Problems []problem
	}
	data := struct {
		*result.Run
		Took     time.Duration
		Modules  []string
		Verdicts []verdict
		Sections []section
	}{Run: run, Verdicts: verdicts(run), Took: time.Duration(run.Seconds) * time.Second}
	for _, m := range slices.Sorted(maps.Keys(run.Versions)) {
		data.Modules = append(data.Modules, m+" "+run.Versions[m])
	}
	for _, t := range run.Tables {
		s := section{Table: t}
		for _, f := range t.Figures {
			if f.Chart {
				s.Main = append(s.Main, f)
			}
		}
		for _, p := range pictures(run, t) {
			var b bytes.Buffer
			if err := svg(p, &b); err != nil {
				return err
			}
			// The page is HTML: an XML declaration has no place in it.
			text := b.Bytes()
			if i := bytes.Index(text, []byte("<svg")); i > 0 {
				text = text[i:]
			}
			if _, ok := p.(*curve); ok {
				s.Curve, s.Curves = t.Point.Curve, append(s.Curves, template.HTML(text))
				continue
			}
			s.Charts = append(s.Charts, template.HTML(text))
		}
		for _, r := range t.Rows {
			if n, why := r.Problems(); n > 0 {
				s.Problems = append(s.Problems, problem{r.Candidate, n, len(r.Samples), why})
			}
		}
		data.Sections = append(data.Sections, s)
	}
	return page.Execute(w, data)
}
