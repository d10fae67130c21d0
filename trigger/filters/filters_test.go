package filters_test

import (
	"math"
	"testing"
	"time"

	"ringlet/event/selection"
	"ringlet/testkit/must"
	"ringlet/trigger"
	"ringlet/trigger/filters"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text     string
		deadline time.Duration // 0: it is wrong
	}{
		{"vertex", filters.DefaultDeadline},
		{"vertex,20ms", 20 * time.Millisecond},
		{"share:0.5", filters.DefaultDeadline},
		{"share:0,1s", time.Second},
		{"process:mine", filters.DefaultDeadline},
		{"process:my.filter-2,1s", time.Second},
		{"process", 0},
		{"process:", 0},
		{"process:a/b", 0},
		{"", 0},
		{"vertices", 0},
		{"vertex:1", 0},
		{"share", 0},
		{"share:1.5", 0},
		{"share:NaN", 0},
		{"vertex,", 0},
		{"vertex,1us", 0},
		{"vertex,2h", 0},
	} {
		c, err := filters.Parse(tt.text)
		if (err == nil) != (tt.deadline > 0) || err == nil && c.Deadline != tt.deadline {
			t.Errorf("%q gives %v and %v", tt.text, c.Deadline, err)
		}
	}
}

func TestShare(t *testing.T) {
	for text, want := range map[string]float64{"share:0": 0, "share:0.04": 0.04, "share:1": 1} {
		c, err := filters.Parse(text)
		must.OK(t, err)
		list, err := c.Open(2)
		must.OK(t, err)
		const events = 100_000
		n := 0
		for i := range uint64(events) {
			a, err := list[0].Judge(time.Time{}, &selection.Event{Number: i})
			must.OK(t, err)
			if b, _ := list[1].Judge(time.Time{}, &selection.Event{Number: i}); a != b {
				t.Fatalf("two filters judge event %d as %v and %v", i, a, b)
			}
			if a.Decision == trigger.Accepted {
				n++
			}
		}
		if math.Abs(float64(n)/events-want) > 0.002 {
			t.Errorf("%s accepts %d of %d", text, n, events)
		}
	}
}
