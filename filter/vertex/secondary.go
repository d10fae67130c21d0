package vertex

import "math"

// Step 7, the secondary vertex: two tracks in space that meet behind the primary vertex. Its score says how much more
// likely a pair like this is where a B meson decayed than where none did.

// Secondary is a pair of tracks that meet.
type Secondary struct {
	Point
	Primary      int     // number of the primary vertex that it is behind
	Flight       float64 // the distance along the beam, mm,
	FlightSigmas float64 // and in units of its error
	Apart        float64 // how far the tracks pass each other by, mm
	Score        float64
}

// findSecondary looks for the pair with the highest score. It is false if there is none.
func (f *Finder) findSecondary() bool {
	f.secondary = Secondary{}
	found := false
	var first, second int
	for i := range f.spatial {
		a := &f.spatial[i]
		if a.Significance < f.cuts.Significance {
			continue
		}
		for k := i + 1; k < len(f.spatial); k++ {
			b := &f.spatial[k]
			if b.Significance < f.cuts.Significance || a.primary != b.primary {
				continue
			}
			s, ok := f.pair(a, b)
			if !ok {
				continue
			}
			if !found || s.Score > f.secondary.Score {
				f.secondary, found, first, second = s, true, i, k
			}
		}
	}
	if found {
		f.countOthers(first, second)
	}
	return found
}

// transversePoint is a track at a z, in x and y.
type transversePoint struct{ x, y, tx, ty float64 }

func (f *Finder) transverseAt(t *Track, z float64) transversePoint {
	s := &f.detector.sectors[t.sector]
	u, v := t.u.value(z), t.v.value(z)
	return transversePoint{
		x: u*s.cos - v*s.sin, y: u*s.sin + v*s.cos,
		tx: t.u.slope*s.cos - t.v.slope*s.sin, ty: t.u.slope*s.sin + t.v.slope*s.cos,
	}
}

// varianceAlong is σ² of a track's place at z in a direction.
func (f *Finder) varianceAlong(t *Track, z, ex, ey float64) float64 {
	s := &f.detector.sectors[t.sector]
	eu, ev := ex*s.cos+ey*s.sin, ey*s.cos-ex*s.sin
	return t.kinks + eu*eu*t.u.variance(z) + ev*ev*t.v.variance(z)
}

// pair is the vertex of two tracks, if they may have one.
func (f *Finder) pair(a, b *Track) (s Secondary, ok bool) {
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
	if flight < f.cuts.Flight || apart > f.cuts.Apart {
		return s, false
	}
	z := p.Z + flight
	if z > min(a.begins, b.begins) {
		return s, false // a particle decays before its tracks are seen
	}
	angle := math.Sqrt(open)
	v := f.varianceAlong(a, z, tx/angle, ty/angle) + f.varianceAlong(b, z, tx/angle, ty/angle)
	sz := math.Sqrt(v) / angle
	s = Secondary{Primary: a.primary, Flight: flight, Apart: apart}
	s.FlightSigmas = flight / math.Hypot(sz, p.SZ)
	if s.FlightSigmas < f.cuts.FlightSigmas {
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
	s.Score = score(a, b, apart*apart/vx, angle, len(f.tracks))
	return s, true
}

// score adds up what speaks for a decay, each in the weight that a logistic regression gave it (events of seed 11, with
// B mesons and without, the pair with the highest score of each; docs/design/053-filter.md). The constant of the
// regression is left out, so a score is not a probability. Scattering and chance make tracks that are not straight or
// have few hits, and a busy event has more of them.
func score(a, b *Track, apart, angle float64, tracks int) float64 {
	return 1.21*math.Log(min(a.Significance, b.Significance)) +
		1.14*math.Log(max(a.Significance, b.Significance)) +
		0.31*math.Log(angle) -
		0.166*apart -
		2.12*math.Log(a.bent*b.bent) -
		1.10*(a.across+b.across) +
		0.275*float64(min(a.hits, b.hits)) -
		0.0067*float64(tracks)
}

// countOthers counts the other tracks that meet the vertex of two.
func (f *Finder) countOthers(i, k int) {
	s := &f.secondary
	for n := range f.spatial {
		t := &f.spatial[n]
		if n == i || n == k || t.primary != s.Primary || t.begins < s.Z {
			continue
		}
		at := f.transverseAt(t, s.Z)
		dx, dy := at.x-s.X, at.y-s.Y
		away := math.Hypot(dx, dy)
		if away > 2*f.cuts.Apart || away == 0 {
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

// sameVertexChi2 is how far, in squared standard deviations, another track of a vertex may pass it by.
const sameVertexChi2 = 6

// minSlopeDifference is the difference in slope below which two tracks do not say where they meet.
const minSlopeDifference = 0.002
