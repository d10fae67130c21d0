package backlog

import (
	"testing"
	"time"

	"ringlet/event/selection"
	"ringlet/filter"
	"ringlet/recording"
	"ringlet/testkit/must"
)

// evens accepts events with even numbers.
type evens struct{}

func (evens) Judge(_ time.Time, e *selection.Event) (filter.Verdict, error) {
	return filter.Verdict{Decision: filter.Accepted + filter.Decision(e.Number%2)}, nil
}

// TestRejectedEventsThatAreKept holds that events which are rejected, and kept with others of their MEPs, are told:
// they are in the output.
func TestRejectedEventsThatAreKept(t *testing.T) {
	r := newRig(t, 1<<20)
	r.recorded(100)
	c := r.config(nil)
	c.NewFilter = func(*recording.Manifest, int) (Filter, error) { return Filter{Filters: []filter.Filter{evens{}}}, nil }
	got, err := New(c).Run(t.Context())
	must.OK(t, err)
	v, err := recording.Verify(t.Context(), r.path("accepted"), recording.VerifyOptions{})
	must.OK(t, err)
	d := got.Decisions
	if d.Rejected != 100 || d.Accepted+d.RejectedKept != v.Runs[0].EventsFound || d.Events() != 200 {
		t.Errorf("%+v, and %d events are in the output", d, v.Runs[0].EventsFound)
	}
}
