package vertex

import "math"

// Picture is what a Finder has found in an event, for a drawing in the plane of z and r, in mm. r is the distance to
// the beam; it is negative in the half of the detector with x < 0.
type Picture struct {
	Planes    [][3]float64  `json:"planes"` // of r sensors: z, and the inner and outer r of their strips
	Hits      [][2]float64  `json:"hits"`   // clusters on r sensors: z, r
	Tracks    []DrawnTrack  `json:"tracks"` // in r and z
	Primaries []DrawnVertex `json:"primaries"`
	Secondary *DrawnVertex  `json:"secondary,omitempty"`
}

// DrawnTrack is a track from where it meets the beam to its outermost hit.
type DrawnTrack struct {
	From      [2]float64 `json:"from"`
	To        [2]float64 `json:"to"`
	Displaced bool       `json:"displaced"` // it misses the primary vertex, and was found in space
}

// DrawnVertex is a vertex.
type DrawnVertex struct {
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
	Z      float64 `json:"z"`
	SZ     float64 `json:"sz"` // σ
	Tracks int     `json:"tracks"`
}

// Picture is the picture of the last event, whose Find has returned r. It allocates; a filter does not need it.
func (f *Finder) Picture(r *Result) Picture {
	p := Picture{Hits: [][2]float64{}, Tracks: []DrawnTrack{}, Primaries: []DrawnVertex{}}
	for s := range f.detector.sides {
		sign := f.detector.sign(s)
		for _, z := range f.detector.sides[s].rPlaneZ {
			p.Planes = append(p.Planes, [3]float64{roundForJSON(z), roundForJSON(sign * f.detector.innerRadius),
				roundForJSON(sign * f.detector.outerRadius)})
		}
	}
	for k := range f.detector.sectors {
		side := f.detector.sectors[k].side
		for plane, z := range f.detector.sides[side].rPlaneZ {
			for _, h := range f.hits(k, plane) {
				p.Hits = append(p.Hits, [2]float64{roundForJSON(z), roundForJSON(f.detector.sign(side) * h.r)})
			}
		}
	}
	for i := range f.tracks {
		t := &f.tracks[i]
		side := f.detector.sectors[t.sector].side
		z := f.detector.sides[side].rPlaneZ[t.planes[0]]
		p.Tracks = append(p.Tracks, DrawnTrack{
			From: [2]float64{roundForJSON(t.beamCrossing()), 0},
			To:   [2]float64{roundForJSON(z), roundForJSON(f.detector.sign(side) * t.value(z))},
		})
	}
	for i := range f.spatialTracks {
		p.Tracks[f.spatialTracks[i].rTrack].Displaced = true
	}
	for i := range r.Primaries {
		p.Primaries = append(p.Primaries, newDrawnVertex(&r.Primaries[i]))
	}
	if r.HasSecondary {
		p.Secondary = new(newDrawnVertex(&r.Secondary.Point))
	}
	return p
}

func newDrawnVertex(p *Point) DrawnVertex {
	return DrawnVertex{
		X:      roundForJSON(p.X),
		Y:      roundForJSON(p.Y),
		Z:      roundForJSON(p.Z),
		SZ:     roundForJSON(p.SZ),
		Tracks: p.Tracks,
	}
}

// sign is the sign of x in the middle of a side.
func (d *Detector) sign(side int) float64 {
	x := 0.0
	for i := range d.sectors {
		if d.sectors[i].side == side {
			x += d.sectors[i].cos
		}
	}
	return math.Copysign(1, x)
}

// roundForJSON rounds to 1 µm, enough for a drawing, and replaces NaN and infinities, which JSON cannot express.
func roundForJSON(mm float64) float64 {
	if math.IsNaN(mm) || math.Abs(mm) > 1e6 {
		return math.Copysign(1e6, mm)
	}
	return math.Round(mm*1000) / 1000
}
