package vertex

import "math"

// Steps 2 and 4, the primary vertex: a histogram of where pairs of hits meet the beam, and a fit to the tracks that
// meet the beam near a peak. The pairs of one track point to one place, pairs of hits of different tracks to any place.

const (
	binWidth = 1.0 // mm: about the precision of a pair of hits
	// peakWindow is the largest distance of a track from the peak in the first round of the fit, mm.
	peakWindow = 2.0
	// outlierSigmas is the largest distance of a track from the primary vertex, in standard deviations.
	outlierSigmas = 3.5
	// fitRounds is the number of rounds of the fit; each leaves out the outliers of the one before.
	fitRounds = 4
)

// Point is a vertex, in mm, with its errors.
type Point struct {
	X, Y, Z    float64
	SX, SY, SZ float64
	Tracks     int
}

// findPeaks looks for the places on the beam that most pairs of hits point to, in descending order. It pairs hits over
// every second gap between planes, which is enough.
func (f *Finder) findPeaks() {
	f.peaks = f.peaks[:0]
	clear(f.bins)
	for s := range f.detector.sectors {
		z := f.detector.sides[f.detector.sectors[s].side].rPlaneZ
		for p := 0; p+1 < len(z); p += 2 {
			f.fillHistogram(s, p, z[p], z[p+1])
		}
	}
	most := 0
	for len(f.peaks) < maxPrimaries {
		peak, n := 0, 0
		for b := 1; b < len(f.bins)-2; b++ {
			if sum := int(f.bins[b-1] + 2*f.bins[b] + f.bins[b+1]); sum > n {
				peak, n = b, sum
			}
		}
		if most = max(most, n); n < 2*f.cuts.MinPrimaryTracks || n < most*minPeakPercent/100 {
			return
		}
		f.peaks = append(f.peaks, f.cuts.BeamLow+(float64(peak)+0.5)*binWidth)
		for b := max(0, peak-peakBins); b <= min(len(f.bins)-2, peak+peakBins); b++ {
			f.bins[b] = 0
		}
	}
}

// fillHistogram counts where pairs of hits on two planes meet the beam. It counts pairs outside the range, every second
// one, in an extra last bin: a branch for them would be mispredicted and cost more.
func (f *Finder) fillHistogram(sector, p int, z0, z1 float64) {
	a, b := f.hits(sector, p), f.hits(sector, p+1)
	gap, begins := z1-z0, (z0-f.cuts.BeamLow)*(1/binWidth)
	bins := f.bins
	outside := int64(len(bins) - 1)
	for i := range a {
		r := a[i].r
		from := r * gap * (1 / binWidth)
		for k := range b {
			bin := int64(begins - from/(b[k].r-r))
			inside := ((bin - outside) &^ bin) >> 63 // all bits, or none
			bins[bin&inside|outside&^inside]++
		}
	}
}

const (
	// minPeakPercent is the least height of a peak, in per cent of the highest one. Pairs of hits of different tracks give
	// every place some height.
	minPeakPercent = 50
	// peakBins is how many bins from a peak belong to it.
	peakBins = 4
)

// findPrimaries fits a vertex to the tracks at each peak.
func (f *Finder) findPrimaries() {
	f.primaries = f.primaries[:0]
	for i := range f.tracks {
		f.tracks[i].unclaimed = true
	}
	for _, z := range f.peaks {
		p := Point{Z: z}
		if f.fitPrimary(&p) {
			f.claimTracks(&p)
			f.primaries = append(f.primaries, p)
		}
	}
}

// impact is the distance of a track in r and z from a point, positive outside, and its σ².
func (f *Finder) impact(t *track, p *Point) (d, variance float64) {
	s := &f.detector.sectors[t.sector]
	across := 1 / (1 + t.slope*t.slope)
	d = (t.value(p.Z) - p.X*s.cos - p.Y*s.sin) * math.Sqrt(across)
	return d, t.variance(p.Z)*across + f.detector.azimuthError*f.detector.azimuthError + t.scatterVar
}

// fitPrimary moves p to the point that is nearest to the tracks around it (least squares). Each track gives one
// equation: along the middle of its sector, its radius at z equals the distance of p from the beam.
func (f *Finder) fitPrimary(p *Point) bool {
	for round := range fitRounds {
		var a [6]float64
		var b [3]float64
		n := 0
		for i := range f.tracks {
			t := &f.tracks[i]
			if !t.unclaimed {
				continue
			}
			d, v := f.impact(t, p)
			if round == 0 && math.Abs(t.z0-p.Z) > peakWindow || round > 0 && d*d > outlierSigmas*outlierSigmas*v {
				continue
			}
			n++
			s := &f.detector.sectors[t.sector]
			across := math.Sqrt(1 / (1 + t.slope*t.slope))
			gx, gy, gz := s.cos*across, s.sin*across, -t.slope*across
			w := 1 / v
			a[0], a[1], a[2] = a[0]+w*gx*gx, a[1]+w*gx*gy, a[2]+w*gx*gz
			a[3], a[4], a[5] = a[3]+w*gy*gy, a[4]+w*gy*gz, a[5]+w*gz*gz
			b[0], b[1], b[2] = b[0]+w*gx*d, b[1]+w*gy*d, b[2]+w*gz*d
		}
		if n < f.cuts.MinPrimaryTracks {
			return false
		}
		// The beam is near the axis: one more measurement of x and y, with the error beamWidth.
		a[0] += 1 / (beamWidth * beamWidth)
		a[3] += 1 / (beamWidth * beamWidth)
		b[0] -= p.X / (beamWidth * beamWidth)
		b[1] -= p.Y / (beamWidth * beamWidth)
		step, variance, ok := solve(a, b)
		if !ok {
			return false
		}
		p.X, p.Y, p.Z = p.X+step[0], p.Y+step[1], p.Z+step[2]
		p.SX, p.SY, p.SZ = math.Sqrt(variance[0]), math.Sqrt(variance[1]), math.Sqrt(variance[2])
		p.Tracks = n
	}
	return !(math.IsNaN(p.Z) || math.Abs(p.X) > f.detector.innerRadius || math.Abs(p.Y) > f.detector.innerRadius)
}

// beamWidth is σ of the distance of a collision from the axis, mm.
const beamWidth = 0.2

// claimTracks marks the tracks of a vertex as claimed, so that the next vertex uses others.
func (f *Finder) claimTracks(p *Point) {
	for i := range f.tracks {
		if d, v := f.impact(&f.tracks[i], p); d*d <= outlierSigmas*outlierSigmas*v {
			f.tracks[i].unclaimed = false
		}
	}
}
