package page

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"os"
	"strings"
	"time"

	"ringlet/internal/safeopen"
	"ringlet/internal/uplot"
	"ringlet/lab/trial"
)

// A Page is the content of one HTML file. The template writes its words and tables, the script draws its figures.
type Page struct {
	Kind     string // such as "Ringlet sweep"
	Name     string
	Lead     string // what was measured and when, in a sentence or two
	Sections []Section
}

// A Section of a page. Empty fields are left out. The script gets the fields that are in its JSON.
type Section struct {
	ID        string     `json:"-"` // for links
	Title     string     `json:"-"`
	Note      string     `json:"-"`
	Figures   []Figure   `json:"figures,omitempty"`
	Timelines []Timeline `json:"timelines,omitempty"`
	Table     Table      `json:"-"`
	Ran       []Ran      `json:"-"`
	Text      string     `json:"-"` // verbatim, such as a file
}

// A Table has a row for each measured item.
type Table struct {
	Heads []string
	Rows  [][]Cell
}

// Cell is a median with its spread in small print, or words.
type Cell struct {
	Text  string
	Small string
	Words bool // may be broken into lines
}

// SpreadCell writes a spread into a cell: the median, the least and the most if they differ, and the interval of the
// median if there is one.
func SpreadCell(s trial.Spread) Cell {
	if s.N == 0 {
		return Cell{Text: trial.NoFigure}
	}
	c := Cell{Text: trial.Short(s.Median)}
	if s.Min < s.Max {
		c.Small = trial.Short(s.Min) + "–" + trial.Short(s.Max)
		if s.MedianInterval != nil {
			c.Small += "; 95 %: " + trial.Short(s.MedianInterval.Low) + "–" + trial.Short(s.MedianInterval.High)
		}
	}
	return c
}

// TextTable makes a table of texts; the columns in words may be broken into lines.
func TextTable(heads []string, rows [][]string, words ...int) Table {
	t := Table{Heads: heads}
	for _, row := range rows {
		cells := make([]Cell, len(row))
		for i, text := range row {
			cells[i].Text = text
		}
		for _, i := range words {
			cells[i].Words = true
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// texts are the rows of a table for a terminal.
func (t *Table) texts() [][]string {
	return trial.RowsOf(t.Rows, func(row *[]Cell) []string {
		var out []string
		for _, c := range *row {
			if c.Small != "" {
				c.Text += " (" + c.Small + ")"
			}
			out = append(out, c.Text)
		}
		return out
	})
}

// WriteText writes tables and texts for a terminal.
func WriteText(w io.Writer, sections []Section) error {
	for i := range sections {
		s := &sections[i]
		title := s.Title
		if s.Note != "" {
			title += ": " + s.Note
		}
		if err := trial.Table(w, title, s.Table.Heads, s.Table.texts()); err != nil {
			return err
		}
		if s.Text != "" {
			fmt.Fprintf(w, "\n%s\n  %s\n", title, strings.ReplaceAll(s.Text, "\n", "\n  "))
		}
	}
	return nil
}

// Ran is a machine, and when it began to measure.
type Ran struct {
	Started time.Time
	Machine
}

// A Figure is what the script draws.
type Figure struct {
	Title  string  `json:"title"`
	Note   string  `json:"note,omitempty"`
	X      Axis    `json:"x"`
	Y      Axis    `json:"y"`
	Bars   bool    `json:"bars,omitempty"` // one curve, a bar for each tick
	Curves []Curve `json:"curves"`
}

// Axis of a figure.
type Axis struct {
	Label string `json:"label"` // with the unit
	Log   bool   `json:"log,omitempty"`
	// Ticks are, of x, its values with their positions and labels; without them x is a scale of numbers.
	Ticks []Tick `json:"ticks,omitempty"`
}

// Tick is a value on an axis.
type Tick struct {
	At        float64 `json:"at"`
	Label     string  `json:"label"`
	Elsewhere bool    `json:"elsewhere,omitempty"` // published, measured on another machine: its bar is hatched
}

// Curve is one curve of a figure, or all bars of a figure of bars.
type Curve struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"` // from left to right
}

// Point of a curve.
type Point struct {
	X float64 `json:"x"`
	trial.Spread
}

// Timeline shows what each readout unit did in the last phases of one run.
type Timeline struct {
	Title string `json:"title"`
	RUs   int    `json:"rus"`
	// RU, begin, sent, released (µs from the left end), BU (-1 = nothing to send), MEP: an array, as there are many
	Phases [][6]float64 `json:"phases"`
	Span   float64      `json:"span"` // µs
}

//go:embed web/report.html web/report.css web/report.js
var webFiles embed.FS

// pageTemplate writes everything into one file, with uPlot. The page's policy forbids it to load anything.
var pageTemplate = template.Must(template.New("report.html").Funcs(template.FuncMap{
	"css": func(file string) template.CSS { return template.CSS(embedded(file)) },
	"js":  func(file string) template.JS { return template.JS(embedded(file)) },
	"uplot": func() charts {
		return charts{
			Script:  template.JS(uplot.Script),
			Style:   template.CSS(uplot.Style),
			License: uplot.License,
			Version: uplot.Version,
		}
	},
	"phases": func() template.JS { return template.JS(uplot.PhasesScript) },
	"data":   func(p []Section) (template.JS, error) { b, err := json.Marshal(p); return template.JS(b), err },
	"short":  trial.Short,
	"when":   FormatTime,
}).ParseFS(webFiles, "web/report.html"))

// charts is uPlot for the template.
type charts struct {
	Script  template.JS
	Style   template.CSS
	License string
	Version string
}

// embedded reads a file that is part of the program.
func embedded(file string) string {
	text, err := webFiles.ReadFile("web/" + file)
	if err != nil {
		return "" // the template names only embedded files: TestThePageIsWhole
	}
	return string(text)
}

// FormatTime formats a time for a page.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Write writes the file.
func (p *Page) Write(w io.Writer) error { return pageTemplate.Execute(w, p) }

// UnsavedSuffix ends the name of a file while Save writes it.
const UnsavedSuffix = ".part"

// Save writes a file atomically: a reader finds the old file, if there is one, or the complete new one.
func Save(path string, text []byte) error {
	temp := path + UnsavedSuffix
	if err := safeopen.WriteNoFollow(temp, bytes.NewReader(text), 0o666); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
