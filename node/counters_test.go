package node

import (
	"regexp"
	"strings"
	"testing"

	"ringlet/barrier"
	"ringlet/builderunit"
	"ringlet/builderunit/sink"
	"ringlet/internal/counter"
	"ringlet/readoutunit"
)

// Each counter has one name, which begins with its owner's, and says what it counts in the words of a table.
func TestCountersAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	name := regexp.MustCompile(`^[a-z]+\.[a-z_]+\.?$`)
	for _, c := range Counters() {
		if seen[c.Name] || !name.MatchString(c.Name) || c.ByKind != strings.HasSuffix(c.Name, ".") {
			t.Errorf("%+v: no name of a counter, or one that is there twice", c)
		}
		if strings.HasSuffix(strings.TrimSuffix(c.Name, "."), "_us") != (c.Unit == counter.Micros) ||
			strings.HasSuffix(c.Help, ".") {
			t.Errorf("%+v: not the unit of its name, or a sentence", c)
		}
		seen[c.Name] = true
	}
	for _, want := range []string{CounterLinks + "quic", CounterBadInput, CounterOutputWritten} {
		if !seen[want] {
			t.Errorf("there is no %s", want)
		}
	}
}

// BenchmarkReadCounters is what a report of a node with both units spends on its counters, beside the readings
// themselves.
func BenchmarkReadCounters(b *testing.B) {
	c := allCounters{
		Readout:  &readoutunit.Stats{},
		Barrier:  &barrier.Stats{},
		Builder:  &builderunit.BuilderStats{},
		Feedback: &feedbackCounters{},
		Output:   &sink.Result{},
		Segments: &sink.SegmentsStats{},
	}
	c.Node.sessionCounters = &sessionCounters{}
	b.ReportAllocs()
	for range b.N {
		to := map[string]uint64{}
		counterLayout.Read(to, &c)
	}
}
