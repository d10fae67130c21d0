package vertex

import (
	"math"
	"slices"

	"ringlet/event/velo"
)

// Detector is what the search needs of a geometry, as tables. It is immutable: any number of Finders may share it.
type Detector struct {
	boards  []board
	sides   [2]side
	sectors []sector
	radii   []place // of a sector, by cluster: two for each strip
	strips  int     // of a sector
	inner   float64 // radius
	outer   float64
	most    int // r planes of a side
}

// board is where a board's clusters belong.
type board struct {
	phi    bool
	side   int
	plane  int // of its side and kind, in order of z
	sector int // first of an r board
	strips int
}

// side is a half of the detector: its planes in order of z.
type side struct {
	z   []float64  // of r planes
	phi []phiPlane // of φ planes
}

// phiPlane is a φ sensor.
type phiPlane struct {
	z     float64
	lines []strip // by cluster: two for each strip
}

// strip is the straight line of a φ cluster: the points t·(cos, sin) + off·(-sin, cos), t > 0, between two radii.
type strip struct {
	cos, sin, off float64
	inner, outer  float64
	step          float64 // rad from strip to strip
}

// place is the radius of an r cluster, and 1/σ².
type place struct{ r, weight float64 }

// sector is a part in azimuth of a side.
type sector struct {
	side     int
	cos, sin float64 // of its middle
	half     float64 // rad, half its width
	least    float64 // cosine of the angle between its middle and the line of a strip in it
}

// clusters is how many clusters may begin at each strip.
const clusters = 2

// NewDetector computes the tables of a geometry.
func NewDetector(g *velo.Geometry) *Detector {
	d := &Detector{strips: g.Layout().R.Strips, boards: make([]board, g.Boards())}
	d.inner, d.outer = g.Radii()
	for i := range d.strips {
		for c := range clusters {
			two := c == 1 && i+1 < d.strips
			// A strip hit in its middle is alone, one hit near its border is not: each of the two covers half a pitch or so.
			sigma := g.Pitch(i) / math.Sqrt(12)
			if two {
				sigma *= 0.7
			}
			sigma = math.Hypot(sigma, alignment)
			d.radii = append(d.radii, place{g.Radius(velo.NewCluster(i, two)), 1 / (sigma * sigma)})
		}
	}
	for s := range d.sides {
		d.addSide(g, velo.Side(s))
	}
	return d
}

// alignment is the least error of a place, in mm: it keeps the weights of fine strips in bounds.
const alignment = 0.004

// margin is how far beside a sector, in rad, strips are looked at.
const margin = 0.05

// addSide makes the planes and sectors of a side. A geometry has its stations in order of z, for each kind.
func (d *Detector) addSide(g *velo.Geometry, of velo.Side) {
	s := &d.sides[of]
	first := len(d.sectors)
	for station := range len(g.Layout().Stations) {
		b := g.BoardOf(velo.R, station, of)
		d.boards[b] = board{side: int(of), plane: station, sector: first, strips: g.Strips(b)}
		s.z = append(s.z, g.Sensor(b).Z)
		b = g.BoardOf(velo.Phi, station, of)
		d.boards[b] = board{phi: true, side: int(of), plane: station, strips: g.Strips(b)}
		s.phi = append(s.phi, phiPlane{g.Sensor(b).Z, lines(g, b)})
	}
	d.most = max(d.most, len(s.z))
	turned := 0.0 // the most that a strip's line points beside the azimuth of its points
	for _, l := range s.phi[0].lines {
		turned = max(turned, math.Asin(min(1, math.Abs(l.off)/l.inner)))
	}
	for k := range g.Sectors() {
		_, low, high := g.Sector(g.BoardOf(velo.R, 0, of), k*d.strips)
		middle := (low + high) / 2
		d.sectors = append(d.sectors, sector{
			side:  int(of),
			cos:   math.Cos(middle),
			sin:   math.Sin(middle),
			half:  (high - low) / 2,
			least: math.Cos(min(math.Pi, (high-low)/2+turned+margin)),
		})
	}
}

// lines are the straight lines of a φ board's clusters.
func lines(g *velo.Geometry, b int) []strip {
	list := make([]strip, 0, clusters*g.Strips(b))
	for i := range g.Strips(b) {
		inner, outer := g.ZoneRadii(i)
		for c := range clusters {
			cluster := velo.NewCluster(i, c == 1)
			far := g.Phi(b, cluster, math.MaxFloat32) // where the line points to
			off := inner * math.Sin(g.Phi(b, cluster, inner)-far)
			list = append(list, strip{math.Cos(far), math.Sin(far), off, inner, outer, g.PhiStep(i)})
		}
	}
	return slices.Clip(list)
}
