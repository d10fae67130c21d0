package vertex

// votes counts the planes that voted for each of 64 bins, as a binary number across the words: bit i of word k is bit k
// of the count of bin i.
type votes [voteWords]uint64

const (
	voteWords = 5
	maxVotes  = 1<<voteWords - 1 // of planes
	// voteBins is the number of bins of a sector in azimuth; one more takes azimuths outside, and is not counted. 1/60 of
	// a sector of 45° is 0.1 mm at the innermost strips: a track with a visible impact parameter spans several bins.
	voteBins = 63
	// voteMargin is how far beside a sector azimuths may be, in rad, since the primary vertex may be off the axis.
	voteMargin = 0.05
)

// add adds the votes of a plane: one for each bin whose bit is set.
func (c *votes) add(bins uint64) {
	for k := range c {
		bins, c[k] = bins&c[k], bins^c[k]
	}
}

// hasAtLeast says whether any bin has n votes or more.
func (c *votes) hasAtLeast(n int) bool {
	more, same := uint64(0), ^uint64(0)
	for k := voteWords - 1; k >= 0; k-- {
		if n>>k&1 != 0 {
			same &= c[k]
			continue
		}
		more |= same & c[k]
		same &^= c[k]
	}
	return more|same != 0
}

// pointsToVertex says whether a track may come from the primary vertex by the clusters on the φ planes: at least seven
// in eight of the planes that it crosses have a cluster at the same azimuth, seen from the vertex.
func (f *Finder) pointsToVertex(t *track, p *Point) bool {
	s := &f.detector.sectors[t.sector]
	u, v := p.X*s.cos+p.Y*s.sin, p.Y*s.cos-p.X*s.sin
	wide := s.halfWidth + voteMargin
	scale := (voteBins - 1) / (2 * wide)
	var count votes
	passed := 0
	side := &f.detector.sides[s.side]
	for k := side.phiFrom[t.planes[t.hitCount-1]]; k <= side.phiTo[t.planes[0]] && passed < maxVotes; k++ {
		plane := &side.phiPlanes[k]
		r := t.value(plane.z)
		if r < f.detector.innerRadius || r > f.detector.outerRadius {
			continue
		}
		over := 1 / r
		stretch, shift := scale*(1+u*over), scale*(wide-v*over)
		spans := f.phiSpans[s.side][k*len(f.detector.zones):]
		var bins uint64
		seen := false
		for i := range f.detector.zones {
			zone := &f.detector.zones[i]
			if r < zone.innerRadius-zoneMargin || r > zone.outerRadius+zoneMargin {
				continue
			}
			seen = true
			begins := (s.sensorStart+plane.stereoSign*zone.azimuthTurn(r))*stretch + shift
			for _, hit := range f.phiHits[spans[i].first:spans[i].last] {
				// A hit between the middles of two neighbouring bins votes for both.
				bins |= 3 << (min(uint(int64(hit*stretch+begins)), voteBins) & voteBins)
			}
		}
		if seen {
			passed++
			count.add(bins &^ (1 << voteBins))
		}
	}
	return count.hasAtLeast(max(f.cuts.MinPhiHits, passed-passed/8))
}
