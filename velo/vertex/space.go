package vertex

import "math"

// Step 6, tracks in space: the search looks on the φ planes only for tracks that miss the primary vertex (L1-farm
// §3.4). The r and z view shows only the part of the impact parameter along the sector's middle. If that part is small,
// the track may still come from the primary vertex: then its azimuth, seen from the vertex, is constant, and a vote of
// the φ planes (vote.go) tells so at less cost than a fit in space.
//
// The track's radius on each φ plane is known, so that a cluster is a point. The points of a track lie on a straight
// line across the sector's middle: the line through the two outer points that has most others near it.

// point is a φ cluster at a track's radius: its coordinate v across the sector's middle, in mm.
type point struct{ across, weight float64 }

// planePoints are the points of a φ plane.
type planePoints struct {
	z           float64
	first, last int32
}

// Track is a track in space, in the frame of its sector: u along the sector's middle, v across, both at z.
type Track struct {
	alongSector, acrossSector line
	sector                    int
	firstHitZ                 float64 // z of its first hit
	scatterVar                float64 // σ² of its distance from a vertex by scattering

	// Impact is its distance from the primary vertex, in mm, and Significance the same in units of its error.
	Impact, Significance float64
	primary              int // index of that vertex

	rTrack     int     // index of its track in r and z
	rHitCount  int     // hits of that track
	lineChi2   float64 // χ² of that track for each degree of freedom, at least 1
	acrossChi2 float64 // χ² of acrossSector for each degree of freedom
}

// findDisplaced looks for tracks with a large impact parameter, in space.
func (f *Finder) findDisplaced() {
	f.spatialTracks = f.spatialTracks[:0]
	if len(f.primaries) == 0 {
		return
	}
	for i := range f.tracks {
		t := &f.tracks[i]
		if !t.forwards || len(f.spatialTracks) == cap(f.spatialTracks) || t.lineChi2 > bentFactorInR*f.cuts.MaxTrackChi2 {
			continue
		}
		k, d, v := f.nearestPrimary(t)
		if d > f.cuts.MaxImpact {
			continue
		}
		beside := d >= f.cuts.MinImpact && d*d >= f.cuts.MinSignificance*f.cuts.MinSignificance*v
		if !beside && f.pointsToVertex(t, &f.primaries[k]) {
			continue
		}
		passed := f.findPoints(t)
		if found, ok := f.findSpatialTrack(t, k, passed); ok {
			found.rTrack = i
			f.spatialTracks = append(f.spatialTracks, found)
		}
	}
}

// beginsLate says whether a track crosses a plane of its sector before its first hit; across is its line on the φ
// planes. A particle whose mother decayed near the beam enters the sensors at their inner edge, or at the border of the
// sector; a track that begins later is chance, or the daughter of a particle that flew far.
func (f *Finder) beginsLate(t *track, across *line) bool {
	s := &f.detector.sectors[t.sector]
	z := f.detector.sides[s.side].rPlaneZ
	first := int(t.planes[t.hitCount-1])
	if first == 0 {
		return false
	}
	r := t.value(z[first-1])
	return r > f.detector.innerRadius+edgeMargin && math.Abs(across.value(z[first-1])) < r*math.Sin(s.halfWidth)-edgeMargin
}

// edgeMargin is the distance from an edge within which a sensor may miss a track, mm.
const edgeMargin = 0.3

// bentFactorInR is the factor of MaxTrackChi2 in r and z, where a straight track that misses the beam is bent.
const bentFactorInR = 4

// nearestPrimary is the primary vertex that is nearest to a track, in units of the error, with the distance and its σ².
func (f *Finder) nearestPrimary(t *track) (vertex int, d, variance float64) {
	least := math.Inf(1)
	for k := range f.primaries {
		p := &f.primaries[k]
		x, v := f.impact(t, p)
		if v += p.SX*p.SX + t.slope*t.slope*p.SZ*p.SZ; x*x/v < least {
			least, vertex, d, variance = x*x/v, k, math.Abs(x), v
		}
	}
	return vertex, d, variance
}

