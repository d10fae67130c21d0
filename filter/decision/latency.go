package decision

import (
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// latencyTally collects times. Consecutive times of equal length become one record.
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

// recordLatency is called for each decision in a step, under mu.
func (u *Unit) recordLatency(p LatencyBreakdown) {
	u.totalLatency.add(p.Total)
	if p.SplitKnown {
		u.buildingLatency.add(p.Building)
		u.orderingLatency.add(p.Ordering)
	}
}

// Latency is how long decisions took, and its parts, in µs. The longest time distinguished is a minute.
type Latency struct {
	Total *hdr.Histogram // from the known trigger of an event to its decision
	// Building and Ordering are of decisions with a result, see LatencyBreakdown. If the builder unit took longer than a
	// result can say (65 ms), the parts are unknown, and the event is in neither: Stats.Unsplit counts it.
	Building *hdr.Histogram
	Ordering *hdr.Histogram
	// Judging is from the last byte of an event to the builder unit's verdict, for each used result; MaxTookMicros stands
	// for all longer times.
	Judging *hdr.Histogram
}

// Latency returns how long decisions took so far.
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
