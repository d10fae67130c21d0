package trial

import (
	"cmp"
	"fmt"
	"math"
	"strings"
)

// Answers are what a sweep found about figures of the founding documents: answers.json in the directory of the sweep.
// The models' figures show them beside their own results.
type Answers struct {
	Command    string   `json:"by"` // the command
	Conditions string   `json:"on"` // machine, rounds, load and day
	Answers    []Answer `json:"answers"`
}

// Answer is the measurement for one figure of a document.
type Answer struct {
	FigureID     string  `json:"figure"`             // its id, such as F26
	What         string  `json:"what"`               // what was measured
	Document     string  `json:"document,omitempty"` // the document's value, in words
	MeasuredText string  `json:"is"`                 // the median with its unit, and the least and the most
	Measured     *Spread `json:"measured,omitempty"` // nil: not measured
	Unit         string  `json:"unit,omitempty"`
	Verdict      string  `json:"verdict"` // one of the constants
	Why          string  `json:"why,omitempty"`
}

// Text says what was measured, with the document's value.
func (a *Answer) Text() string {
	if a.Document == "" {
		return a.What
	}
	return a.What + ", where the document has " + a.Document
}

// Verdicts on a figure that the running system answers.
const (
	beaten      = "beaten"
	matched     = "matched" // as good as the document's; for a bound that equals the figure
	notReached  = "not reached"
	notMeasured = "not measured"
)

// Answers lists the answers by the bounds that are about a figure.
func (r Rounds) Answers(bounds []Bound) []Answer {
	var out []Answer
	for _, b := range bounds {
		if b.AnsweredFigure == "" {
			continue
		}
		v := r.judge(b)
		a := Answer{
			FigureID:     b.AnsweredFigure,
			What:         cmp.Or(b.Path, b.Thing),
			Document:     b.Document,
			MeasuredText: NoFigure,
			Measured:     v.Measured,
			Unit:         v.Unit,
			Verdict:      notMeasured,
		}
		if v.Measured != nil {
			a.MeasuredText, a.Verdict = v.Measured.textWithRange(v.Unit), beaten
			if least, is := v.Measured.Median, cmp.Or(b.Least, b.Most); b.ReachedIsMatched || *is == least {
				a.Verdict = matched
			}
			if !v.Reached {
				a.Verdict, a.Why = notReached, b.Why
			}
		}
		out = append(out, a)
	}
	return out
}

// textWithRange formats the median with its unit, and in brackets the least and the most if they differ.
func (s Spread) textWithRange(unit string) string {
	if unit == "×" {
		unit = "" // the description says what is compared
	}
	text := strings.TrimSpace(fourDigits(s.Median) + " " + unit)
	if least, most := fourDigits(s.Min), fourDigits(s.Max); least != most {
		text += fmt.Sprintf(" (%s to %s)", least, most)
	}
	return text
}

// fourDigits formats a number with four significant digits, or with all digits before the point.
func fourDigits(v float64) string {
	if v == 0 {
		return "0"
	}
	return Trimmed(v, min(max(3-int(math.Floor(math.Log10(math.Abs(v)))), 0), 9))
}
