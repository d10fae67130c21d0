package vertex

import "ringlet/event/velo"

// Pipeline of an event, one goroutine, no allocation:
//
//	1 Begin, Add   clusters of each board, sorted by sector and plane                    hits.go
//	2 search       tracks in r and z                                                     search.go
//	3 primaries    where most of them meet the beam: histogram, then a fit               primary.go
//	4 displaced    impact parameters; those that are large are found in space, by the φ  space.go
//	               planes
//	5 secondary    pairs that meet behind the primary vertex, and the verdict            secondary.go
//
// The lists are the Finder's and are used again for the next event.

// Cuts are what the search asks of tracks and vertices. Lengths are in mm.
type Cuts struct {
	BeamLow, BeamHigh float64 // z between which particles come from the beam
	Window            float64 // how far from a line a hit may be
	Hits              int     // the least of a track, in r
	Chi2              float64 // the most of a track, for each degree of freedom

	PrimaryTracks int     // the least of a primary vertex
	NearImpact    float64 // impact parameters from which tracks are looked at in space,
	FarImpact     float64 // and up to which
	Significance  float64 // of an impact parameter, the least
	PhiHits       int     // the least of a track in space
	PhiWindow     float64 // how far from a line a φ hit may be

	Apart        float64 // how far two tracks of a vertex may pass each other by
	Flight       float64 // the least distance along the beam from the primary vertex
	FlightSigmas float64 // the same in units of its error
	Score        float64 // of an event that is accepted, the least
}

// Finder looks for vertices in events, one after the other. It is for one goroutine.
type Finder struct {
	d    *Detector
	cuts Cuts

	r     []rHit
	at    []span // by sector and plane
	phi   []phiHit
	phiAt [2][]span // by side and plane

	tracks      []track  // in r and z
	best, trial *track   // of the search
	bins        []uint16 // histogram of z0
	primaries   []Point

	spatial   []Track
	points    []point   // of a track in hand, on φ planes
	pointAt   []spanOf  // by plane
	secondary Secondary // the best
}

// most of each list. What is beyond is left out: an event with so much in it is decided by the rest.
const (
	mostTracks    = 1024
	mostSpatial   = 64
	mostPoints    = 512
	mostPrimaries = 4
)

// NewFinder makes a Finder.
func NewFinder(d *Detector, cuts Cuts) *Finder {
	f := &Finder{
		d:         d,
		cuts:      cuts,
		r:         make([]rHit, 0, len(d.boards)*velo.MaxClusters),
		phi:       make([]phiHit, 0, len(d.boards)*velo.MaxClusters),
		at:        make([]span, len(d.sectors)*d.most),
		tracks:    make([]track, 0, mostTracks),
		best:      new(track),
		trial:     new(track),
		bins:      make([]uint16, int((cuts.BeamHigh-cuts.BeamLow)/binWidth)+1),
		primaries: make([]Point, 0, mostPrimaries),
		spatial:   make([]Track, 0, mostSpatial),
		points:    make([]point, 0, mostPoints),
	}
	for s := range d.sides {
		f.phiAt[s] = make([]span, len(d.sides[s].phi))
	}
	f.pointAt = make([]spanOf, 0, d.most)
	return f
}
