package vertex

import "math"

// Step 7, the secondary vertex: two tracks in space that meet behind the primary vertex. The higher its score, the more
// likely a B meson has decayed there.

// Secondary is a pair of tracks that meet.
type Secondary struct {
	Point
	Primary       int     // index of the primary vertex before it
	Flight        float64 // distance from the primary vertex along the beam, mm,
	FlightSigmas  float64 // and in units of its error
	TrackDistance float64 // distance between the two tracks, mm
	Score         float64
}

// findSecondary looks for the pair with the highest score; false if there is none.
func (f *Finder) findSecondary() bool {
	f.secondary = Secondary{}
	found := false
	var first, second int
	for i := range f.spatialTracks {
		a := &f.spatialTracks[i]
		if a.Significance < f.cuts.MinSignificance {
			continue
		}
		for k := i + 1; k < len(f.spatialTracks); k++ {
			b := &f.spatialTracks[k]
			if b.Significance < f.cuts.MinSignificance || a.primary != b.primary {
				continue
			}
			s, ok := f.fitPair(a, b)
			if !ok {
				continue
			}
			if !found || s.Score > f.secondary.Score {
				f.secondary, found, first, second = s, true, i, k
			}
		}
	}
	if found {
		f.countOtherTracks(first, second)
	}
	return found
}

// transversePoint is a track at a z, in x and y.
type transversePoint struct{ x, y, tx, ty float64 }

func (f *Finder) transverseAt(t *Track, z float64) transversePoint {
	s := &f.detector.sectors[t.sector]
	u, v := t.alongSector.value(z), t.acrossSector.value(z)
	return transversePoint{
		x: u*s.cos - v*s.sin, y: u*s.sin + v*s.cos,
		tx: t.alongSector.slope*s.cos - t.acrossSector.slope*s.sin, ty: t.alongSector.slope*s.sin +
			t.acrossSector.slope*s.cos,
	}
}

// varianceAlong is σ² of a track's position at z in the direction ex, ey.
func (f *Finder) varianceAlong(t *Track, z, ex, ey float64) float64 {
	s := &f.detector.sectors[t.sector]
	eu, ev := ex*s.cos+ey*s.sin, ey*s.cos-ex*s.sin
	return t.scatterVar + eu*eu*t.alongSector.variance(z) + ev*ev*t.acrossSector.variance(z)
}

// fitPair is the vertex of two tracks; ok is false if they do not pass the cuts.
func (f *Finder) fitPair(a, b *Track) (s Secondary, ok bool) {
	p := &f.primaries[a.primary]
	one, two := f.transverseAt(a, p.Z), f.transverseAt(b, p.Z)
	dx, dy, tx, ty := one.x-two.x, one.y-two.y, one.tx-two.tx, one.ty-two.ty
	open := tx*tx + ty*ty
	if open < minSlopeDifference*minSlopeDifference {
		return s, false
	}
	flight := -(dx*tx + dy*ty) / open
	ax, ay := dx+tx*flight, dy+ty*flight
	apart := math.Sqrt(ax*ax + ay*ay)
	if flight < f.cuts.MinFlight || apart > f.cuts.MaxApart {
		return s, false
	}
	z := p.Z + flight
	if z > min(a.firstHitZ, b.firstHitZ) {
		return s, false // a particle decays before its tracks are seen
	}
	angle := math.Sqrt(open)
	v := f.varianceAlong(a, z, tx/angle, ty/angle) + f.varianceAlong(b, z, tx/angle, ty/angle)
	sz := math.Sqrt(v) / angle
	s = Secondary{Primary: a.primary, Flight: flight, TrackDistance: apart}
	s.FlightSigmas = flight / math.Hypot(sz, p.SZ)
	if s.FlightSigmas < f.cuts.MinFlightSigmas {
		return s, false
	}
	s.Point = Point{
		X:      (one.x + two.x + (one.tx+two.tx)*flight) / 2,
		Y:      (one.y + two.y + (one.ty+two.ty)*flight) / 2,
		Z:      z,
		SZ:     sz,
		Tracks: 2,
	}
	vx := f.varianceAlong(a, z, -ty/angle, tx/angle) + f.varianceAlong(b, z, -ty/angle, tx/angle)
	s.SX, s.SY = math.Sqrt(vx/2), math.Sqrt(vx/2)
	s.Score = decayScore(a, b, apart*apart/vx, angle, len(f.tracks))
	return s, true
}

// decayScore is the weighted sum of the properties by which decays differ from chance. The weights are those of a
// logistic regression (events of seed 11, with B mesons and without, the pair with the highest score of each;
// docs/design/053-filter.md). It omits the constant of the regression, so a score is not a probability. Scattering and
// chance make tracks that are not straight or have few hits, and a busy event has more of them.
func decayScore(a, b *Track, apart, angle float64, tracks int) float64 {
	return 1.21*math.Log(min(a.Significance, b.Significance)) +
		1.14*math.Log(max(a.Significance, b.Significance)) +
		0.31*math.Log(angle) -
		0.166*apart -
		2.12*math.Log(a.lineChi2*b.lineChi2) -
		1.10*(a.acrossChi2+b.acrossChi2) +
		0.275*float64(min(a.rHitCount, b.rHitCount)) -
		0.0067*float64(tracks)
}

// countOtherTracks adds to the secondary vertex of tracks i and k the number of other tracks that meet it.
func (f *Finder) countOtherTracks(i, k int) {
	s := &f.secondary
	for n := range f.spatialTracks {
		t := &f.spatialTracks[n]
		if n == i || n == k || t.primary != s.Primary || t.firstHitZ < s.Z {
			continue
		}
		at := f.transverseAt(t, s.Z)
		dx, dy := at.x-s.X, at.y-s.Y
		away := math.Hypot(dx, dy)
		if away > 2*f.cuts.MaxApart || away == 0 {
			continue
		}
		ex, ey := dx/away, dy/away
		v := f.varianceAlong(t, s.Z, ex, ey) + s.SX*s.SX
		turn := (at.tx*ex + at.ty*ey) * s.SZ
		if away*away < sameVertexChi2*(v+turn*turn) {
			s.Tracks++
		}
	}
}

// sameVertexChi2 is the largest distance of another track from the vertex, in squared standard deviations.
const sameVertexChi2 = 6

// minSlopeDifference is the least difference in slope of two tracks: nearly parallel ones have no precise vertex.
const minSlopeDifference = 0.002
