package partition

import (
	"context"
	"testing"

	"ringlet/event/selection"
	tapv1 "ringlet/proto/ringlet/tap/v1"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// batch is a message of so many events, with counts.
func batch(events int, built uint64, data int) *tapv1.Samples {
	m := &tapv1.Samples{Built: built, Dropped: built / 10, Builders: 2}
	for range events {
		m.Events = append(m.Events, &tapv1.Sample{Fragments: []*tapv1.Fragment{{Data: make([]byte, data)}}})
	}
	return m
}

// TestViewersShareASample has viewers come and go: each has the same events, and counts since it came.
func TestViewersShareASample(t *testing.T) {
	sample := &tapSample{totals: &queueTotals{}}
	first := sample.addViewer()
	sample.broadcast(batch(3, 100, 1))
	second := sample.addViewer()
	sample.broadcast(batch(2, 150, 1))
	for _, want := range []struct {
		v              *viewer
		events         int
		built, dropped uint64
	}{{first, 3, 100, 10}, {first, 2, 150, 15}, {second, 0, 0, 0}, {second, 2, 50, 5}} {
		m := patiently.Receive(t, want.v.queue, "there is no message").samples
		if len(m.GetEvents()) != want.events || m.GetBuilt() != want.built || m.GetDropped() != want.dropped ||
			m.GetBuilders() != 2 {
			t.Errorf("%v, want %+v", m, want)
		}
	}
	if sample.removeViewer(first) || !sample.removeViewer(second) {
		t.Error("the second to leave is the last")
	}
}

// TestSlowViewerHasABound lets a viewer take nothing: messages and bytes are bounded, and what has no room is counted
// for it, and not for others.
func TestSlowViewerHasABound(t *testing.T) {
	sample := &tapSample{totals: &queueTotals{}}
	slow, quick := sample.addViewer(), sample.addViewer()
	var got, dropped uint64
	for range 2 * maxViewerMessages {
		sample.broadcast(batch(5, 0, 10))
		m := patiently.Receive(t, quick.queue)
		quick.queuedBytes.Add(-int64(m.size))
		got, dropped = got+uint64(len(m.samples.GetEvents())), m.samples.GetDropped()
	}
	if got != 10*maxViewerMessages || dropped != 0 || slow.eventsDropped != 5*maxViewerMessages ||
		len(slow.queue) != maxViewerMessages {
		t.Errorf("the quick one has %d and lost %d, the slow one lost %d", got, dropped, slow.eventsDropped)
	}
	large := sample.addViewer()
	for range 3 {
		sample.broadcast(batch(1, 0, maxViewerBytes/2))
	}
	// the counts, and one: it is larger than half, with what is around it
	if len(large.queue) != 2 || large.eventsDropped != 2 {
		t.Errorf("%d messages wait, %d events are dropped", len(large.queue), large.eventsDropped)
	}
}

// TestSampleEndsWithItsLastViewer counts the samples that are made.
func TestSampleEndsWithItsLastViewer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &Partition{control: &control{ctx: ctx}}
	join := func(spec *tapv1.Selection) func() {
		sel, err := selection.Parse(selection.Spec{})
		must.OK(t, err)
		_, leave := p.taps.join(p.control, spec, sel)
		return leave
	}
	a, b, c := join(&tapv1.Selection{Rate: 5}), join(&tapv1.Selection{Rate: 5}), join(&tapv1.Selection{Rate: 6})
	for _, x := range []struct {
		leave func()
		want  int
	}{{func() {}, 2}, {a, 2}, {c, 1}, {b, 0}} {
		x.leave()
		if n := len(p.taps.samples); n != x.want {
			t.Errorf("%d samples are made, want %d", n, x.want)
		}
	}
}
