package decision

import (
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// latencyTally counts times. Those in a row that are equally long are one record.
type latencyTally struct {
	histogram *hdr.Histogram // µs
	us        int64
	repeats   int64 // times of us that the histogram does not have yet
}

func (t *latencyTally) add(ns int64) {
	us := ns / int64(time.Microsecond)
	if us != t.us {
		t.flush()
		t.us = us
	}
	t.repeats++
}

func (t *latencyTally) flush() {
	if t.repeats > 0 {
		_ = t.histogram.RecordValues(min(t.us, t.histogram.HighestTrackableValue()), t.repeats)
		t.repeats = 0
	}
}

func (u *Unit) tallies() [3]*latencyTally {
	return [3]*latencyTally{&u.totalLatency, &u.buildingLatency, &u.orderingLatency}
}

// recordLatency is told of each decision in a step, under mu.
func (u *Unit) recordLatency(p LatencyBreakdown) {
	u.totalLatency.add(p.Total)
	if p.SplitKnown {
		u.buildingLatency.add(p.Building)
		u.orderingLatency.add(p.Ordering)
	}
}

// Latency is how long decisions took, and where the time went, in µs. A minute is the most.
type Latency struct {
	Total *hdr.Histogram // from when an event was known to be triggered to its decision
	// Building and Ordering are of decisions that a result made, see LatencyBreakdown. Where the builder unit took
	// longer than a result can say (65 ms), the parts are not known, and neither has the event: Stats.Unsplit counts
	// it.
	Building *hdr.Histogram
	Ordering *hdr.Histogram
	// Judging is from the last byte of an event to the builder unit's verdict, of each result that was taken;
	// MaxTookMicros stands for all that is longer.
	Judging *hdr.Histogram
}

// Latency is how long decisions took so far.
func (u *Unit) Latency() Latency {
	u.mu.Lock()
	defer u.mu.Unlock()
	return Latency{
		Total:    u.totalLatency.histogram.Clone(),
		Building: u.buildingLatency.histogram.Clone(),
		Ordering: u.orderingLatency.histogram.Clone(),
		Judging:  u.judgingLatency.Clone(),
	}
}
