package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"ringlet/sim/study"
)

// WriteOne writes the outcome of one study: its results, the expectations, and its curves as columns. If the run was
// cut short, WriteOne says so and judges nothing.
func WriteOne(w io.Writer, s *study.Study, out study.Outcome, cut, asJSON bool) error {
	var judged []study.JudgedExpectation
	if cut {
		out.Notes = append(out.Notes, verdictTruncated+
			": the results are those until the interruption, and are not judged")
	} else {
		judged = s.Judge(out)
	}
	if asJSON {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return e.Encode(struct {
			Model   string       `json:"model"`
			Results []jsonResult `json:"results"`
			Judged  []jsonJudged `json:"expected,omitempty"`
			Plots   []jsonPlot   `json:"plots,omitempty"`
			Notes   []string     `json:"notes,omitempty"`
			Events  uint64       `json:"simulated_events"`
		}{
			Model:   s.Model,
			Results: results(out),
			Judged:  expected(judged),
			Plots:   plots(out),
			Notes:   out.Notes,
			Events:  out.Events,
		})
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "model\t%s\n", s.Model)
	for _, r := range out.Results {
		fmt.Fprintf(t, "%s\t%s\n", r.Name, r.Quantity)
	}
	for _, j := range judged {
		fmt.Fprintf(t, "%s\texpected %s\t%s\t%s\n", j.Name, j.Expected, j.Verdict, j.Deviation)
		for _, c := range j.Cases {
			fmt.Fprintf(t, "  %s\t%s\t%s\n", c.What, c.Simulated, c.Verdict)
		}
	}
	for _, p := range out.Plots {
		for _, c := range p.Curves {
			fmt.Fprintf(t, "\n%s: %s\n%s\t%s\n", p.Name, c.Name, p.X, p.Y)
			for _, at := range c.Points {
				fmt.Fprintf(t, "%.6g\t%.6g\n", at[0], at[1])
			}
		}
	}
	for _, n := range out.Notes {
		fmt.Fprintf(t, "\n%s\n", n)
	}
	fmt.Fprintf(t, "simulated events\t%d\n", out.Events)
	return t.Flush()
}

// jsonPlot is a plot in JSON.
type jsonPlot struct {
	Name   string        `json:"name"`
	X      string        `json:"x"`
	Y      string        `json:"y"`
	Curves []study.Curve `json:"curves"`
}

func plots(out study.Outcome) []jsonPlot {
	var all []jsonPlot
	for _, p := range out.Plots {
		all = append(all, jsonPlot{
			Name:   p.Name,
			X:      p.X,
			Y:      p.Y,
			Curves: p.Curves,
		})
	}
	return all
}

func results(out study.Outcome) []jsonResult {
	var all []jsonResult
	for _, r := range out.Results {
		all = append(all, jsonResult{r.Name, r.Value, string(r.Dimension)})
	}
	return all
}

func expected(judged []study.JudgedExpectation) []jsonJudged {
	var all []jsonJudged
	for _, j := range judged {
		all = append(all, jsonJudged(j))
	}
	return all
}
