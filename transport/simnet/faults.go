package simnet

import (
	"math/rand/v2"
	"time"
)

// Faults describes an unkind network. The zero value delivers everything at once, in order.
type Faults struct {
	Loss      float64       // share of datagrams that vanish, 0–1
	Duplicate float64       // share that arrives twice
	Reorder   float64       // share that is held back by up to ReorderBy
	Delay     time.Duration // every datagram's way
	Jitter    time.Duration // added at random, uniformly
	ReorderBy time.Duration // zero means four times Delay
}

// wire decides the fate of datagrams, the same for the same seed and the same sequence of them.
type wire struct {
	faults Faults
	rng    *rand.Rand
	isCut  bool
}

func newWire(f Faults, seed uint64) *wire {
	if f.ReorderBy == 0 {
		f.ReorderBy = 4 * f.Delay
	}
	return &wire{faults: f, rng: rand.New(rand.NewPCG(seed, 0x52696e676c6574))}
}

// drawDelays returns after which delays copies of the next datagram arrive: none, one or two.
func (w *wire) drawDelays(out []time.Duration) []time.Duration {
	if w.isCut || w.rng.Float64() < w.faults.Loss {
		return out
	}
	out = append(out, w.drawDelay())
	if w.rng.Float64() < w.faults.Duplicate {
		out = append(out, w.drawDelay())
	}
	return out
}

func (w *wire) drawDelay() time.Duration {
	d := w.faults.Delay
	if w.faults.Jitter > 0 {
		d += time.Duration(w.rng.Int64N(int64(w.faults.Jitter)))
	}
	if w.faults.ReorderBy > 0 && w.rng.Float64() < w.faults.Reorder {
		d += time.Duration(w.rng.Int64N(int64(w.faults.ReorderBy)))
	}
	return d
}
