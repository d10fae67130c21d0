package repeats

import (
	"testing"
	"time"
)

func TestRepeats(t *testing.T) {
	var r Log
	at := time.Unix(0, 0)
	for i, step := range []struct {
		what   string
		after  time.Duration
		untold int
		yes    bool
	}{
		{"a", 0, 0, true},
		{"a", time.Second, 0, false},
		{"b", 0, 0, true}, // something else
		{"a", Every - 2*time.Second, 0, false},
		{"a", time.Second, 2, true},
		{"a", Every, 0, true}, // nothing was kept back
	} {
		at = at.Add(step.after)
		if untold, yes := r.Tell(step.what, at); untold != step.untold || yes != step.yes {
			t.Errorf("step %d: %d, %v", i, untold, yes)
		}
	}
}