// findSpatialTrack fits track t in space to its points on the φ planes; passed is how many it crosses. ok is false if
// too few points lie on a line, or the impact parameter in space is too small.
func (f *Finder) findSpatialTrack(t *track, primary, passed int) (found Track, ok bool) {
	least := max(f.cuts.MinPhiHits, (2*passed+2)/3)
	if len(f.pointsByPlane) < least {
		return found, false
	}
	s, p := &f.detector.sectors[t.sector], &f.primaries[primary]
	f.scatterAngle = scatterPerSlope * t.slope
	across, n, ok := f.fitAcross(p.Z, -p.X*s.sin+p.Y*s.cos, least)
	if !ok || n < least || f.beginsLate(t, &across) {
		return found, false
	}
	// For a track that misses the beam, r over z is no straight line, but u over z is.
	side := &f.detector.sides[s.side]
	begins, theta := side.rPlaneZ[t.planes[t.hitCount-1]], scatterPerSlope*t.slope
	along, straight := line{origin: begins}, line{origin: begins}
	for i := range t.hitCount {
		z, hit := side.rPlaneZ[t.planes[i]], &f.rHits[t.hits[i]]
		v := across.value(z)
		u := math.Sqrt(max(0, hit.r*hit.r-v*v))
		straight.add(z, u, hit.weight)
		along.add(z, u, scatteredWeight(hit.weight, theta, z-begins, t.hitCount-1-i))
	}
	along.fit()
	straight.fit()
	bent := max(1, straight.chi2()/float64(t.hitCount-2))
	if bent > f.cuts.MaxTrackChi2 {
		return found, false
	}
	found = Track{
		alongSector:  along,
		acrossSector: across,
		sector:       t.sector,
		firstHitZ:    begins,
		scatterVar:   t.scatterVar / t.lineChi2 * bent,
		primary:      primary,
		rHitCount:    t.hitCount,
		lineChi2:     t.lineChi2,
		acrossChi2:   across.chi2() / float64(n-2),
	}
	f.impactInSpace(&found, p, s)
	return found, found.Significance >= f.cuts.MinSignificance && found.Impact >= f.cuts.MinImpact
}

// findPoints lists the points of a track by plane, without planes that have none, and returns how many planes it
// crosses.
func (f *Finder) findPoints(t *track) (passed int) {
	f.points, f.pointsByPlane = f.points[:0], f.pointsByPlane[:0]
	s := &f.detector.sectors[t.sector]
	side := &f.detector.sides[s.side]
	for k := side.phiFrom[t.planes[t.hitCount-1]]; k <= side.phiTo[t.planes[0]]; k++ {
		plane := &side.phiPlanes[k]
		r := t.value(plane.z)
		if r < f.detector.innerRadius || r > f.detector.outerRadius {
			continue
		}
		first := int32(len(f.points))
		if f.addPlanePoints(s, plane, f.phiSpans[s.side][k*len(f.detector.zones):], r) {
			passed++
		}
		if last := int32(len(f.points)); last > first {
			f.pointsByPlane = append(f.pointsByPlane, planePoints{plane.z, first, last})
		}
	}
	return passed
}

// addPlanePoints lists the points of a plane that a track crosses at radius r; false if the plane has no strips there.
func (f *Finder) addPlanePoints(s *sector, plane *phiPlane, spans []span, r float64) (seen bool) {
	wide := s.halfWidth + zoneMargin/r
	for i := range f.detector.zones {
		zone := &f.detector.zones[i]
		if r < zone.innerRadius-zoneMargin || r > zone.outerRadius+zoneMargin {
			continue
		}
		seen = true
		begins := s.sensorStart + plane.stereoSign*zone.azimuthTurn(r)
		sigma := r * zone.stripAngle / sqrt12
		weight := 1 / (sigma*sigma + alignment*alignment)
		for _, hit := range f.phiHits[spans[i].first:spans[i].last] {
			a := hit + begins
			if a < -wide {
				continue
			}
			if a > wide || len(f.points) == cap(f.points) {
				break
			}
			f.points = append(f.points, point{r * sine(a), weight})
		}
	}
	return seen
}

