package study

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"ringlet/sim"
)

// A Model answers studies: it reads its parameters, simulates, and returns results by name.
type Model struct {
	Name string
	Help string // one sentence
	Run  func(ctx context.Context, p *Params, env Env) (Outcome, error)
}

// Env is what the caller gives a model.
type Env struct {
	Seed       uint64
	Trace      *sim.Trace  // nil: no trace
	Details    *SimDetails // nil: not observed
	OnProgress func(now sim.Time, executed uint64)
}

// Limits are those of a run that ends at a time, with the caller's progress function.
func (e Env) Limits(until sim.Time) sim.Limits {
	return sim.Limits{Until: until, OnProgress: e.OnProgress}
}

// A Result of a model.
type Result struct {
	Name string
	Quantity
}

// A Plot of a model has curves, some with points that a document gives.
type Plot struct {
	Name   string
	X, Y   string // with their units
	LogX   bool
	LogY   bool
	Curves []Curve
}

// A Curve of a plot, from left to right.
type Curve struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
}

// An Outcome is a model's answer.
type Outcome struct {
	Results []Result
	Plots   []Plot
	Notes   []string      // warnings about this run: it was interrupted, a queue never became empty
	Events  uint64        // of the simulations, including all cases
	Cases   []CaseOutcome // in the order of the study
}

// CaseOutcome is a model's answer with the parameters of a case.
type CaseOutcome struct {
	What    string
	Results []Result
}

// Add adds a result.
func (o *Outcome) Add(name string, q Quantity) {
	o.Results = append(o.Results, Result{Name: name, Quantity: q})
}

// find returns the result of a name.
func (o *Outcome) find(name string) (Quantity, bool) {
	for _, r := range o.Results {
		if r.Name == name {
			return r.Quantity, true
		}
	}
	return Quantity{}, false
}

// Run has the model of a study answer. An error is about the file (a *config.InvalidError), or from the model.
func (s *Study) Run(ctx context.Context, models []Model, env Env) (Outcome, error) {
	i := slices.IndexFunc(models, func(m Model) bool { return m.Name == s.Model })
	if i < 0 {
		var names []string
		for _, m := range models {
			names = append(names, m.Name)
		}
		s.doc.AddProblem("model", "%q is none of the models: %s", s.Model, strings.Join(names, ", "))
		return Outcome{}, s.doc.Err()
	}
	if env.Seed == 0 {
		env.Seed = s.Seed
	}
	out, err := s.once(ctx, &models[i], env)
	if env.Details != nil {
		out.Plots = append(out.Plots, env.Details.plots()...)
	}
	env.Trace, env.Details = nil, nil // these are for the study's own parameters only
	for k := range s.Cases {
		if err != nil || ctx.Err() != nil {
			break
		}
		var o Outcome
		o, err = s.with(&s.Cases[k]).once(ctx, &models[i], env)
		out.Events += o.Events
		out.Cases = append(out.Cases, CaseOutcome{s.Cases[k].What, o.Results})
	}
	return out, err
}

// once runs the model.
func (s *Study) once(ctx context.Context, m *Model, env Env) (Outcome, error) {
	p := &Params{s}
	out, err := m.Run(ctx, p, env)
	if err == nil {
		err = p.Err()
	}
	if err != nil {
		return out, err
	}
	return out, s.checkUnread()
}

// Verdicts on an expectation.
const (
	VerdictHolds    = "holds"
	VerdictInRange  = "in range" // within the range of the cases: a value that no document gives decides it
	VerdictDiffers  = "differs"
	verdictNoResult = "no result" // the model has no such result
)

// A JudgedExpectation is an expectation with the result.
type JudgedExpectation struct {
	Name      string
	Expected  string
	Simulated string
	Range     string // the least and the most of all cases; "" if they are equal
	Deviation string // "" if there is nothing to compare
	Verdict   string
	From      string
	Cases     []JudgedCase
}

// A JudgedCase is the result of a case for an expectation.
type JudgedCase struct {
	What      string `json:"what"`
	Simulated string `json:"simulated"`
	Verdict   string `json:"verdict"`
}

