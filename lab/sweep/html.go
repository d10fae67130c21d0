package sweep

import (
	"embed"
	"encoding/json"
	"html/template"
	"io"
	"time"

	"ringlet/internal/uplot"
)

//go:embed web/report.html web/report.css web/report.js
var web embed.FS

// pageTemplate puts everything into one file, uPlot included. The page loads nothing: its policy forbids it.
var pageTemplate = template.Must(template.New("report.html").Funcs(template.FuncMap{
	"css": func(file string) template.CSS { return template.CSS(embedded(file)) },
	"js":  func(file string) template.JS { return template.JS(embedded(file)) },
	"uplot": func() charts {
		return charts{template.JS(uplot.Script), template.CSS(uplot.Style), uplot.License, uplot.Version}
	},
	"phases": func() template.JS { return template.JS(uplot.Phases) },
	"data":   func(d drawn) (template.JS, error) { b, err := json.Marshal(d); return template.JS(b), err },
	"short":  short,
	"when":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"add":    func(a, b int) int { return a + b },
}).ParseFS(web, "web/report.html"))

// charts is uPlot as the template wants it.
type charts struct {
	Script  template.JS
	Style   template.CSS
	License string
	Version string
}

// embedded reads what the compiler has put into the program.
func embedded(file string) string {
	text, err := web.ReadFile("web/" + file)
	if err != nil {
		return "" // no file of another name is asked for: TestThePageIsWhole
	}
	return string(text)
}

// writeHTML writes the report.
func writeHTML(w io.Writer, r *results) error { return pageTemplate.Execute(w, pageOf(r)) }
