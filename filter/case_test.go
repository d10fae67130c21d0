package filter_test

import (
	"testing"

	"ringlet/filter"
)

// TestCombineDecisions holds that events which stay together are rejected only if each of them is.
func TestCombineDecisions(t *testing.T) {
	const a, r, p, f = filter.Accepted, filter.Rejected, filter.TimedOut, filter.Failed
	for _, tt := range []struct {
		of   []filter.Decision
		want filter.Decision
	}{
		{[]filter.Decision{a}, a},
		{[]filter.Decision{r, r, r}, r},
		{[]filter.Decision{r, a, r}, a},
		{[]filter.Decision{f, p, a}, a},
		{[]filter.Decision{f, p}, p},
		{[]filter.Decision{p, f}, p},
		{[]filter.Decision{r, f, r}, f},
		{[]filter.Decision{p, r}, p},
	} {
		c := filter.Case{Verdicts: make([]filter.Verdict, len(tt.of))}
		for i, d := range tt.of {
			c.FillVerdicts(i, filter.Verdict{Decision: d}) // each but the last is written over
		}
		if got := filter.CombineDecisions(c.Verdicts); got != tt.want {
			t.Errorf("%v together are %v, not %v", tt.of, got, tt.want)
		}
	}
}
