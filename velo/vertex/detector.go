package vertex

import (
	"math"
	"sort"

	"ringlet/velo"
)

// Detector is the tables of a geometry that the search needs. It is immutable: any number of Finders may share it.
type Detector struct {
	boards          []board
	sides           [2]side
	sectors         []sector
	radii           []clusterRadius // of a sector, by cluster: two for each strip
	stripsPerSector int
	// of a φ board, by cluster: azimuth at the inner radius of its zone, counted from where the board begins
	azimuth      []float64
	zones        []zone
	innerRadius  float64 // of the strips of r sensors, mm
	outerRadius  float64
	maxPlanes    int     // r planes of a side
	azimuthError float64 // error of a distance to the beam from the unknown azimuth within a sector, mm
	widthRatio   float64 // width of the widest strips, in units of those of the default detector; at least 1
}

// board says to which side and plane the clusters of a board belong.
type board struct {
	isPhi  bool
	side   int
	plane  int // of its side and kind, in order of z
	sector int // first sector of an r board
	strips int
}

// side is a half of the detector: its planes in order of z.
type side struct {
	rPlaneZ   []float64  // of r planes
	phiPlanes []phiPlane // of φ planes
	// By r plane: if a track begins or ends there, phiFrom is the first and phiTo the last φ plane that can have a hit of
	// it. They lie between the r plane before and the one after.
	phiFrom, phiTo []int
}

// phiPlane is a φ sensor.
type phiPlane struct {
	z          float64
	stereoSign float64 // sign of the stereo angles
}

// zone is the part of φ boards between two radii: strips side by side, which all turn by the same angle on their way
// outwards. So the azimuth of a cluster at radius r is its azimuth at the inner radius plus azimuthTurn(r).
type zone struct {
	innerRadius, outerRadius float64
	endCluster               int       // cluster after its last
	stripAngle               float64   // rad from strip to strip
	turns                    []float64 // by radius, in steps of 1/stepsPerMM, from innerRadius - zoneMargin on
	stepsPerMM               float64
}

// turnSteps is the number of steps of the radius in the table zone.turns.
const turnSteps = 256

// azimuthTurn is the azimuth of a strip at radius r minus its azimuth at the inner radius, in rad.
func (z *zone) azimuthTurn(r float64) float64 {
	at := (r - z.innerRadius + zoneMargin) * z.stepsPerMM
	i := min(max(int(at), 0), turnSteps-1)
	return z.turns[i] + (at-float64(i))*(z.turns[i+1]-z.turns[i])
}

// clusterRadius is the radius of an r cluster, and 1/σ².
type clusterRadius struct{ r, weight float64 }

// sector is a range of azimuths of a side.
type sector struct {
	side        int
	cos, sin    float64 // of the azimuth of its middle
	halfWidth   float64 // rad, half its width
	sensorStart float64 // azimuth at which the sensor begins, from the middle of the sector
}

// clustersPerStrip is how many clusters may begin at each strip.
const clustersPerStrip = 2

// NewDetector computes the tables of a geometry. The error is a *GeometryError.
func NewDetector(g *velo.Geometry) (*Detector, error) {
	if err := checkGeometry(g); err != nil {
		return nil, err
	}
	d := &Detector{stripsPerSector: g.Layout().R.Strips, boards: make([]board, g.Boards())}
	d.innerRadius, d.outerRadius = g.Radii()
	d.azimuthError = beamOffset * sectorWidth(g) / sqrt12
	d.widthRatio = max(1, widestPitch(g)/pitchOfDefault)
	for i := range d.stripsPerSector {
		for c := range clustersPerStrip {
			two := c == 1 && i+1 < d.stripsPerSector
			// A particle through the middle of a strip hits it alone, one near a border hits both neighbours: the place of
			// either is known to about half a pitch.
			sigma := g.Pitch(i) / math.Sqrt(12)
			if two {
				sigma *= 0.7
			}
			sigma = math.Hypot(sigma, alignment)
			d.radii = append(d.radii, clusterRadius{g.Radius(velo.NewCluster(i, two)), 1 / (sigma * sigma)})
		}
	}
	d.addZones(g)
	for s := range d.sides {
		d.addSide(g, velo.Side(s))
	}
	return d, nil
}

// addZones makes the tables of φ boards, which differ only in the sign of the stereo angles.
func (d *Detector) addZones(g *velo.Geometry) {
	b := g.BoardOf(velo.Phi, 0, velo.Right)
	s := g.Sensor(b)
	for i := range g.Strips(b) {
		inner, outer := g.ZoneRadii(i)
		if n := len(d.zones); n == 0 || d.zones[n-1].innerRadius != inner {
			one := velo.NewCluster(i, false)
			step := (outer - inner + 2*zoneMargin) / turnSteps
			z := zone{
				innerRadius: inner,
				outerRadius: outer,
				stripAngle:  g.StripAngle(i),
				stepsPerMM:  1 / step,
			}
			for k := range turnSteps + 1 {
				r := max(inner-zoneMargin+step*float64(k), inner/2)
				z.turns = append(z.turns, s.StereoSign*(g.ClusterAzimuth(b, one, r)-g.ClusterAzimuth(b, one, inner)))
			}
			d.zones = append(d.zones, z)
		}
		for c := range clustersPerStrip {
			d.azimuth = append(d.azimuth, g.ClusterAzimuth(b, velo.NewCluster(i, c == 1), inner)-s.FirstAzimuth)
		}
		d.zones[len(d.zones)-1].endCluster = clustersPerStrip * (i + 1)
	}
}

// alignment is the least error of a position, in mm: it bounds the weights of fine strips.
const alignment = 0.004

// addSide makes the planes and sectors of a side. A geometry has its stations in order of z, for each kind.
func (d *Detector) addSide(g *velo.Geometry, of velo.Side) {
	s := &d.sides[of]
	first := len(d.sectors)
	for station := range len(g.Layout().Stations) {
		b := g.BoardOf(velo.R, station, of)
		d.boards[b] = board{
			side:   int(of),
			plane:  station,
			sector: first,
			strips: g.Strips(b),
		}
		s.rPlaneZ = append(s.rPlaneZ, g.Sensor(b).Z)
		b = g.BoardOf(velo.Phi, station, of)
		d.boards[b] = board{
			isPhi:  true,
			side:   int(of),
			plane:  station,
			strips: g.Strips(b),
		}
		s.phiPlanes = append(s.phiPlanes, phiPlane{g.Sensor(b).Z, g.Sensor(b).StereoSign})
	}
	for p := range s.rPlaneZ {
		from := sort.Search(len(s.phiPlanes), func(i int) bool { return p == 0 || s.phiPlanes[i].z > s.rPlaneZ[p-1] })
		to := sort.Search(len(s.phiPlanes), func(i int) bool {
			return p+1 < len(s.rPlaneZ) &&
				s.phiPlanes[i].z > s.rPlaneZ[p+1]
		})
		s.phiFrom, s.phiTo = append(s.phiFrom, from), append(s.phiTo, to-1)
	}
	d.maxPlanes = max(d.maxPlanes, len(s.rPlaneZ))
	for k := range g.Sectors() {
		_, low, high := g.Sector(g.BoardOf(velo.R, 0, of), k*d.stripsPerSector)
		middle := (low + high) / 2
		d.sectors = append(d.sectors, sector{
			side:        int(of),
			cos:         math.Cos(middle),
			sin:         math.Sin(middle),
			halfWidth:   (high - low) / 2,
			sensorStart: g.Sensor(g.BoardOf(velo.R, 0, of)).FirstAzimuth - middle,
		})
	}
}
