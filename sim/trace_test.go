package sim_test

import (
	"context"
	"io"
	"math"
	"testing"

	"ringlet/sim"
)

// traced is an event that comes again and again, and tells a trace of its span.
type traced struct {
	s     *sim.Sim
	trace *sim.Trace
	track sim.Track
}

func (e *traced) Handle(a, _ int64) {
	e.trace.Span(e.track, "work", e.s.Now()-1, e.s.Now(), a)
	e.s.ScheduleAfter(sim.Time(a), e, a, 0)
}

// untraced is the same without a trace.
type untraced struct{ s *sim.Sim }

func (e *untraced) Handle(a, _ int64) { e.s.ScheduleAfter(sim.Time(a), e, a, 0) }

// BenchmarkTrace: an event without the hook, with it while tracing is off, and with a trace that is full, that is
// counts only; then one that writes.
func BenchmarkTrace(b *testing.B) {
	for _, x := range []struct {
		name  string
		event func(s *sim.Sim) sim.Handler
	}{
		{"without", func(s *sim.Sim) sim.Handler { return &untraced{s} }},
		{"off", func(s *sim.Sim) sim.Handler { return &traced{s: s} }},
		{"full", func(s *sim.Sim) sim.Handler { return &traced{s: s, trace: sim.NewTrace(io.Discard, 0)} }},
		{"on", func(s *sim.Sim) sim.Handler { return &traced{s: s, trace: sim.NewTrace(io.Discard, math.MaxInt)} }},
	} {
		b.Run(x.name, func(b *testing.B) {
			s := sim.New(1)
			h := x.event(s)
			for i := range int64(100) {
				s.ScheduleAt(sim.Time(i+1), h, 100+i, 0)
			}
			b.ReportAllocs()
			b.ResetTimer()
			s.Run(context.Background(), sim.Limits{MaxEvents: uint64(b.N)})
		})
	}
}

// TestTraceOffIsFree: a model may call the hook everywhere.
func TestTraceOffIsFree(t *testing.T) {
	var off *sim.Trace
	track := off.Track("none")
	n := testing.AllocsPerRun(100, func() {
		off.Span(track, "work", 0, 1, 2)
		off.Instant(track, "now", 1, 2)
		off.Count("level", 1, 2)
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}
