package builtin_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"ringlet/event/selection"
	"ringlet/filter"
	"ringlet/filter/builtin"
	"ringlet/testkit/must"
	"ringlet/velo/detectorfile"
	"ringlet/velo/frontend"
	"ringlet/velo/vertex"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text     string
		deadline time.Duration // 0: it is wrong
	}{
		{"vertex", builtin.DefaultDeadline},
		{"vertex,20ms", 20 * time.Millisecond},
		{"share:0.5", builtin.DefaultDeadline},
		{"share:0,1s", time.Second},
		{"process:mine", builtin.DefaultDeadline},
		{"process:my.filter-2,1s", time.Second},
		{"process", 0},
		{"process:", 0},
		{"process:a/b", 0},
		{"", 0},
		{"vertices", 0},
		{"vertex:mine.yaml", builtin.DefaultDeadline},
		{"vertex:a/b:c.yaml,20ms", 20 * time.Millisecond},
		{"vertex:", 0},
		{"vertex:,20ms", 0},
		{"share", 0},
		{"share:1.5", 0},
		{"share:NaN", 0},
		{"vertex,", 0},
		{"vertex,1us", 0},
		{"vertex,2h", 0},
	} {
		c, err := builtin.Parse(tt.text)
		if (err == nil) != (tt.deadline > 0) || err == nil && c.Deadline != tt.deadline {
			t.Errorf("%q gives %v and %v", tt.text, c.Deadline, err)
		}
	}
}

func TestShare(t *testing.T) {
	for text, want := range map[string]float64{"share:0": 0, "share:0.04": 0.04, "share:1": 1} {
		c, err := builtin.Parse(text)
		must.OK(t, err)
		list, err := c.OpenFilters(2, nil)
		must.OK(t, err)
		const events = 100_000
		n := 0
		for i := range uint64(events) {
			a, err := list[0].Judge(time.Time{}, &selection.Event{Number: i})
			must.OK(t, err)
			if b, _ := list[1].Judge(time.Time{}, &selection.Event{Number: i}); a != b {
				t.Fatalf("two filters judge event %d as %v and %v", i, a, b)
			}
			if a.Decision == filter.Accepted {
				n++
			}
		}
		if math.Abs(float64(n)/events-want) > 0.002 {
			t.Errorf("%s accepts %d of %d", text, n, events)
		}
	}
}

// Of a filter the file of its detector can be told, and be named anew; no other filter has one.
func TestFile(t *testing.T) {
	for text, want := range map[string]string{
		"vertex": "", "vertex,20ms": "", "vertex:d.yaml": "d.yaml", "vertex:a/b:c.yaml,20ms": "a/b:c.yaml", "share:0.5": "",
		"process:d.yaml": "",
	} {
		c, err := builtin.Parse(text)
		must.OK(t, err)
		if c.DetectorFile() != want {
			t.Errorf("the file of %s is %q, not %q", text, c.DetectorFile(), want)
		}
		if want == "" {
			continue
		}
		with := c.WithFile("/x/y.yaml", strings.Repeat("0f", 32))
		moved, err := builtin.Parse(with)
		if err != nil || moved.DetectorFile() != "/x/y.yaml" || moved.Deadline != c.Deadline || len(moved.FileSum) != 64 {
			t.Errorf("%s becomes %s, %+v, %v", text, with, moved, err)
		}
	}
}

// The filter searches the detector it is given, and refuses one that it cannot search.
func TestOpenVertex(t *testing.T) {
	c, err := builtin.Parse("vertex:d.yaml")
	must.OK(t, err)
	d := detectorfile.New()
	layout := &d.Settings().(*frontend.Config).Detector
	layout.Stations = layout.Stations[:14]
	must.OK(t, d.Complete())
	if list, err := c.OpenFilters(3, d); err != nil || len(list) != 3 {
		t.Errorf("%d filters, %v", len(list), err)
	}
	layout.Stations = layout.Stations[:2]
	must.OK(t, d.Complete())
	var lacks *vertex.GeometryError
	if _, err := c.OpenFilters(1, d); !errors.As(err, &lacks) || lacks.Field != "stations" {
		t.Errorf("%v", err)
	}
}
