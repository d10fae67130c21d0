package sweep

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"ringlet/lab/trial"
	"ringlet/node/config"
)

// boundsOf expands each bound of the file into one bound for each run that it is about. A bound that names a series is
// about all runs of the series. If it compares them with another series, each run is compared with the run there that
// has the same varied values.
func boundsOf(doc *config.Document, s *Sweep, written []trial.Bound) []trial.Bound {
	for i, name := range s.References {
		run := slices.ContainsFunc(s.Cells, func(c Cell) bool { return c.ID == name })
		if run || slices.Contains(s.References[:i], name) {
			doc.AddProblem(fmt.Sprintf("references[%d]", i), "%q is named twice, or is the name of a run", name)
		}
	}
	var out []trial.Bound
	for i, b := range written {
		at := fmt.Sprintf("bounds[%d]", i)
		if (b.Least == nil) == (b.Most == nil) {
			doc.AddProblem(at, "give one of least and most")
		}
		for _, v := range []*float64{b.Least, b.Most, &b.Multiplier} {
			if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
				doc.AddProblem(at, "%g is no bound", *v)
			}
		}
		b.Figure = cmp.Or(b.Figure, "goodput_gbps")
		of := s.cellsNamed(b.Thing)
		if len(of) == 0 {
			doc.AddProblem(at+".of", "%q is no run, no series and no reference of this file", b.Thing)
		}
		for _, c := range of {
			one := b
			one.Thing, one.Path = c.ID, expandPath(b.Path, c)
			one.ComparedWith = nil
			for j, other := range b.ComparedWith {
				name, ok := s.findCounterpart(c, other)
				if !ok {
					doc.AddProblem(fmt.Sprintf("%s.over[%d]", at, j), "%q has nothing to compare %q with", other, c.ID)
				}
				one.ComparedWith = append(one.ComparedWith, name)
			}
			out = append(out, one)
		}
	}
	return out
}

// cellsNamed lists what a name in a bound stands for: a reference, a run, or all runs of a series.
func (s *Sweep) cellsNamed(name string) []*Cell {
	if slices.Contains(s.References, name) {
		return []*Cell{{ID: name}}
	}
	var out []*Cell
	for i := range s.Cells {
		if c := &s.Cells[i]; c.ID == name || c.Series == name {
			out = append(out, c)
		}
	}
	return out
}

// findCounterpart finds the run that a run is compared with.
func (s *Sweep) findCounterpart(c *Cell, name string) (string, bool) {
	all := s.cellsNamed(name)
	same := func(other *Cell) bool {
		return other.ID == name || !slices.ContainsFunc(c.Varied, func(v Value) bool {
			text, has := findValue(v.Key, other.Varied, other.Fixed)
			return has && text != v.Text
		})
	}
	i := slices.IndexFunc(all, same)
	if i < 0 {
		return name, false
	}
	return all[i].ID, true
}

// expandPath replaces keys in the name of a bound, such as "{transport}", by the run's values.
func expandPath(path string, c *Cell) string {
	for _, v := range c.Varied {
		path = strings.ReplaceAll(path, "{"+v.Key+"}", v.Text)
	}
	return path
}
