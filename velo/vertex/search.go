package vertex

import "math"

// Steps 3 and 5, the search for tracks in r and z alone: at least three hits on neighbouring planes of one sector that
// lie on a straight line (L1-farm §3.4).
//
// A track from the beam has a nearly constant azimuth, since it misses the beam by little: it stays in its sector. The
// search begins at the planes farthest from the collision, where hits are sparse, and goes inwards: for a hit 0 it
// tries each hit 1 on the next plane that a line from the beam region allows, then looks for a hit 2 where the two
// point. It fits a line to the three and extends it plane by plane. The hits of the best line of a hit 0 are marked as
// used.

const (
	maxHits    = 24 // of a track in one view
	maxSkipped = 1  // planes in a row on which a track may have no hit
)

// rHit is a cluster on an r plane.
type rHit struct {
	r, weight float64
	used      bool
}

// track is a track in r and z.
type track struct {
	line
	sector     int
	hitCount   int
	forwards   bool           // r grows with z
	planes     [maxHits]uint8 // of its hits, outermost first
	hits       [maxHits]int32
	z0         float64 // where it meets the beam
	scatterVar float64 // σ² of its distance from a vertex by scattering
	lineChi2   float64 // χ² of a straight line for each degree of freedom, at least 1
	unclaimed  bool    // it belongs to no primary vertex yet
}

// searcher is the search in one sector and one direction.
type searcher struct {
	f         *Finder
	sector    int
	z         []float64             // of the planes
	planeStep int                   // from a plane to the one farther in
	endPlane  int                   // the plane after the last
	mirror    float64               // 1 forwards, -1 backwards: z·mirror grows outwards
	minBeamZ  float64               // least z·mirror where tracks may meet the beam,
	maxBeamZ  float64               // and the largest
	reach     [maxSkipped + 1]reach // of the current plane
}

// reach is the range of radii in which a track's next hit can lie on a plane farther in, relative to the radius of its
// outer hit. The search visits the outer hits in order of radius. An inner hit below the range of one outer hit is
// below the ranges of all later ones, so first only moves on.
type reach struct {
	minRadiusRatio, maxRadiusRatio float64
	first, last                    int32 // hits of the plane; first moves on
}

// search finds the tracks of unused hits that meet the beam from z = low to high. With backwards it also finds tracks
// towards smaller z: these cannot come from the decays of interest, but help to locate the collision.
func (f *Finder) search(low, high float64, backwards bool) {
	for s := range f.detector.sectors {
		z := f.detector.sides[f.detector.sectors[s].side].rPlaneZ
		to := searcher{
			f:         f,
			sector:    s,
			z:         z,
			planeStep: -1,
			endPlane:  -1,
			mirror:    1,
			minBeamZ:  low,
			maxBeamZ:  high,
		}
		to.run(len(z) - 1)
		if backwards {
			to = searcher{
				f:         f,
				sector:    s,
				z:         z,
				planeStep: 1,
				endPlane:  len(z),
				mirror:    -1,
				minBeamZ:  -high,
				maxBeamZ:  -low,
			}
			to.run(0)
		}
	}
}

// run begins tracks on each plane in turn, from the outermost on.
func (s *searcher) run(from int) {
	for p := from; p != s.endPlane; p += s.planeStep {
		if s.z[p]*s.mirror < s.minBeamZ {
			return
		}
		s.computeReach(p)
		first, last := s.f.hitRange(s.sector, p)
		for h := first; h < last && len(s.f.tracks) < cap(s.f.tracks); h++ {
			if !s.f.rHits[h].used {
				s.beginTrack(p, h)
			}
		}
	}
}

// computeReach computes the ranges in which lines from the beam region through plane p cross the next planes.
func (s *searcher) computeReach(p int) {
	z0 := s.z[p] * s.mirror
	for i := range s.reach {
		q := p + (i+1)*s.planeStep
		if q < 0 || q >= len(s.z) {
			return
		}
		z1 := s.z[q] * s.mirror
		first, last := s.f.hitRange(s.sector, q)
		s.reach[i] = reach{
			minRadiusRatio: 0,
			maxRadiusRatio: (z1 - s.minBeamZ) / (z0 - s.minBeamZ),
			first:          first,
			last:           last,
		}
		if s.maxBeamZ < z1 {
			s.reach[i].minRadiusRatio = (z1 - s.maxBeamZ) / (z0 - s.maxBeamZ)
		}
	}
}

