package simnet

import (
	"math/rand/v2"
	"time"
)

// Faults describes the faults of a network. The zero value delivers all datagrams at once, in order.
type Faults struct {
	Loss      float64       // share of datagrams that are lost, 0–1
	Duplicate float64       // share of datagrams that arrive twice
	Reorder   float64       // share of datagrams that are held back by up to ReorderBy
	Delay     time.Duration // of every datagram
	Jitter    time.Duration // added at random, uniformly
	ReorderBy time.Duration // zero means four times Delay
}

// wire decides what happens to datagrams: the same for the same seed and sequence of datagrams.
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

// drawDelays returns the delays of the copies of the next datagram that arrive: none, one or two.
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
