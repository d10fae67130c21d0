package vertex

import "ringlet/velo"

// Pipeline of an event, one goroutine, no allocation:
//
//	1 AddBoard     clusters of each board, sorted by sector and plane                    hits.go
//	2 peaks        where most pairs of hits point to the beam: a histogram               primary.go
//	3 search       tracks in r and z from the peaks                                      search.go
//	4 primaries    the vertices of these tracks: a fit                                   primary.go
//	5 search       tracks of the remaining hits that miss the vertices                   search.go
//	6 displaced    those of them that the φ planes confirm in space                      space.go
//	7 secondary    pairs that meet behind the primary vertex, and the verdict            secondary.go
//
// The Finder owns the lists and reuses them for the next event.

// cuts are the conditions of the search for tracks and vertices. Lengths are in mm.
type cuts struct {
	BeamLow, BeamHigh float64 // range of z in which particles come from the beam
	RWindow           float64 // largest distance of a hit from a line
	MinHits           int     // fewest hits of a track, in r
	MaxChi2           float64 // largest χ² for each degree of freedom of a track

	MinPrimaryTracks int     // fewest tracks of a primary vertex
	PrimaryWindow    float64 // largest distance along the beam from a peak to where its tracks meet the beam
	BeforePrimary    float64 // largest distance before a primary vertex at which another track may meet the beam
	BehindPrimary    float64 // the same behind it
	MaxTrackChi2     float64 // largest χ² for each degree of freedom of a track in space
	MinImpact        float64 // least impact parameter of a track in space
	MaxImpact        float64 // largest impact parameter of a track in space
	MinSignificance  float64 // least impact parameter in units of its error
	MinPhiHits       int     // fewest φ hits of a track in space
	PhiWindow        float64 // largest distance of a φ hit from a line

	MaxApart        float64 // largest distance between two tracks of a vertex
	MinFlight       float64 // least distance along the beam from the primary vertex
	MinFlightSigmas float64 // the same in units of its error
	MinScore        float64 // least score of an accepted event
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
	peaks                 []float64 // of the histogram, mm
	primaries             []Point

	spatialTracks []Track
	points        []point       // of the current track, on φ planes
	pointsByPlane []planePoints // by plane
	scatterAngle  float64       // angle by which the current track is scattered
	secondary     Secondary     // the best so far
}

// Sizes of the lists. When one is full, the search leaves out the rest of the event.
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