// beginTrack looks for the best track whose outermost hit is h.
func (s *searcher) beginTrack(p int, h int32) {
	f := s.f
	f.bestTrack.hitCount = 0
	hits, window := f.rHits, f.cuts.RWindow
	q := p + s.planeStep
	for i := range s.reach {
		if q == s.endPlane {
			break
		}
		to := &s.reach[i]
		r := hits[h].r
		low, high := r*to.minRadiusRatio-window, r*to.maxRadiusRatio+window
		for to.first < to.last && hits[to.first].r < low {
			to.first++
		}
		if to.first < to.last && hits[to.first].r <= high {
			if s.tryPairs(p, h, q, to, high); f.bestTrack.hitCount > 0 {
				break
			}
		}
		q += s.planeStep
	}
	best := f.bestTrack
	if best.hitCount == 0 {
		return
	}
	for i := range best.hitCount {
		f.rHits[best.hits[i]].used = true
	}
	best.refit(f, s.z)
	best.z0 = best.beamCrossing()
	f.tracks = append(f.tracks, *best)
}

// tryPairs tries each unused hit of plane q in reach as the hit after h on plane p.
func (s *searcher) tryPairs(p int, h int32, q int, to *reach, high float64) {
	hits := s.f.rHits
	for k := to.first; k < to.last && hits[k].r <= high; k++ {
		if !hits[k].used {
			s.growTrack(p, h, q, k)
		}
	}
}

// growTrack extends the line through two hits inwards, and keeps the track if it is the best so far.
func (s *searcher) growTrack(p int, h int32, q int, k int32) {
	f := s.f
	a, b := &f.rHits[h], &f.rHits[k]
	slope := (a.r - b.r) / (s.z[p] - s.z[q])
	at, from := b.r, s.z[q]
	t := f.trialTrack
	t.hitCount = 0
	gaps := 0
	for n := q + s.planeStep; n != s.endPlane; n += s.planeStep {
		r := at + slope*(s.z[n]-from)
		if r < f.detector.innerRadius {
			break
		}
		window := f.cuts.RWindow
		if t.hitCount == 0 {
			window *= 1 + math.Abs((s.z[n]-from)/(s.z[p]-s.z[q]))
		}
		hit := f.nearestUnusedHit(s.sector, n, r, window)
		if hit < 0 {
			if gaps++; gaps > maxSkipped {
				break
			}
			continue
		}
		gaps = 0
		if t.hitCount == 0 {
			t.line = line{origin: s.z[q]}
			t.addHit(p, h, s.z[p], a)
			t.addHit(q, k, s.z[q], b)
		}
		t.addHit(n, hit, s.z[n], &f.rHits[hit])
		if t.fit(); t.hitCount == maxHits {
			break
		}
		at, slope, from = t.intercept, t.slope, t.origin
	}
	if t.hitCount < f.cuts.MinHits {
		return
	}
	if c := t.chi2(); c > f.cuts.MaxChi2*float64(t.hitCount-2) || t.hitCount < f.bestTrack.hitCount ||
		t.hitCount == f.bestTrack.hitCount && c >= f.bestTrack.chi2() {
		return
	}
	t.sector, t.forwards = s.sector, s.mirror > 0
	f.bestTrack, f.trialTrack = f.trialTrack, f.bestTrack
}

// addHit adds a hit to a track.
func (t *track) addHit(plane int, hit int32, z float64, h *rHit) {
	t.planes[t.hitCount], t.hits[t.hitCount] = uint8(plane), hit
	t.hitCount++
	t.add(z, h.r, h.weight)
}

// nearestUnusedHit is the unused hit of a plane that is nearest to r within window, or -1.
func (f *Finder) nearestUnusedHit(sector, plane int, r, window float64) int32 {
	first, last := f.hitRange(sector, plane)
	hits := f.rHits[first:last]
	best := int32(-1)
	for i := range hits {
		d := hits[i].r - r
		if d < -window {
			continue
		}
		if d > window {
			break
		}
		if d = math.Abs(d); !hits[i].used {
			best, window = first+int32(i), d
		}
	}
	return best
}

// scatterPerSlope is the angle by which the two sensors of a station deflect a particle, for each unit of its slope:
// 13.6 MeV / pT · √(x/X0), of a transverse momentum of 400 MeV, which is about the mean, and 0.7 % of a radiation
// length.
const scatterPerSlope = 0.0028

// refit fits a track anew, to know best where it comes from: hits far from the innermost one weigh less, since the
// particle was scattered in between. If the hits deviate from the line by more than their errors, it was scattered
// more.
func (t *track) refit(f *Finder, z []float64) {
	theta := scatterPerSlope * t.slope
	bent := max(1, t.chi2()/float64(t.hitCount-2))
	last := t.hitCount - 1
	l := line{origin: z[t.planes[last]]}
	for i := last; i >= 0; i-- {
		hit := &f.rHits[t.hits[i]]
		l.add(z[t.planes[i]], hit.r, scatteredWeight(hit.weight, theta, z[t.planes[i]]-l.origin, last-i))
	}
	l.fit()
	t.line = l
	kick := scatterPerSlope * l.intercept
	t.scatterVar, t.lineChi2 = kick*kick*bent, bent
}

// scatteredWeight is the weight of a hit that is dz and n planes from the first one.
func scatteredWeight(weight, theta, dz float64, n int) float64 {
	bent := theta * dz
	return weight / (1 + weight*bent*bent*float64(n+1)/3)
}
