package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"ringlet/lab/page"
	"ringlet/lab/trial"
	"ringlet/sim/study"
)

var heads = []string{"id", "place", "what", "document", "simulated", "deviation", "verdict", "real system"}

// rows are the rows of the table: one for each expectation, or one for a figure without expectations.
func rows(answers []Answer) [][]string {
	var all [][]string
	for _, a := range answers {
		real := realSystemText(a.Study)
		if len(a.Judged) == 0 {
			all = append(all, []string{a.Study.ID, a.Study.Place, a.Study.Title, "", a.missingReason(), "", a.Verdict, real})
			continue
		}
		for i, j := range a.Judged {
			row := []string{a.Study.ID, a.Study.Place, j.Name, j.Expected, simulatedText(&j), j.Deviation, j.Verdict, ""}
			if i == 0 {
				row[7] = real
			}
			all = append(all, row)
		}
	}
	return all
}

// simulatedText is the simulated value, with the range over all cases.
func simulatedText(j *study.JudgedExpectation) string {
	if j.Range == "" {
		return j.Simulated
	}
	return j.Simulated + " (" + j.Range + ")"
}

// missingReason says why there is no simulated value.
func (a *Answer) missingReason() string {
	switch {
	case a.Err != nil:
		return a.Err.Error()
	case a.Study.Missing != "":
		return a.Study.Missing
	}
	return ""
}

// realSystemText lists the measurements of the running system.
func realSystemText(s *study.Study) string {
	var all []string
	for _, m := range s.Measured {
		all = append(all, strings.TrimSpace(strings.Join([]string{m.What, m.Is, "(" + m.Verdict + ")"}, " ")))
	}
	return strings.Join(all, "; ")
}

// WriteText writes the table for a terminal.
func WriteText(w io.Writer, answers []Answer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(cells []string) {
		fmt.Fprintln(t, strings.Join([]string{cells[0], cells[2], cells[3], cells[4], cells[5], cells[6], cells[7]}, "\t"))
	}
	line(heads)
	var why []string // below the table: sentences would widen its columns
	for _, row := range rows(answers) {
		if row[6] == verdictFailed || row[6] == verdictUnknown {
			why = append(why, row[0]+": "+row[4])
			row[4] = ""
		}
		line(row)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, sentence := range why {
		if _, err := fmt.Fprintln(w, sentence); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, count(answers))
	return err
}

// jsonFigure is an answer in JSON.
type jsonFigure struct {
	ID       string            `json:"id"`
	Place    string            `json:"place"`
	Title    string            `json:"title"`
	Kind     string            `json:"kind"`
	Headline int               `json:"headline,omitempty"`
	Model    string            `json:"model,omitempty"`
	Verdict  string            `json:"verdict"`
	Why      string            `json:"why,omitempty"`
	Judged   []jsonJudged      `json:"expected,omitempty"`
	Results  []jsonResult      `json:"results,omitempty"`
	Notes    []string          `json:"notes,omitempty"`
	Events   uint64            `json:"simulated_events,omitempty"`
	Measured []jsonMeasurement `json:"measured,omitempty"`
}

type jsonJudged struct {
	Name      string `json:"name"`
	Expected  string `json:"document"`
	Simulated string `json:"simulated"`
	Range     string `json:"range,omitempty"`
	Deviation string `json:"deviation,omitempty"`
	Verdict   string `json:"verdict"`
	From      string `json:"from,omitempty"`

	Cases []study.JudgedCase `json:"cases,omitempty"`
}

type jsonResult struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
}

type jsonMeasurement struct {
	What    string `json:"what"`
	Is      string `json:"is"`
	Verdict string `json:"verdict"`
	Why     string `json:"why,omitempty"`
	By      string `json:"by"`
	On      string `json:"on"`
}

