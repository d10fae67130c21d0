package trial

import (
	"cmp"
	"fmt"
	"strings"
)

// Bound is what the median of a figure must be, or that of its ratio to another thing's figure of the same round.
type Bound struct {
	Path           string   `yaml:"path" json:"path,omitempty"`               // what it is called; "" = Thing
	Thing          string   `yaml:"of" json:"of"`                             // the thing
	Figure         string   `yaml:"figure" json:"figure,omitempty"`           // of it
	ComparedWith   []string `yaml:"over" json:"over,omitempty"`               // compared with the first that was measured
	ComparedFigure string   `yaml:"over-figure" json:"over_figure,omitempty"` // of that; "" = Figure
	Multiplier     float64  `yaml:"times" json:"times,omitempty"`             // the figure is taken so many times; 0 = once
	Unit           string   `yaml:"unit" json:"unit,omitempty"`               // "" = × of a ratio
	Least          *float64 `yaml:"least" json:"least,omitempty"`
	Most           *float64 `yaml:"most" json:"most,omitempty"` // one of the two is given
	Says           string   `yaml:"says" json:"says,omitempty"` // in words; by default "{over}": the other

	// Of a bound that is about a figure of the founding documents:
	AnsweredFigure   string `yaml:"answers" json:"answers,omitempty"`   // its id; "" = about none
	Document         string `yaml:"document" json:"document,omitempty"` // what the document has, in words
	ReachedIsMatched bool   `yaml:"same" json:"same,omitempty"`         // who reaches it matches the document, and does not beat it
	Why              string `yaml:"why" json:"why,omitempty"`           // in a sentence, why it may not be reached
}

// Verdict is a bound, and what came of it.
type Verdict struct {
	Path     string  `json:"path"`
	Target   string  `json:"target"`             // in words
	Measured *Spread `json:"measured,omitempty"` // nil: not measured
	Unit     string  `json:"unit"`               // of Measured; × is a ratio
	Reached  bool    `json:"reached"`            // by the median
}

// judge says what came of a bound. One for which nothing was measured has no figure.
func (r Rounds) judge(b Bound) Verdict {
	values, over := r.values(b.Thing, b.Figure), ""
	if len(b.ComparedWith) > 0 {
		over = b.ComparedWith[0]
		for i := len(b.ComparedWith) - 1; i >= 0; i-- {
			if r.Measured(b.ComparedWith[i]) {
				over = b.ComparedWith[i]
			}
		}
		values = r.ratios(b.Thing, b.Figure, over, cmp.Or(b.ComparedFigure, b.Figure))
		b.Unit, b.Says = cmp.Or(b.Unit, "×"), cmp.Or(b.Says, "{over}")
	}
	var words string
	switch {
	case b.Least != nil:
		words = fmt.Sprintf("≥ %g %s", *b.Least, b.Unit)
	case b.Most != nil:
		words = fmt.Sprintf("≤ %g %s", *b.Most, b.Unit)
	}
	if b.Says != "" && !strings.HasPrefix(b.Says, ",") {
		words += " "
	}
	v := Verdict{
		Path:   cmp.Or(b.Path, b.Thing),
		Target: words + strings.ReplaceAll(b.Says, "{over}", over),
		Unit:   b.Unit,
	}
	if len(values) > 0 {
		s := SpreadOf(values).Scaled(cmp.Or(b.Multiplier, 1))
		v.Measured = &s
		v.Reached = (b.Least == nil || s.Median >= *b.Least) && (b.Most == nil || s.Median <= *b.Most)
	}
	return v
}

// Judge says what came of each bound.
func Judge(bounds []Bound, r Rounds) []Verdict {
	out := []Verdict{} // JSON: a list, not null
	for _, b := range bounds {
		out = append(out, r.judge(b))
	}
	return out
}

// VerdictHead are the heads of a table of verdicts.
var VerdictHead = []string{"verdict", "measured", "target", "path"}

// row is the verdict in a table.
func (v Verdict) row() []string {
	verdict, measured := "not reached", NoFigure
	switch {
	case v.Measured == nil:
		verdict = "not measured"
	case v.Reached:
		verdict = "reached"
	}
	if v.Measured != nil {
		format := "%.2f"
		if v.Unit == "B" {
			format = "%.0f"
		}
		measured = v.Measured.Text(format, 1)
	}
	return []string{verdict, measured, v.Target, v.Path}
}

// VerdictRows are all of them.
func VerdictRows(all []Verdict) [][]string { return RowsOf(all, (*Verdict).row) }
