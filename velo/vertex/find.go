package vertex

import (
	"math"
	"time"

	"ringlet/filter"
)

// The steps of Find, in order, and their number.
const (
	StepPeaks = iota
	StepTracks
	StepPrimary
	StepOtherTracks
	StepSpace
	StepSecondary
	StepCount
)

// Result is what Find has found in an event. Primaries belongs to the Finder, and is valid until the next event.
type Result struct {
	Tracks        int     // in r and z
	SpatialTracks int     // those of them that are displaced and found in space
	Primaries     []Point // the one with most tracks first
	HasSecondary  bool
	Secondary     Secondary // with HasSecondary
}

// Find looks for vertices in the fragments that were added since BeginEvent. If times is not nil, Find adds to it the
// time that each step took.
func (f *Finder) Find(times *[StepCount]time.Duration) Result {
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
		f.search(z-f.cuts.PrimaryWindow, z+f.cuts.PrimaryWindow, true)
	}
	step(StepTracks)
	f.findPrimaries()
	step(StepPrimary)
	for i := range f.primaries {
		z := f.primaries[i].Z
		f.search(z-f.cuts.BeforePrimary, z+f.cuts.BehindPrimary, false)
	}
	step(StepOtherTracks)
	f.findDisplaced()
	step(StepSpace)
	found := f.findSecondary()
	step(StepSecondary)
	return Result{
		Tracks:        len(f.tracks),
		SpatialTracks: len(f.spatialTracks),
		Primaries:     f.primaries,
		HasSecondary:  found,
		Secondary:     f.secondary,
	}
}

// Verdict is the decision on an event, and the score of its secondary vertex.
func (f *Finder) Verdict(r *Result) filter.Verdict {
	v := filter.Verdict{Decision: filter.Rejected}
	if r.HasSecondary {
		v.Score = uint16(max(0, min(math.MaxUint16, r.Secondary.Score*scoreUnit)))
	}
	if r.HasSecondary && r.Secondary.Score >= f.cuts.MinScore {
		v.Decision = filter.Accepted
	}
	return v
}

// scoreUnit is a score of 1 in the 16 bits of a verdict.
const scoreUnit = 1000

// minHits is the least number of hits of a track, in r and on φ planes each (L1-farm §3.4).
const minHits = 3

// cuts are the cuts for a detector. They were set for the default one; a detector with wider strips has wider windows.
// MinScore accepts about 3.5 % of the events without B mesons of seeds 11 and 12.
func (d *Detector) cuts() cuts {
	return cuts{
		BeamLow:          -200,
		BeamHigh:         200,
		RWindow:          0.1 * d.widthRatio,
		MinHits:          minHits,
		MaxChi2:          9,
		MinPrimaryTracks: 5,
		PrimaryWindow:    1.5 * d.widthRatio,
		BeforePrimary:    20,
		BehindPrimary:    60,
		MaxTrackChi2:     4,
		MinImpact:        0.08,
		MaxImpact:        8,
		MinSignificance:  3,
		MinPhiHits:       minHits,
		PhiWindow:        0.15 * d.widthRatio,
		MaxApart:         0.2 * d.widthRatio,
		MinFlight:        1,
		MinFlightSigmas:  4,
		MinScore:         3.3,
	}
}
