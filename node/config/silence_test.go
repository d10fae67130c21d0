package config

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTimeoutsOfTheDefault holds that without the setting all is as it was before there was one.
func TestTimeoutsOfTheDefault(t *testing.T) {
	want := Timeouts{
		Link:      5 * time.Second,
		StuckLink: 15 * time.Second,
		Barrier:   5 * time.Second,
		Resume:    3 * time.Second,
		Confirm:   4 * time.Second,
		Recall:    3 * time.Second,
		Successor: 30 * time.Second,
		Include:   8 * time.Second,
		Report:    500 * time.Millisecond,
		Missed:    2 * time.Second,
		Witness:   5 * time.Second,
		Aftermath: 10 * time.Second,
		Control:   10 * time.Second,
	}
	if got := Default().Timeouts(); got != want {
		t.Errorf("by default: %+v", got)
	}
	if got := (Operation{}).Timeouts(); got != want {
		t.Errorf("of a configuration from before: %+v", got)
	}
}

// TestTimeoutsKeepTheirOrder holds what the parts of a partition rely on, whatever silence is.
func TestTimeoutsKeepTheirOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		silence := time.Duration(rapid.Int64Range(int64(minSilence), int64(maxSilence)).Draw(t, "silence"))
		o := Operation{Silence: silence}.Timeouts()
		earliestLinkEnd := o.Link * 5 / 6 // package transport/quic looks six times, and five without a packet are the end
		for _, rule := range []struct {
			what string
			held bool
		}{
			{"nobody silent takes part for longer than was set, nor much shorter", o.Link == silence},
			{"one report may be late", 2*o.Report <= o.Missed},
			{"when links are given up, the last report is an old one", o.Missed+o.Report <= earliestLinkEnd},
			{"links give a node up before the control does", o.Link < o.Control},
			{"both ends of a link speak while the control waits", o.Link <= o.Witness && o.Link <= o.Aftermath},
			{"a stream is resumed while others wait in the barrier", o.Resume < o.Barrier},
			{"the barrier, which has no cause to name, is not before the links", o.Link <= o.Barrier},
			{"six time-outs of the barrier are enough for the control", o.Control <= 6*o.Barrier},
			{"a silent connection is found before a stuck link", 3*o.Link <= o.StuckLink},
			{"who ends waits until its stream is resumed", o.Resume < o.Confirm},
			{"a successor waits for a unit that resumes", o.Resume <= o.Recall},
			{"units wait until the control has seen the loss", 15*time.Second+o.Control <= o.Successor},
			{"an inclusion waits for the end of a link", o.Link < o.Include},
			{"the end of a run waits until the control has seen the loss", o.Control < 30*time.Second},
		} {
			if !rule.held {
				t.Errorf("with silence %v not: %s: %+v", silence, rule.what, o)
			}
		}
	})
}
