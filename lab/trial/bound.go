package trial

import (
	"cmp"
	"fmt"
	"strings"
)

// Bound bounds the median of a figure, or of its ratio to another thing's figure in the same round.
type Bound struct {
	Path           string   `yaml:"path" json:"path,omitempty"`               // name of the bound; "" = Thing
	Thing          string   `yaml:"of" json:"of"`                             // name of the measured thing
	Figure         string   `yaml:"figure" json:"figure,omitempty"`           // of Thing
	ComparedWith   []string `yaml:"over" json:"over,omitempty"`               // others; the first measured one counts
	ComparedFigure string   `yaml:"over-figure" json:"over_figure,omitempty"` // figure of that other thing; "" = Figure
	Multiplier     float64  `yaml:"times" json:"times,omitempty"`             // factor on the figure; 0 = 1
	Unit           string   `yaml:"unit" json:"unit,omitempty"`               // "" = ×, for a ratio
	Least          *float64 `yaml:"least" json:"least,omitempty"`
	Most           *float64 `yaml:"most" json:"most,omitempty"` // exactly one of Least and Most is given
	Says           string   `yaml:"says" json:"says,omitempty"` // in words; the default is "{over}": the other thing

	// For a bound that is about a figure of the founding documents:
	AnsweredFigure   string `yaml:"answers" json:"answers,omitempty"`   // id of the figure; "" = about none
	Document         string `yaml:"document" json:"document,omitempty"` // the document's value, in words
	ReachedIsMatched bool   `yaml:"same" json:"same,omitempty"`         // reached means matched, not beaten
	Why              string `yaml:"why" json:"why,omitempty"`           // why the bound may not be reached, in a sentence
}

// Verdict is a bound with its result.
type Verdict struct {
	Path     string  `json:"path"`
	Target   string  `json:"target"`             // in words
	Measured *Spread `json:"measured,omitempty"` // nil: not measured
	Unit     string  `json:"unit"`               // of Measured; × for a ratio
	Reached  bool    `json:"reached"`            // by the median
}

// judge judges a bound. Measured is nil if nothing was measured.
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

// Judge judges each bound.
func Judge(bounds []Bound, r Rounds) []Verdict {
	out := []Verdict{} // JSON: a list, not null
	for _, b := range bounds {
		out = append(out, r.judge(b))
	}
	return out
}

// VerdictHead is the head of a table of verdicts.
var VerdictHead = []string{"verdict", "measured", "target", "path"}

// row is the verdict as a row of the table.
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

// VerdictRows are the rows of a table of verdicts.
func VerdictRows(all []Verdict) [][]string { return RowsOf(all, (*Verdict).row) }