// defaultTolerance is the tolerance if the file gives none.
const defaultTolerance = 0.10

// Judge compares an outcome with the study's expectations.
func (s *Study) Judge(out Outcome) []JudgedExpectation {
	var all []JudgedExpectation
	for _, e := range s.Expected {
		all = append(all, e.judgeCases(&out))
	}
	return all
}

// judgeCases judges an expectation by all cases: they agree, or the expected value is within their range.
func (e *Expectation) judgeCases(out *Outcome) JudgedExpectation {
	j := e.judge(out)
	least, is := out.find(e.Name)
	if len(out.Cases) == 0 || !is {
		return j
	}
	most, hold := least, 0
	if j.Verdict == VerdictHolds {
		hold++
	}
	for _, c := range out.Cases {
		other := Outcome{Results: c.Results}
		q, is := other.find(e.Name)
		if !is { // a case may compute less, such as a single scale
			continue
		}
		o := e.judge(&other)
		if o.Verdict == VerdictHolds {
			hold++
		}
		j.Cases = append(j.Cases, JudgedCase{c.What, o.Simulated, o.Verdict})
		if q.Value < least.Value {
			least = q
		} else if q.Value > most.Value {
			most = q
		}
	}
	if bound, _ := e.reference(out); bound != nil && least != most {
		j.Range = least.inUnit(bound.unit) + " to " + most.inUnit(bound.unit)
	}
	between := e.Is != nil && least.Value <= e.Is.Value && e.Is.Value <= most.Value
	switch {
	case hold == 1+len(j.Cases):
		j.Verdict = VerdictHolds
	case hold > 0 || between:
		j.Verdict = VerdictInRange
	default:
		j.Verdict = VerdictDiffers
	}
	return j
}

func (e *Expectation) judge(out *Outcome) JudgedExpectation {
	j := JudgedExpectation{
		Name:    e.Name,
		From:    e.From,
		Verdict: verdictNoResult,
	}
	got, is := out.find(e.Name)
	bound, says := e.reference(out)
	j.Expected = says
	if !is || bound == nil {
		return j
	}
	j.Simulated = got.inUnit(bound.unit)
	if got.Dimension != bound.Dimension {
		j.Verdict = VerdictDiffers
		return j
	}
	off := got.Value - bound.Value
	if bound.Value != 0 {
		j.Deviation = fmt.Sprintf("%+.1f %%", 100*off/math.Abs(bound.Value))
	}
	var holds bool
	switch {
	case e.Is != nil && e.Within != nil && e.Within.Dimension == Points:
		j.Deviation = fmt.Sprintf("%+.1f points", 100*off)
		holds = math.Abs(off) <= e.Within.Value && (bound.Value == 0 || (got.Value < 0) == (bound.Value < 0))
	case e.Is != nil:
		holds = math.Abs(off) <= e.tolerance()*math.Abs(bound.Value)
	case e.AtLeast != nil:
		holds = off >= 0
	case e.AtMost != nil:
		holds = off <= 0
	case e.Above != "":
		holds = off > 0
	default:
		holds = off < 0
	}
	j.Verdict = VerdictDiffers
	if holds {
		j.Verdict = VerdictHolds
	}
	return j
}

func (e *Expectation) tolerance() float64 {
	if e.Within == nil {
		return defaultTolerance
	}
	return e.Within.Value
}

// reference is the value to compare a result with, and its text for a reader.
func (e *Expectation) reference(out *Outcome) (*Quantity, string) {
	switch {
	case e.Is != nil && e.Within != nil:
		return e.Is, e.Is.String() + " ± " + e.Within.String()
	case e.Is != nil:
		return e.Is, e.Is.String()
	case e.AtLeast != nil:
		return e.AtLeast, "≥ " + e.AtLeast.String()
	case e.AtMost != nil:
		return e.AtMost, "≤ " + e.AtMost.String()
	}
	other, sign := e.Above, "> "
	if e.Below != "" {
		other, sign = e.Below, "< "
	}
	q, is := out.find(other)
	if !is {
		return nil, sign + other
	}
	return &q, sign + other
}
