package velo

import (
	"math"
	"sort"
)

// Kind is the coordinate that a sensor measures.
type Kind uint8

// The two kinds.
const (
	R Kind = iota
	Phi
)

func (k Kind) String() string {
	if k == R {
		return "R"
	}
	return "phi"
}

// Side is a half of the detector.
type Side uint8

// The two halves: at x > 0 and at x < 0.
const (
	Right Side = iota
	Left
)

func (s Side) String() string {
	if s == Right {
		return "right"
	}
	return "left"
}

// Sensor is the sensor that a board reads.
type Sensor struct {
	Kind    Kind
	Side    Side
	Station int
	Z       float64 // mm
	// FirstAzimuth and LastAzimuth are where the sensor begins and ends, in rad: around 0 on the right, around π on the
	// left.
	FirstAzimuth, LastAzimuth float64
	// StereoSign is the sign of the stereo angles: +1 or -1.
	StereoSign float64
}

// zone is the strips of a φ sensor between two radii.
type zone struct {
	inner, outer float64 // radii in mm
	first        int     // strip
	strips       int
	stripAngle   float64 // rad from strip to strip
	stereo       float64 // rad
	lineOffset   float64 // mm, distance of the strip's line from the beam: inner·sin(stereo)
}

// Geometry is the tables of a detector's geometry. It is immutable.
type Geometry struct {
	layout     Layout
	sensors    []Sensor
	span       float64   // rad
	stripEdges []float64 // mm, of the strips of a sector: strip i is between edges i and i+1
	zones      []zone
}

// New computes the tables of a layout. The error is a *LayoutError.
func New(l Layout) (*Geometry, error) {
	if err := l.validate(); err != nil {
		return nil, err
	}
	g := &Geometry{layout: l, span: l.Span * math.Pi / 180}
	for _, kind := range []Kind{R, Phi} {
		for station, z := range l.Stations {
			for _, side := range []Side{Right, Left} {
				s := Sensor{
					Kind:         kind,
					Side:         side,
					Station:      station,
					Z:            z + float64(kind)*l.PhiShift + float64(side)*l.LeftShift,
					FirstAzimuth: float64(side)*math.Pi - g.span/2,
					LastAzimuth:  float64(side)*math.Pi + g.span/2,
					StereoSign:   float64(1 - 2*(station&1)),
				}
				g.sensors = append(g.sensors, s)
			}
		}
	}
	step := (l.R.OuterPitch - l.R.InnerPitch) / float64(l.R.Strips-1)
	edge := l.R.InnerRadius
	for i := range l.R.Strips {
		g.stripEdges = append(g.stripEdges, edge)
		edge += l.R.InnerPitch + float64(step*float64(i))
	}
	g.stripEdges = append(g.stripEdges, edge)
	first := 0
	for _, z := range l.Phi.Zones {
		stereo := z.Stereo * math.Pi / 180
		g.zones = append(g.zones, zone{
			inner:      z.InnerRadius,
			outer:      z.OuterRadius,
			first:      first,
			strips:     z.Strips,
			stripAngle: g.span / float64(z.Strips),
			stereo:     stereo,
			lineOffset: z.InnerRadius * math.Sin(stereo),
		})
		first += z.Strips
	}
	return g, nil
}

// Layout is the layout of the geometry.
func (g *Geometry) Layout() Layout { return g.layout }

// Boards is the number of boards: four for each station.
func (g *Geometry) Boards() int { return len(g.sensors) }

// Sensor is the sensor of a board. All R sensors come before all φ sensors; within a kind the order is that of the
// stations, the right half before the left.
func (g *Geometry) Sensor(board int) Sensor { return g.sensors[board] }

// BoardOf is the board of a sensor.
func (g *Geometry) BoardOf(kind Kind, station int, side Side) int {
	return int(kind)*len(g.sensors)/2 + 2*station + int(side)
}

// Strips is the number of strips of a board.
func (g *Geometry) Strips(board int) int {
	if g.sensors[board].Kind == R {
		return g.layout.R.Sectors * g.layout.R.Strips
	}
	last := &g.zones[len(g.zones)-1]
	return last.first + last.strips
}

// AreNeighbours says whether a strip and the next one are neighbours on the sensor: they are not where a sector or zone
// ends.
func (g *Geometry) AreNeighbours(kind Kind, strip int) bool {
	if kind == R {
		return (strip+1)%g.layout.R.Strips != 0
	}
	for i := range g.zones {
		if z := &g.zones[i]; strip < z.first+z.strips {
			return strip+1 < z.first+z.strips
		}
	}
	return false
}

// Radius is the radius in mm of a cluster of an R sensor: the middle of its strip, or the border of its two strips.
func (g *Geometry) Radius(c Cluster) float64 {
	i := c.Strip() % g.layout.R.Strips
	if c.HasTwoStrips() {
		return g.stripEdges[i+1]
	}
	return (g.stripEdges[i] + g.stripEdges[i+1]) / 2
}

