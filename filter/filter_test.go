package filter_test

import (
	"errors"
	"testing"
	"time"

	"ringlet/filter"
)

func TestFinalVerdict(t *testing.T) {
	now := time.Unix(1000, 0)
	late, good := now.Add(-1), filter.Verdict{Decision: filter.Rejected, Score: 7}
	for _, tt := range []struct {
		said     filter.Verdict
		err      error
		deadline time.Time
		want     filter.Verdict
	}{
		{good, nil, now, good},
		{filter.Verdict{Decision: filter.Accepted}, nil, now.Add(1), filter.Verdict{Decision: filter.Accepted}},
		{good, nil, late, filter.Verdict{Decision: filter.TimedOut}},
		{good, errors.New("no"), now, filter.Verdict{Decision: filter.Failed}},
		{good, errors.New("no"), late, filter.Verdict{Decision: filter.TimedOut}},
		{filter.Verdict{}, nil, now, filter.Verdict{Decision: filter.Failed}},
		{filter.Verdict{Decision: filter.TimedOut}, nil, now, filter.Verdict{Decision: filter.Failed}},
		{filter.Verdict{Decision: 9}, nil, now, filter.Verdict{Decision: filter.Failed}},
	} {
		got := filter.FinalVerdict(tt.said, tt.err, tt.deadline, now)
		if got != tt.want {
			t.Errorf("%+v and %v give %+v, not %+v", tt.said, tt.err, got, tt.want)
		}
		if !got.Decision.Valid() || got.Decision.KeepsEvent() != (got.Decision != filter.Rejected) {
			t.Errorf("%v", got.Decision)
		}
	}
}

func TestWords(t *testing.T) {
	for d := range filter.Decision(filter.Decisions) {
		if d.Valid() != (d > 0) {
			t.Errorf("%v", d)
		}
	}
	if got := filter.Failed.String() + filter.Decision(9).String(); got != "faileddecision 9" {
		t.Error(got)
	}
}
