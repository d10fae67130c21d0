package ctl

import (
	"strings"
	"testing"
	"time"
)

func TestWhenAValueIsSteady(t *testing.T) {
	type sample struct {
		at    float64 // seconds after the command
		value float64
	}
	target := 1500.0
	for name, c := range map[string]struct {
		target  *float64
		samples []sample
		steady  float64 // seconds; -1: never
	}{
		"at the target":              {&target, []sample{{1, 1400}, {2, 1499.5}, {3, 1500}, {5, 1500.5}}, 5},
		"away again":                 {&target, []sample{{1, 1500}, {3, 1400}, {4, 1500}, {6, 1500}, {7, 1501}}, 7},
		"never near":                 {&target, []sample{{1, 1400}, {9, 1400}}, -1},
		"a value of before":          {&target, []sample{{-9, 1500}, {-1, 1500}, {2, 1500}}, -1},
		"the same value again":       {&target, []sample{{2, 1500}, {2, 1500}}, -1},
		"without a target":           {nil, []sample{{1, 3}, {2, 9}, {3, 9.5}, {4, 8.9}, {5, 9.2}}, 5},
		"slowly on":                  {nil, []sample{{1, 1}, {2, 1.6}, {3, 2.2}, {4, 2.8}, {5, 3.4}}, -1},
		"the last of two runs alone": {nil, []sample{{1, 5}, {2, 9}, {5, 9}}, 5},
	} {
		begun := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		s := &steadiness{target: c.target, within: 1, long: 3 * time.Second, begun: begun}
		steady := -1.0
		for _, x := range c.samples {
			if s.add(begun.Add(time.Duration(x.at*float64(time.Second))), x.value) && steady < 0 {
				steady = x.at
			}
		}
		if steady != c.steady {
			t.Errorf("%s: steady after %v s, not %v: %v", name, steady, c.steady, s)
		}
	}
}

func TestSteadyOverTheAPI(t *testing.T) {
	h := newFixture(t)
	var out strings.Builder
	s := h.session("vera", &out)
	for words, want := range map[string]string{
		"steady hall.temp within=x":           "is no number",
		"steady nothing within=1 most=1s":     "no value of it has come",
		"steady hall.temp value=nan within=1": "is no number",
	} {
		if err := s.RunBatch(t.Context(), strings.Fields(words)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", words, err)
		}
	}
	if err := s.RunBatch(t.Context(), []string{"values"}); err != nil || !strings.Contains(out.String(), "no slow data") {
		t.Errorf("%s: %v", out.String(), err)
	}
}
