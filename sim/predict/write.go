package predict

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"ringlet/lab/page"
	"ringlet/lab/trial"
)

var heads = []string{"nodes", "events/s", "Gbit/s", "of the ports", "latency / ms", "99 % / ms", "barrier / ms",
	"in barriers", "processors", "binds", "twice as much of it"}

// row is a line of the table.
func (p *Prediction) row() []string {
	gains := make([]string, len(p.Gains))
	for i, g := range p.Gains {
		gains[i] = fmt.Sprintf("%s %+.0f %%", g.Resource, 100*g.RateRise)
	}
	return []string{
		fmt.Sprint(p.Nodes),
		fmt.Sprintf("%.0f", p.Rate),
		trial.Short(p.Gbps),
		fmt.Sprintf("%.1f %%", 100*p.Efficiency),
		trial.Short(1e3 * p.Latency),
		trial.Short(1e3 * p.P99),
		trial.Short(1e3 * p.BarrierTime),
		fmt.Sprintf("%.0f %%", 100*p.BarrierShare),
		fmt.Sprintf("%.0f %%", 100*p.ProcessorShare),
		p.Bottleneck,
		strings.Join(gains, ", "),
	}
}

// WriteText writes a line for each number of nodes.
func WriteText(out io.Writer, all []*Prediction) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(heads, "\t"))
	for _, p := range all {
		fmt.Fprintln(w, strings.Join(p.row(), "\t"))
	}
	return w.Flush()
}

// oneHostWarning warns about predictions for one host: their error is large.
const oneHostWarning = "nodes on one host are predicted up to several times too fast: docs/predict.md says how far"

// Warning says why not to trust the predictions; "" if no reason is known.
func (f *File) Warning() string {
	if f.Hosts.Hosts == 1 {
		return oneHostWarning
	}
	return ""
}

// WritePage writes one HTML file: the curves against the number of nodes, and the table.
func (f *File) WritePage(out io.Writer, all []*Prediction, costs *Calibration) error {
	var rows [][]string
	for _, p := range all {
		rows = append(rows, p.row())
	}
	lead := "What a cluster will do, by the simulator; nothing here was measured. " + costs.String()
	if warning := f.Warning(); warning != "" {
		lead = "Do not believe this: " + warning + ". " + lead
	}
	p := page.Page{
		Kind: "Ringlet prediction",
		Name: f.Title,
		Lead: lead,
		Sections: []page.Section{
			{ID: "figures", Title: "Against the number of nodes", Figures: drawFigures(all)},
			{ID: "table", Title: "Table", Table: page.TextTable(heads, rows, 10)},
		},
	}
	return p.Write(out)
}

// drawFigures makes the figures.
func drawFigures(all []*Prediction) []page.Figure {
	var figures []page.Figure
	for _, y := range []struct {
		title, label string
		of           func(p *Prediction) float64
	}{
		{"Rate", "events per second", func(p *Prediction) float64 { return p.Rate }},
		{"Built", "Gbit/s", func(p *Prediction) float64 { return p.Gbps }},
		{"Efficiency", "share of the ports", func(p *Prediction) float64 { return p.Efficiency }},
		{"Latency", "median, ms", func(p *Prediction) float64 { return 1e3 * p.Latency }},
	} {
		fig := page.Figure{
			Title: y.title,
			X:     page.Axis{Label: "nodes", Log: true},
			Y:     page.Axis{Label: y.label},
		}
		curve := page.Curve{Name: "predicted"}
		for _, p := range all {
			v := y.of(p)
			curve.Points = append(curve.Points, page.Point{X: float64(p.Nodes), Spread: trial.Spread{
				Median: v,
				Min:    v,
				Max:    v,
				N:      1,
			}})
		}
		fig.Curves = []page.Curve{curve}
		figures = append(figures, fig)
	}
	return figures
}