// sine is the sine of an angle from -π/2 to π/2, to 1e-6.
func sine(a float64) float64 {
	b := a * a
	return a * (1 - b/6*(1-b/20*(1-b/42*(1-b/72))))
}

// sqrt12 is the width of a strip in units of its error.
const sqrt12 = 3.4641016151377544

// zoneMargin is how far outside a zone or a sector a track is still searched, mm: the error of its radius.
const zoneMargin = 0.1

// fitAcross is the straight line with most points, at least least; of several such lines the one with the smallest χ².
// It must pass within MaxImpact of the primary vertex at z and v.
func (f *Finder) fitAcross(z, v float64, least int) (best line, most int, ok bool) {
	planes := f.pointsByPlane
	worst := math.Inf(1)
	for a := 0; a <= maxSkipped && a < len(planes); a++ {
		for b := len(planes) - 1; b >= len(planes)-1-maxSkipped && b > a; b-- {
			if n := b - a + 1; n < least || n < most || a+len(planes)-1-b > 0 && n == most {
				continue // no line of these could be better
			}
			for i := planes[a].first; i < planes[a].last; i++ {
				for k := planes[b].first; k < planes[b].last; k++ {
					slope := (f.points[k].across - f.points[i].across) / (planes[b].z - planes[a].z)
					if at := f.points[i].across + slope*(z-planes[a].z); math.Abs(at-v) > f.cuts.MaxImpact {
						continue
					}
					l, n := f.followPoints(a, b, i, slope, max(least, most))
					if n < least || n < most {
						continue
					}
					l.fit()
					if c := l.chi2(); c < f.cuts.MaxChi2*float64(n-2) && (n > most || c < worst) {
						best, most, worst, ok = l, n, c, true
					}
				}
			}
		}
	}
	return best, most, ok
}

// followPoints collects the nearest points of the planes a to b along a line that begins at point i of plane a. It
// stops as soon as the remaining planes cannot give enough points.
func (f *Finder) followPoints(a, b int, i int32, slope float64, enough int) (l line, n int) {
	from, at := f.pointsByPlane[a].z, f.points[i].across
	l.origin = from
	for k := a; k <= b; k++ {
		if n+b-k+1 < enough {
			return l, 0
		}
		plane := &f.pointsByPlane[k]
		want, window := at+slope*(plane.z-from), f.cuts.PhiWindow
		found := int32(-1)
		for h := plane.first; h < plane.last; h++ {
			if d := math.Abs(f.points[h].across - want); d <= window {
				found, window = h, d
			}
		}
		if found >= 0 {
			l.add(plane.z, f.points[found].across, scatteredWeight(f.points[found].weight, f.scatterAngle, plane.z-from, n))
			n++
		}
	}
	return l, n
}

// impactInSpace sets Impact and Significance of a track for a primary vertex.
func (f *Finder) impactInSpace(t *Track, p *Point, s *sector) {
	du, dv := t.alongSector.value(p.Z)-p.X*s.cos-p.Y*s.sin, t.acrossSector.value(p.Z)+p.X*s.sin-p.Y*s.cos
	along := (du*t.alongSector.slope + dv*t.acrossSector.slope) /
		math.Sqrt(1+t.alongSector.slope*t.alongSector.slope+t.acrossSector.slope*t.acrossSector.slope)
	t.Impact = math.Sqrt(max(0, du*du+dv*dv-along*along))
	vu := t.scatterVar + t.alongSector.variance(p.Z) + p.SX*p.SX + t.alongSector.slope*t.alongSector.slope*p.SZ*p.SZ
	vv := t.scatterVar + t.acrossSector.variance(p.Z) + p.SY*p.SY + t.acrossSector.slope*t.acrossSector.slope*p.SZ*p.SZ
	t.Significance = math.Sqrt(du*du/vu + dv*dv/vv)
}
