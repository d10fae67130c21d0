package vertex

import "ringlet/velo"

// Pipeline of an event, one goroutine, no allocation:
//
//	1 Begin, Add   clusters of each board, sorted by sector and plane                    hits.go
//	2 peaks        where pairs of hits say that most tracks meet the beam: histogram     primary.go
//	3 search       tracks in r and z from there                                          search.go
//	4 primaries    the vertices of these tracks: a fit                                   primary.go
//	5 search       of the hits that are left: tracks that pass the vertices by
//	6 displaced    those of them that are found in space too, by the φ planes            space.go
//	7 secondary    pairs that meet behind the primary vertex, and the verdict            secondary.go
//
// The lists are the Finder's and are used again for the next event.

// cuts are what the search asks of tracks and vertices. Lengths are in mm.
type cuts struct {
	BeamLow, BeamHigh float64 // z between which particles come from the beam
	RWindow           float64 // how far from a line a hit may be
	MinHits           int     // the least of a track, in r
	MaxChi2           float64 // the most of a track, for each degree of freedom

	MinPrimaryTracks int     // the least of a primary vertex
	PrimaryWindow    float64 // how far from it along the beam its tracks may meet the beam
	BeforePrimary    float64 // how far before and
	BehindPrimary    float64 // behind it other tracks may
	MaxTrackChi2     float64 // χ² for each degree of freedom, the most of a track that is looked at in space
	MinImpact        float64 // impact parameters from which tracks are looked at in space,
	MaxImpact        float64 // and up to which
	MinSignificance  float64 // of an impact parameter, the least
	MinPhiHits       int     // the least of a track in space
	PhiWindow        float64 // how far from a line a φ hit may be

	MaxApart        float64 // how far two tracks of a vertex may pass each other by
	MinFlight       float64 // the least distance along the beam from the primary vertex
	MinFlightSigmas float64 // the same in units of its error
	MinScore        float64 // of an event that is accepted, the least
}

// Finder looks for vertices in events, one after the other. It is for one goroutine.
type Finder struct {
	detector *Detector
	cuts     cuts

	rHits    []rHit
	rSpans   []span // by sector and plane
	phiHits  []phiHit
	phiSpans [2][]span // by side, plane and zone

	tracks                []track   // in r and z
	bestTrack, trialTrack *track    // of the search
	bins                  []uint32  // histogram of where pairs of hits meet the beam
	peaks                 []float64 // of it, mm
	primaries             []Point

	spatialTracks []Track
	points        []point       // of a track in hand, on φ planes
	pointsByPlane []planePoints // by plane
	scatterAngle  float64       // by how much the track in hand is scattered
	secondary     Secondary     // the best
}

// most of each list. What is beyond is left out: an event with so much in it is decided by the rest.
const (
	maxTracks    = 1024
	maxSpatial   = 64
	maxPoints    = 512
	maxPrimaries = 4
)

// NewFinder makes a Finder.
func NewFinder(d *Detector) *Finder {
	cuts := d.cuts()
	f := &Finder{
		detector:      d,
		cuts:          cuts,
		rHits:         make([]rHit, 0, len(d.boards)*velo.MaxClusters),
		phiHits:       make([]phiHit, 0, len(d.boards)*velo.MaxClusters),
		rSpans:        make([]span, len(d.sectors)*d.maxPlanes),
		tracks:        make([]track, 0, maxTracks),
		bestTrack:     new(track),
		trialTrack:    new(track),
		peaks:         make([]float64, 0, maxPrimaries),
		bins:          make([]uint32, int((cuts.BeamHigh-cuts.BeamLow)/binWidth)+1),
		primaries:     make([]Point, 0, maxPrimaries),
		spatialTracks: make([]Track, 0, maxSpatial),
		points:        make([]point, 0, maxPoints),
	}
	for s := range d.sides {
		f.phiSpans[s] = make([]span, len(d.sides[s].phiPlanes)*len(d.zones))
	}
	f.pointsByPlane = make([]planePoints, 0, d.maxPlanes)
	return f
}
