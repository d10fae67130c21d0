package trigger_test

import (
	"errors"
	"testing"
	"time"

	"ringlet/trigger"
)

func TestSettle(t *testing.T) {
	now := time.Unix(1000, 0)
	late, good := now.Add(-1), trigger.Verdict{Decision: trigger.Rejected, Score: 7}
	for _, tt := range []struct {
		said     trigger.Verdict
		err      error
		deadline time.Time
		want     trigger.Verdict
	}{
		{good, nil, now, good},
		{trigger.Verdict{Decision: trigger.Accepted}, nil, now.Add(1), trigger.Verdict{Decision: trigger.Accepted}},
		{good, nil, late, trigger.Verdict{Decision: trigger.TimedOut}},
		{good, errors.New("no"), now, trigger.Verdict{Decision: trigger.Failed}},
		{good, errors.New("no"), late, trigger.Verdict{Decision: trigger.TimedOut}},
		{trigger.Verdict{}, nil, now, trigger.Verdict{Decision: trigger.Failed}},
		{trigger.Verdict{Decision: trigger.TimedOut}, nil, now, trigger.Verdict{Decision: trigger.Failed}},
		{trigger.Verdict{Decision: 9}, nil, now, trigger.Verdict{Decision: trigger.Failed}},
	} {
		got := trigger.Settle(tt.said, tt.err, tt.deadline, now)
		if got != tt.want {
			t.Errorf("%+v and %v give %+v, not %+v", tt.said, tt.err, got, tt.want)
		}
		if !got.Decision.Valid() || got.Decision.Keeps() != (got.Decision != trigger.Rejected) {
			t.Errorf("%v", got.Decision)
		}
	}
}

func TestWords(t *testing.T) {
	for d := range trigger.Decision(trigger.Decisions) {
		if d.Valid() != (d > 0) {
			t.Errorf("%v", d)
		}
	}
	if got := trigger.Failed.String() + trigger.Decision(9).String(); got != "faileddecision 9" {
		t.Error(got)
	}
}
