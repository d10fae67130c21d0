package sim

import (
	"fmt"
	"iter"
	"math"
	"math/bits"
)

// uint128 is an exact sum of 128 bits: a level of 10⁶ for a day in picoseconds needs more than 64.
type uint128 struct{ hi, lo uint64 }

func (w *uint128) add(x, y uint64) {
	hi, lo := bits.Mul64(x, y)
	var carry uint64
	w.lo, carry = bits.Add64(w.lo, lo, 0)
	w.hi, _ = bits.Add64(w.hi, hi, carry)
}

func (w uint128) float() float64 { return math.Ldexp(float64(w.hi), 64) + float64(w.lo) }

// Level is a count over time, such as the length of a queue: its mean over time is exact. The zero value is level 0
// from time 0 on.
type Level struct {
	value, peak int64
	since       Time
	countedFrom Time
	integral    uint128
}

// Set changes the level at time now. It panics if the level becomes negative, since the model counted wrongly.
func (l *Level) Set(now Time, value int64) {
	if value < 0 {
		panic(fmt.Sprintf("sim: a level became %d at %v", value, now))
	}
	l.integral.add(uint64(l.value), uint64(now-l.since))
	l.value, l.since, l.peak = value, now, max(l.peak, value)
}

// Add changes the level by d at time now.
func (l *Level) Add(now Time, d int64) { l.Set(now, l.value+d) }

// Restart forgets the past: means and peaks count from now on. It ends a warm-up.
func (l *Level) Restart(now Time) {
	*l = Level{
		value:       l.value,
		peak:        l.value,
		since:       now,
		countedFrom: now,
	}
}

// Value is the level now.
func (l *Level) Value() int64 { return l.value }

// Peak is the highest level.
func (l *Level) Peak() int64 { return l.peak }

// Mean is the level's mean over the time up to now.
func (l *Level) Mean(now Time) float64 {
	if now == l.countedFrom {
		return float64(l.value)
	}
	area := l.integral
	area.add(uint64(l.value), uint64(now-l.since))
	return area.float() / float64(now-l.countedFrom)
}

// exactBits: values below 2^exactBits have bins of their own; above, each octave has half as many bins, so a bin is
// narrower than 1/64 (1.6 %) of its value.
const exactBits = 7

// Histogram counts values ≥ 0: small ones exactly, large ones in logarithmic bins; count, sum and extremes are exact.
// It takes at most 30 kB. The zero value is empty.
type Histogram struct {
	bins         []uint64
	count        uint64
	sum          uint128
	sumOfSquares float64
	min, max     int64
}

// Add counts a value. A negative one panics.
func (h *Histogram) Add(v int64) {
	if v < 0 {
		panic(fmt.Sprintf("sim: a histogram was given %d", v))
	}
	i := binIndex(v)
	for i >= len(h.bins) {
		h.bins = append(h.bins, 0)
	}
	h.bins[i]++
	if h.count == 0 || v < h.min {
		h.min = v
	}
	h.max = max(h.max, v)
	h.count++
	h.sum.add(uint64(v), 1)
	h.sumOfSquares += float64(v) * float64(v)
}

func binIndex(v int64) int {
	shift := max(0, bits.Len64(uint64(v))-exactBits)
	return shift<<(exactBits-1) + int(v>>shift)
}

// binLow is the least value of bin i.
func binLow(i int) int64 {
	shift := max(0, i>>(exactBits-1)-1)
	return int64(i-shift<<(exactBits-1)) << shift
}

// Count is the number of values.
func (h *Histogram) Count() uint64 { return h.count }

// Min is the least value.
func (h *Histogram) Min() int64 { return h.min }

// Max is the greatest value.
func (h *Histogram) Max() int64 { return h.max }

// Mean is the mean value; 0 if there is none.
func (h *Histogram) Mean() float64 {
	if h.count == 0 {
		return 0
	}
	return h.sum.float() / float64(h.count)
}

// Deviation is the standard deviation.
func (h *Histogram) Deviation() float64 {
	if h.count == 0 {
		return 0
	}
	mean := h.Mean()
	return math.Sqrt(max(0, h.sumOfSquares/float64(h.count)-mean*mean))
}

// Quantile is the least value that a fraction q of the values do not exceed: exact if it is small, else the low end of
// its bin. Quantile(0) is Min, Quantile(1) is Max.
func (h *Histogram) Quantile(q float64) int64 {
	rank := uint64(math.Ceil(q * float64(h.count)))
	if rank >= h.count {
		return h.max
	}
	var seen uint64
	for i, n := range h.bins {
		if seen += n; n > 0 && seen >= rank {
			return max(h.min, binLow(i))
		}
	}
	return h.max
}

// Bins are the bins with values in rising order: the least value of each, and its count.
func (h *Histogram) Bins() iter.Seq2[int64, uint64] {
	return func(yield func(int64, uint64) bool) {
		for i, n := range h.bins {
			if n > 0 && !yield(binLow(i), n) {
				return
			}
		}
	}
}
