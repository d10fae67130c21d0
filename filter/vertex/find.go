package vertex

import (
	"math"
	"time"

	"ringlet/filter"
)

// Steps of Find, in order.
const (
	StepPeaks = iota
	StepTracks
	StepPrimary
	StepOthers
	StepSpace
	StepSecondary
	Steps
)

// Result is what an event has. Its list is the Finder's, and good until the next event.
type Result struct {
	Tracks    int     // in r and z
	Spatial   int     // of those, displaced and found in space
	Primaries []Point // that with most tracks first
	Displaced bool    // there is a secondary vertex:
	Secondary Secondary
}

// Find looks for vertices in the fragments that were added since Begin. times, if not nil, is increased by how long
// each step took.
func (f *Finder) Find(times *[Steps]time.Duration) Result {
	var at time.Time
	if times != nil {
		at = time.Now()
	}
	step := func(n int) {
		if times != nil {
			now := time.Now()
			times[n] += now.Sub(at)
			at = now
		}
	}
	f.tracks = f.tracks[:0]
	f.findPeaks()
	step(StepPeaks)
	for _, z := range f.peaks {
		f.search(z-f.cuts.Around, z+f.cuts.Around, true)
	}
	step(StepTracks)
	f.findPrimaries()
	step(StepPrimary)
	for i := range f.primaries {
		z := f.primaries[i].Z
		f.search(z-f.cuts.Before, z+f.cuts.Behind, false)
	}
	step(StepOthers)
	f.findDisplaced()
	step(StepSpace)
	found := f.findSecondary()
	step(StepSecondary)
	return Result{
		Tracks:    len(f.tracks),
		Spatial:   len(f.spatial),
		Primaries: f.primaries,
		Displaced: found,
		Secondary: f.secondary,
	}
}

// Verdict is the decision on an event, and the score of its secondary vertex.
func (f *Finder) Verdict(r *Result) filter.Verdict {
	v := filter.Verdict{Decision: filter.Rejected}
	if r.Displaced {
		v.Score = uint16(max(0, min(math.MaxUint16, r.Secondary.Score*scoreUnit)))
	}
	if r.Displaced && r.Secondary.Score >= f.cuts.Score {
		v.Decision = filter.Accepted
	}
	return v
}

// scoreUnit is a score of 1 in the 16 bits of a verdict.
const scoreUnit = 1000

// minHits is how many hits a track has, in r and on φ planes, at least (L1-farm §3.4).
const minHits = 3

// cuts are those for a detector. They were set for the default one; where strips are wider, windows are. The one of the
// score keeps about 3.5 % of the events without B mesons of seeds 11 and 12.
func (d *Detector) cuts() cuts {
	return cuts{
		BeamLow:       -200,
		BeamHigh:      200,
		Window:        0.1 * d.coarser,
		Hits:          minHits,
		Chi2:          9,
		PrimaryTracks: 5,
		Around:        1.5 * d.coarser,
		Before:        20,
		Behind:        60,
		Bent:          4,
		NearImpact:    0.08,
		FarImpact:     8,
		Significance:  3,
		PhiHits:       minHits,
		PhiWindow:     0.15 * d.coarser,
		Apart:         0.2 * d.coarser,
		Flight:        1,
		FlightSigmas:  4,
		Score:         3.3,
	}
}
