package frontend

import (
	"math"

	"ringlet/velo"
)

// converter makes and prepares the 8-bit values of every strip.
type converter struct {
	offsets   [][]float64 // of each strip of each board, in counts
	pedestals [][]uint8   // the offsets as measured: rounded
	values    []uint8     // scratch
	amplitude []int16     // scratch
}

func newConverter(d *Detector, seed uint64, random *randomSource) *converter {
	f := &d.cfg.FrontEnd
	c := &converter{values: make([]uint8, velo.MaxStrips), amplitude: make([]int16, velo.MaxStrips)}
	for b := range d.geo.Boards() {
		random.seedFor(seed, 0, uint64(b)+3*particlePurpose)
		offsets := make([]float64, d.geo.Strips(b))
		pedestals := make([]uint8, len(offsets))
		for s := range offsets {
			offsets[s] = max(0, min(255, f.Pedestal+float64(f.PedestalSpread*random.NormFloat64())))
			pedestals[s] = uint8(offsets[s] + 0.5)
		}
		c.offsets, c.pedestals = append(c.offsets, offsets), append(c.pedestals, pedestals)
	}
	return c
}

// sampleHits samples the strips of a board and prepares them up to the hits.
func (c *converter) sampleHits(hits *hitMask, e *simulator, board int) {
	f := &e.d.cfg.FrontEnd
	e.random.seedFor(e.seed, e.truth.Event, uint64(board))
	values := c.values[:len(c.offsets[board])]
	masked := (*hitMask)(&e.boards[board].badStrips)
	c.sampleStrips(values, e, board)
	amplitude := c.amplitude[:len(values)]
	subtractPedestals(amplitude, values, c.pedestals[board])
	subtractCommonMode(amplitude, masked, e.d.commonModeLimit)
	findHits(hits, amplitude, masked, f.Threshold)
}

// sampleStrips makes the values of a board: the sum of offset, charge, noise, and the common mode of the link, which is
// a level and a slope. A faulty strip gives a random value.
func (c *converter) sampleStrips(values []uint8, e *simulator, board int) {
	f, bad := &e.d.cfg.FrontEnd, &e.boards[board].badStrips
	level, slope := 0.0, 0.0
	for s := range values {
		if s%stripsPerLink == 0 {
			level = float64(f.CommonMode * e.random.NormFloat64())
			slope = float64(f.CommonMode*e.random.NormFloat64()) / (4 * stripsPerLink)
		}
		v := c.offsets[board][s] + float64(e.boards[board].amplitudes[s]) + level + float64(slope*float64(s%stripsPerLink)) +
			float64(f.Noise*e.random.NormFloat64())
		if bad[s/64]>>(s%64)&1 != 0 {
			v = float64(256 * e.random.Float64())
		}
		values[s] = uint8(max(0, min(255, math.Round(v))))
	}
}