// Pitch is the width in mm of a strip of an R sensor.
func (g *Geometry) Pitch(strip int) float64 {
	i := strip % g.layout.R.Strips
	return g.stripEdges[i+1] - g.stripEdges[i]
}

// Radii are the inner and the outer radius of the strips of R sensors, in mm.
func (g *Geometry) Radii() (inner, outer float64) {
	return g.stripEdges[0], g.stripEdges[len(g.stripEdges)-1]
}

// Sectors is the number of sectors of an R sensor; the strips of sector k begin with k × Strips / Sectors.
func (g *Geometry) Sectors() int { return g.layout.R.Sectors }

// Sector is the sector of a strip of an R sensor, and the azimuths in rad where it begins and ends on a board.
func (g *Geometry) Sector(board, strip int) (sector int, first, last float64) {
	sector = strip / g.layout.R.Strips
	width := g.span / float64(g.layout.R.Sectors)
	first = g.sensors[board].FirstAzimuth + width*float64(sector)
	return sector, first, first + width
}

// zoneOf is the zone of a strip of a φ sensor.
func (g *Geometry) zoneOf(strip int) *zone {
	for i := range g.zones {
		if z := &g.zones[i]; strip < z.first+z.strips {
			return z
		}
	}
	return &g.zones[len(g.zones)-1]
}

// ZoneRadii are the inner and the outer radius of the zone of a φ sensor's strip, in mm.
func (g *Geometry) ZoneRadii(strip int) (inner, outer float64) {
	z := g.zoneOf(strip)
	return z.inner, z.outer
}

// ClusterAzimuth is the azimuth in rad of a cluster of a φ sensor at radius r, in mm, within the cluster's zone: strips
// are not radial. It is near 0 on the right and near π on the left, and may be beyond ±π.
func (g *Geometry) ClusterAzimuth(board int, c Cluster, r float64) float64 {
	z := g.zoneOf(c.Strip())
	s := &g.sensors[board]
	place := float64(c.Strip()-z.first) + 0.5 + 0.5*float64(c.Size()-1)
	return s.FirstAzimuth + float64(place*z.stripAngle) + float64(s.StereoSign*z.azimuthShift(r))
}

// StripAngle is the angle in rad from strip to strip in the zone of a φ sensor's strip.
func (g *Geometry) StripAngle(strip int) float64 { return g.zoneOf(strip).stripAngle }

// azimuthShift is the azimuth of a strip at radius r minus its azimuth at the inner radius of its zone, in rad.
func (z *zone) azimuthShift(r float64) float64 {
	return z.stereo - math.Asin(max(-1, min(1, z.lineOffset/r)))
}

// StripPosition is a point on a sensor, in strips.
type StripPosition struct {
	Strip      int     // the strip that the point is in
	Fraction   float64 // where in the strip, 0..1
	FirstStrip int     // first strip of the sector or zone
	EndStrip   int     // first strip after it
	Pitch      float64 // mm, width of the strip there
}

// LocateR finds the strip of an R sensor's board at radius r, in mm, and azimuth phi, in rad; false if there is none.
func (g *Geometry) LocateR(board int, r, phi float64) (StripPosition, bool) {
	s, n := &g.sensors[board], g.layout.R.Strips
	if !(r >= g.stripEdges[0] && r < g.stripEdges[n]) || !(phi >= s.FirstAzimuth && phi < s.LastAzimuth) {
		return StripPosition{}, false
	}
	sector := min(int((phi-s.FirstAzimuth)/g.span*float64(g.layout.R.Sectors)), g.layout.R.Sectors-1)
	i := min(g.stripAtRadius(r), n-1)
	pitch := g.stripEdges[i+1] - g.stripEdges[i]
	return StripPosition{
		Strip:      sector*n + i,
		Fraction:   (r - g.stripEdges[i]) / pitch,
		FirstStrip: sector * n,
		EndStrip:   sector*n + n,
		Pitch:      pitch,
	}, true
}

// stripAtRadius is the strip of a sector at radius r, which must be within the sector.
func (g *Geometry) stripAtRadius(r float64) int {
	return sort.Search(len(g.stripEdges)-1, func(i int) bool { return g.stripEdges[i+1] > r })
}

// LocatePhi finds the strip of a φ sensor's board at radius r, in mm, and azimuth phi, in rad; false if there is none.
func (g *Geometry) LocatePhi(board int, r, phi float64) (StripPosition, bool) {
	s := &g.sensors[board]
	for i := range g.zones {
		z := &g.zones[i]
		if !(r >= z.inner && r < z.outer) {
			continue
		}
		at := (phi - s.FirstAzimuth - float64(s.StereoSign*z.azimuthShift(r))) / z.stripAngle
		if !(at >= 0 && at < float64(z.strips)) {
			return StripPosition{}, false
		}
		strip := min(int(at), z.strips-1)
		return StripPosition{
			Strip:      z.first + strip,
			Fraction:   at - float64(strip),
			FirstStrip: z.first,
			EndStrip:   z.first + z.strips,
			Pitch:      r * z.stripAngle,
		}, true
	}
	return StripPosition{}, false
}
