package vertex

// votes says how many planes voted for each of 64 bins: bit i of word k is bit k of the number of bin i.
type votes [voteWords]uint64

const (
	voteWords = 5
	maxVotes  = 1<<voteWords - 1 // of planes
	// voteBins is how many azimuths a sector is divided into; what lies outside goes into one more, which does not count.
	// 1/60 of a sector of 45° is 0.1 mm at the innermost strips: a track that passes the primary vertex by as far as a
	// filter can tell spans several.
	voteBins = 63
	// voteMargin is how far beside a sector, in rad, azimuths may be: as far as the primary vertex is off the axis.
	voteMargin = 0.05
)

// add takes the vote of a plane.
func (c *votes) add(bins uint64) {
	for k := range c {
		bins, c[k] = bins&c[k], bins^c[k]
	}
}

// hasAtLeast tells whether a bin has n votes or more.
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

// pointsToVertex tells whether a track may come from the primary vertex by the clusters of the φ planes: all planes
// that it passes have one at the same azimuth, seen from there, but one in eight.
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
				// two neighbours have what lies between their middles
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
