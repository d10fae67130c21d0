package frontend

import (
	"math/bits"

	"ringlet/velo"
)

// The preparation of a board's values (L1-farm §3.2). Each step is a pure function over the values of one board; the
// caller owns the memory, and nothing is allocated.
//
//  1. subtractPedestals: value minus pedestal, for each strip
//  2. subtractCommonMode: subtracts the level that the strips of a link share, a straight line along the link
//  3. findHits: strips above the threshold, without masked ones
//  4. appendClusters: joins hits on neighbouring strips, at most two

// stripsPerLink is how many strips one analog link carries: a board has 2048 strips and 64 links.
const stripsPerLink = 32

// hitMask has a bit for each strip.
type hitMask [velo.MaxStrips / 64]uint64

// subtractPedestals subtracts the pedestal of each strip from its value.
func subtractPedestals(dst []int16, values, pedestals []uint8) {
	for i, v := range values {
		dst[i] = int16(v) - int16(pedestals[i])
	}
}

// subtractCommonMode subtracts from the strips of every link the straight line that fits them best. The fit leaves out
// masked strips, and strips that are more than limit away from the line: they have a hit. All numbers are integers.
func subtractCommonMode(amplitudes []int16, masked *hitMask, limit int) {
	for at := 0; at < len(amplitudes); at += stripsPerLink {
		strips := amplitudes[at:min(at+stripsPerLink, len(amplitudes))]
		mask := uint32(masked[at/64] >> (at % 64))
		correctLink(strips, mask, int16(limit))
	}
}

// correctLink corrects one link; the strips whose bits are set in out are left out of the fit. It finds the strips with
// a hit first by their distance from the median, since many hits would pull the mean, and then by the fitted line,
// which is more precise.
func correctLink(strips []int16, out uint32, limit int16) {
	middle, n := median(strips, out)
	if n == 0 {
		return
	}
	l := fittedLine{below: 1, y: int64(middle)}
	for range 2 {
		beyond := out
		for i, v := range strips {
			if off := v - l.valueAt(i); off > limit || off < -limit {
				beyond |= 1 << i
			}
		}
		next, ok := fitStrips(strips, beyond)
		if !ok {
			break // fewer than two strips are left: keep the line before
		}
		l = next
	}
	for i := range strips {
		strips[i] -= l.valueAt(i)
	}
}

// median is the median of the n strips whose bits are not set in out.
func median(strips []int16, out uint32) (middle int16, n int) {
	var sorted [stripsPerLink]int16
	for i, v := range strips {
		if out>>i&1 != 0 {
			continue
		}
		at := n
		for ; at > 0 && sorted[at-1] > v; at-- {
			sorted[at] = sorted[at-1]
		}
		sorted[at] = v
		n++
	}
	return sorted[n/2], n
}

// fittedLine is (y + slope × (n i − x)) / below at strip i.
type fittedLine struct{ y, slope, n, x, below int64 }

func (l *fittedLine) valueAt(i int) int16 {
	return int16(divideRounded(l.y+l.slope*(l.n*int64(i)-l.x), l.below))
}

// fitStrips is the line of least squares through the strips whose bits are not set in out; false if they are fewer than
// two.
func fitStrips(strips []int16, out uint32) (fittedLine, bool) {
	var n, x, y, xx, xy int64
	for i, v := range strips {
		if out>>i&1 == 0 {
			n++
			x += int64(i)
			y += int64(v)
			xx += int64(i * i)
			xy += int64(i) * int64(v)
		}
	}
	if n < 2 {
		return fittedLine{}, false
	}
	spread := n*xx - x*x // more than 0: two strips are at different places
	return fittedLine{
		y:     y * spread,
		slope: n*xy - x*y,
		n:     n,
		x:     x,
		below: n * spread,
	}, true
}

// divideRounded is a / b, to the nearest whole number; b is positive.
func divideRounded(a, b int64) int64 {
	if a < 0 {
		return -((-a + b/2) / b)
	}
	return (a + b/2) / b
}

// findHits sets the bits of the strips whose amplitude is above the threshold and that are not masked.
func findHits(hits *hitMask, amplitudes []int16, masked *hitMask, threshold int) {
	for i, v := range amplitudes {
		if int(v) > threshold {
			hits[i/64] |= 1 << (i % 64)
		}
	}
	for i := range hits {
		hits[i] &^= masked[i]
	}
}

// appendClusters appends the clusters of the hits, in order: two neighbouring strips are one cluster, three are a
// cluster of two and one of one, four are two clusters of two. Strips on both sides of the border of a sector or zone
// are no neighbours. It clears hits.
func appendClusters(dst []velo.Cluster, hits *hitMask, geo *velo.Geometry, kind velo.Kind) []velo.Cluster {
	for w := range hits {
		for word := hits[w]; word != 0; word = hits[w] {
			bit := bits.TrailingZeros64(word)
			strip := 64*w + bit
			hits[w] &^= 1 << bit
			next := strip + 1
			two := next < velo.MaxStrips && hits[next/64]>>(next%64)&1 != 0 && geo.AreNeighbours(kind, strip)
			if two {
				hits[next/64] &^= 1 << (next % 64)
			}
			dst = append(dst, velo.NewCluster(strip, two))
		}
	}
	return dst
}
