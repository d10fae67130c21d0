package decision

import (
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// tally counts times. Those in a row that are equally long are one record.
type tally struct {
	of    *hdr.Histogram // µs
	us    int64
	alike int64 // times of us that the histogram does not have yet
}

func (t *tally) add(ns int64) {
	us := ns / int64(time.Microsecond)
	if us != t.us {
		t.record()
		t.us = us
	}
	t.alike++
}

func (t *tally) record() {
	if t.alike > 0 {
		_ = t.of.RecordValues(min(t.us, t.of.HighestTrackableValue()), t.alike)
		t.alike = 0
	}
}

func (u *Unit) tallies() [3]*tally { return [3]*tally{&u.whole, &u.building, &u.ordering} }

// decided is told of each decision in a step, under mu.
func (u *Unit) decided(p Parts) {
	u.whole.add(p.Whole)
	if p.Split {
		u.building.add(p.Building)
		u.ordering.add(p.Ordering)
	}
}

// Latency is how long decisions took, and where the time went, in µs. A minute is the most.
type Latency struct {
	Whole *hdr.Histogram // from when an event was known to be triggered to its decision
	// Building and Ordering are of decisions that a result made, see Parts. Where the builder unit took longer than a
	// result can say (65 ms), the parts are not known, and neither has the event: Stats.Unsplit counts it.
	Building *hdr.Histogram
	Ordering *hdr.Histogram
	// Judging is from the last byte of an event to the builder unit's verdict, of each result that was taken; MostTook
	// stands for all that is longer.
	Judging *hdr.Histogram
}

// Latency is how long decisions took so far.
func (u *Unit) Latency() Latency {
	u.mu.Lock()
	defer u.mu.Unlock()
	return Latency{
		Whole:    u.whole.of.Clone(),
		Building: u.building.of.Clone(),
		Ordering: u.ordering.of.Clone(),
		Judging:  u.took.Clone(),
	}
}
