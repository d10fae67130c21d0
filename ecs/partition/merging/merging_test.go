package merging_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"ringlet/ecs/partition/merging"
	"ringlet/event/selection"
	tapv1 "ringlet/proto/ringlet/tap/v1"
	"ringlet/testkit/must"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func merge(t must.TB, spec selection.Spec) *merging.Merger {
	sel, err := selection.Parse(spec)
	must.OK(t, err)
	return merging.New(sel, noon)
}

func samples(built uint64, numbers ...uint64) *tapv1.Samples {
	m := &tapv1.Samples{Built: built, Dropped: 1}
	for _, n := range numbers {
		m.Events = append(m.Events, &tapv1.Sample{Event: n})
	}
	return m
}

// TestMerge walks two builder units of which one goes and comes back.
func TestMerge(t *testing.T) {
	m := merge(t, selection.Spec{Share: 1})
	now := noon
	next := func(want *tapv1.Samples) {
		t.Helper()
		if diff := cmp.Diff(want, m.Next(now), protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
	}
	next(&tapv1.Samples{}) // nobody is there: the viewer is told at once
	next(nil)
	m.BeginStream("n0")
	m.BeginStream("n1")
	m.Add(now, "n0", samples(10, 3, 4))
	m.Add(now, "n1", samples(20, 7))
	next(&tapv1.Samples{
		Events:   samples(0, 3, 4, 7).Events,
		Built:    30,
		Dropped:  2,
		Builders: 2,
	})
	now = now.Add(time.Second)
	next(&tapv1.Samples{Built: 30, Dropped: 2, Builders: 2}) // it is quiet
	m.EndStream("n1", "its process has ended")
	m.Add(now, "n1", samples(99, 99)) // of a stream that is over
	next(&tapv1.Samples{
		Built:    30,
		Dropped:  2,
		Builders: 1,
		Problems: []string{"n1: its process has ended"},
	})
	m.BeginStream("n1")
	m.Add(now, "n1", samples(5))
	m.CountDropped(3)
	next(&tapv1.Samples{Built: 35, Dropped: 6, Builders: 2})
	m.EndStream("n0", "")
	m.EndStream("n1", "")
	next(&tapv1.Samples{Built: 35, Dropped: 6})
	next(nil)
}

// TestTheRateOfAllHolds holds the sum of builder units to the rate.
func TestTheRateOfAllHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0.5, 1000).Draw(t, "rate")
		m := merge(t, selection.Spec{Rate: rate})
		for _, n := range []string{"a", "b", "c"} {
			m.BeginStream(n)
		}
		now, shown := noon, 0
		for range rapid.IntRange(1, 100).Draw(t, "messages") {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond)
			node := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node")
			m.Add(now, node, samples(0, make([]uint64, rapid.IntRange(0, 200).Draw(t, "events"))...))
			shown += len(m.Next(now).GetEvents())
		}
		if most := 1 + rate*now.Sub(noon).Seconds(); float64(shown) > most+1e-6 {
			t.Fatalf("%d events in %v, %g are the most", shown, now.Sub(noon), most)
		}
		if one, all := merging.PerBuilderRate(rate, 1), 3*merging.PerBuilderRate(rate, 3); one != rate || all < rate ||
			all > 1.26*rate {
			t.Fatalf("of %g, one builder unit is asked for %g, three for %g", rate, one, all)
		}
	})
}

// TestWhatWaitsIsBounded holds the bytes that wait for a viewer who is not sent anything.
func TestWhatWaitsIsBounded(t *testing.T) {
	m := merge(t, selection.Spec{Share: 1})
	m.BeginStream("n0")
	large := &tapv1.Sample{Fragments: []*tapv1.Fragment{{Data: make([]byte, 1<<20)}}}
	for range 30 {
		m.Add(noon, "n0", &tapv1.Samples{Events: []*tapv1.Sample{large}})
	}
	if s := m.Next(noon); len(s.GetEvents()) != 15 || s.GetDropped() != 15 {
		t.Errorf("%d events, %d dropped", len(s.GetEvents()), s.GetDropped())
	}
}
