package trigger_test

import (
	"testing"

	"ringlet/trigger"
)

// TestTogether holds that events which stay together are rejected only if each of them is.
func TestTogether(t *testing.T) {
	const a, r, p, f = trigger.Accepted, trigger.Rejected, trigger.TimedOut, trigger.Failed
	for _, tt := range []struct {
		of   []trigger.Decision
		want trigger.Decision
	}{
		{[]trigger.Decision{a}, a},
		{[]trigger.Decision{r, r, r}, r},
		{[]trigger.Decision{r, a, r}, a},
		{[]trigger.Decision{f, p, a}, a},
		{[]trigger.Decision{f, p}, p},
		{[]trigger.Decision{p, f}, p},
		{[]trigger.Decision{r, f, r}, f},
		{[]trigger.Decision{p, r}, p},
	} {
		c := trigger.Case{Verdicts: make([]trigger.Verdict, len(tt.of))}
		for i, d := range tt.of {
			c.Spread(i, trigger.Verdict{Decision: d}) // each but the last is written over
		}
		if got := trigger.Together(c.Verdicts); got != tt.want {
			t.Errorf("%v together are %v, not %v", tt.of, got, tt.want)
		}
	}
}
