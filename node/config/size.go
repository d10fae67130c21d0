package config

import (
	"fmt"
	"math"

	"ringlet/event"
	"ringlet/internal/decimal"
)

// MEPSize bounds the size in bytes of one full MEP of generated data with fragments padded to 2^align: a MEP is outside
// of [low, high] once in about 10^9 MEPs (6 standard deviations). With the model constant, low = high; with velo they
// are the smallest and the largest possible size. It needs a completed configuration, and ignores inputs.
func (c Config) MEPSize(align uint8) (low, high int64) {
	if c.SimulatesDetector() {
		return c.simulatedSize(align)
	}
	n, sources, size := int64(c.Packing), int64(c.Division().Sources()), int64(c.FragmentSize)
	headers := int64(event.MEPHeaderSize(int(sources))) + sources*int64(c.mfpHeaderSize())
	if c.FragmentModel == modelConstant {
		all := headers + sources*padTo(n*padTo(size, 1<<align), 4)
		return all, all + c.maxLargeExcess(align)
	}
	// The sum of n·sources Poissonian sizes is Poissonian; that of the lhcb model too, whose groups share the same total.
	mean := float64(n * sources * size)
	spread := 6 * math.Sqrt(mean)
	low = headers + int64(max(0, mean-spread))
	// Padding adds at most 2^align - 1 to each fragment, and 3 bytes to bring each MFP to a word.
	high = headers + int64(math.Ceil(mean+spread)) + n*sources*(1<<align-1) + 3*sources
	return low, high + c.maxLargeExcess(align)
}

// mfpHeaderSize is the size in bytes of the largest header of an MFP of generated data.
func (c *Config) mfpHeaderSize() int {
	if c.FragmentSize > event.MaxNarrowFragment/4 { // the mean of no group is so many times as large
		return event.WideMFPHeaderSize(c.Packing)
	}
	return event.MFPHeaderSize(c.Packing)
}

// maxLargeExcess is the most by which a MEP with larger fragments exceeds the others.
func (c *Config) maxLargeExcess(align uint8) int64 {
	if c.Debug.LargeEvery == 0 {
		return 0
	}
	rule, err := c.Pattern()
	if err != nil {
		return 0 // checkFragments reports it
	}
	d, ru := c.Division(), c.Debug.LargeRU
	if ru >= d.Units() {
		return 0 // checkLarge reports it
	}
	var most int64
	for stream := range d.SourceCount(ru) {
		most += padTo(int64(event.MaxMFPSize(c.Packing, rule.MaxSize(uint16(d.FirstSource(ru)+stream)), align)), 4)
	}
	return most
}

// FragmentSpread returns the mean and the standard deviation of a generated fragment's size in bytes. ok is false for
// an input or a simulated detector.
func (c Completed) FragmentSpread() (mean, sigma float64, ok bool) {
	rule, err := c.Pattern()
	if err != nil || rule == nil {
		return 0, 0, false // Complete has refused the pattern, or there is none
	}
	mean, sigma = rule.SizeSpread()
	return mean, sigma, true
}

// padTo rounds n up to a multiple of the power of two to.
func padTo(n, to int64) int64 { return (n + to - 1) &^ (to - 1) }

// approxBytes formats a size for people.
func approxBytes(n int64) string {
	for _, u := range decimal.SizeUnits[:4] {
		if n >= u.Size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.Size), u.Name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
