package backlog

import (
	"testing"
	"time"

	"ringlet/builderunit/recording"
	"ringlet/event/selection"
	"ringlet/testkit/must"
	"ringlet/trigger"
)

// evens accepts events with even numbers.
type evens struct{}

func (evens) Judge(_ time.Time, e *selection.Event) (trigger.Verdict, error) {
	return trigger.Verdict{Decision: trigger.Accepted + trigger.Decision(e.Number%2)}, nil
}

// TestRejectedEventsThatAreKept holds that events which are rejected, and kept with others of their MEPs, are told:
// they are in the output.
func TestRejectedEventsThatAreKept(t *testing.T) {
	r := newRig(t, 1<<20)
	r.recorded(100)
	c := r.config(nil)
	c.Filter = func(*recording.Manifest, int) (Filter, error) { return Filter{Filters: []trigger.Filter{evens{}}}, nil }
	got, err := New(c).Run(t.Context())
	must.OK(t, err)
	v, err := recording.Verify(t.Context(), r.path("accepted"), recording.VerifyOptions{})
	must.OK(t, err)
	d := got.Decided
	if d.Rejected != 100 || d.Accepted+d.Carried != v.Runs[0].EventsFound || d.Events() != 200 {
		t.Errorf("%+v, and %d events are in the output", d, v.Runs[0].EventsFound)
	}
}