// WriteJSON writes one array; the same answers give the same bytes.
func WriteJSON(w io.Writer, answers []Answer) error {
	all := []jsonFigure{}
	for _, a := range answers {
		f := jsonFigure{
			ID:       a.Study.ID,
			Place:    a.Study.Place,
			Title:    a.Study.Title,
			Kind:     a.Study.Kind,
			Headline: a.Study.Headline,
			Model:    a.Study.Model,
			Verdict:  a.Verdict,
			Why:      a.missingReason(),
			Notes:    a.Outcome.Notes,
			Events:   a.Outcome.Events,
		}
		f.Judged, f.Results = expected(a.Judged), results(a.Outcome)
		for _, m := range a.Study.Measured {
			f.Measured = append(f.Measured, jsonMeasurement(m))
		}
		all = append(all, f)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(all)
}

// WritePage writes one HTML file: the table, the fitted and chosen parameters, and the documents' plots drawn again.
func WritePage(w io.Writer, answers []Answer) error {
	p := page.Page{
		Kind: "Ringlet simulator",
		Name: "figures of the founding documents",
		Lead: count(answers) + ".",
		Sections: []page.Section{
			{ID: "figures", Title: "Figures", Table: page.TextTable(heads, rows(answers), 1, 2, 4, 7)},
			{
				ID:    "parameters",
				Title: "Fitted and chosen parameters",
				Note: "No parameter is fitted to the figure it is judged by. A case is another value of a parameter that " +
					"no document gives: its figure is played with each, and judged by all. All other values come from the " +
					"documents; the files of the figures name the lines.",
				Table: page.TextTable([]string{"figure", "parameter", "is", "fitted to", "chosen, because"},
					undocumentedParams(answers), 4),
			},
		},
	}
	if section := measurements(answers); len(section.Table.Rows) > 0 {
		p.Sections = slices.Insert(p.Sections, 1, section)
	}
	for _, a := range answers {
		if section := figureSection(a); len(section.Figures) > 0 || section.Note != "" {
			p.Sections = append(p.Sections, section)
		}
	}
	return p.Write(w)
}

// measurements are the running system's figures, with the command that measured them, and why they are not better.
func measurements(answers []Answer) page.Section {
	section := page.Section{ID: "real", Title: "What the running system does"}
	var rows [][]string
	for _, a := range answers {
		for _, m := range a.Study.Measured {
			rows = append(rows, []string{a.Study.ID, m.What, m.Is, m.Verdict, m.Why})
			section.Note = fmt.Sprintf("All of it was measured by `%s`, on %s.", m.By, m.On)
		}
	}
	section.Table = page.TextTable([]string{"figure", "what", "it is", "verdict", "why not better"}, rows, 1, 2, 3, 4)
	return section
}

// undocumentedParams lists the parameters that no document gives.
func undocumentedParams(answers []Answer) [][]string {
	var all [][]string
	for _, a := range answers {
		for _, p := range a.Study.Params {
			if p.From == "" {
				all = append(all, []string{a.Study.ID, p.Name, p.Is, p.Fitted, p.Chosen})
			}
		}
		for _, c := range a.Study.Cases {
			for _, p := range c.Params {
				all = append(all, []string{a.Study.ID, p.Name, p.Is, p.Fitted, "a case: " + c.What})
			}
		}
	}
	return all
}

// figureSection is the section of a figure: its plots with the document's points, and the reading of its text.
func figureSection(a Answer) page.Section {
	section := page.Section{
		ID:    a.Study.ID,
		Title: a.Study.ID + ": " + a.Study.Title,
		Note:  strings.TrimSpace(a.Study.Reading + " " + a.Study.Missing + " " + strings.Join(a.Outcome.Notes, " ")),
	}
	for _, plot := range a.Outcome.Plots {
		f := page.Figure{
			Title: plot.Name,
			X:     page.Axis{Label: plot.X, Log: plot.LogX},
			Y:     page.Axis{Label: plot.Y, Log: plot.LogY},
		}
		for _, c := range append(plot.Curves, documentCurves(a.Study, plot)...) {
			curve := page.Curve{Name: c.Name}
			for _, at := range c.Points {
				curve.Points = append(curve.Points, page.Point{X: at[0], Spread: trial.Spread{
					Median: at[1],
					Min:    at[1],
					Max:    at[1],
					N:      1,
				}})
			}
			f.Curves = append(f.Curves, curve)
		}
		section.Figures = append(section.Figures, f)
	}
	return section
}

// documentCurves are the document's points for a plot, in the plot's own unit.
func documentCurves(s *study.Study, plot study.Plot) []study.Curve {
	c := study.Curve{Name: document(s.Place)}
	for _, e := range s.Expected {
		if e.Plot == plot.Name && e.Is != nil {
			c.Points = append(c.Points, [2]float64{e.X, e.Is.Number()})
		}
	}
	if len(c.Points) == 0 {
		return nil
	}
	return []study.Curve{c}
}

// document is the short name of the document: "L1-farm" of "L1-farm §5.1.4".
func document(place string) string { name, _, _ := strings.Cut(place, " "); return name }
