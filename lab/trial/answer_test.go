package trial

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAnswers: a bound about a figure says what the document has, what was measured, and which of the two is better.
func TestAnswers(t *testing.T) {
	least, most, none := 2.0, 3.0, 0.0
	rounds := Rounds{
		{"a": {"rate": 2.5, "lost": 0}, "b": {"rate": 5}},
		{"a": {"rate": 2.4, "lost": 0}, "b": {"rate": 5}},
		{"a": {"rate": 2.61234, "lost": 0}, "b": {"rate": 5}},
	}
	answers := rounds.Answers([]Bound{
		{AnsweredFigure: "F01", Path: "rate of a", Thing: "a", Figure: "rate", Unit: "MHz", Least: &least, Document: "2 MHz"},
		{AnsweredFigure: "F01", Thing: "a", Figure: "rate", Least: &least, ReachedIsMatched: true},
		{AnsweredFigure: "F02", Thing: "a", Figure: "lost", Most: &none},
		{AnsweredFigure: "F02", Thing: "a", Figure: "rate", ComparedWith: []string{"b"}, Least: &most, Why: "b is faster."},
		{AnsweredFigure: "F03", Thing: "c", Figure: "rate", Least: &least, Why: "There is no c."},
		{Thing: "a", Figure: "rate", Least: &least},
	})
	var got []string
	for i := range answers {
		a := &answers[i]
		got = append(got, a.FigureID+" "+a.Text()+": "+a.MeasuredText+", "+a.Verdict+". "+a.Why)
	}
	if diff := cmp.Diff([]string{
		"F01 rate of a, where the document has 2 MHz: 2.5 MHz (2.4 to 2.612), beaten. ",
		"F01 a: 2.5 (2.4 to 2.612), matched. ",
		"F02 a: 0, matched. ",
		"F02 a: 0.5 (0.48 to 0.5225), not reached. b is faster.",
		"F03 c: –, not measured. ",
	}, got); diff != "" {
		t.Error(diff)
	}
}
