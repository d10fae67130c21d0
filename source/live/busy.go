package live

import (
	"math/bits"
	"time"
)

// BusyCause is why a readout unit is busy.
type BusyCause uint8

// Causes. The value is that of the datagrams: bit 1 << cause.
const (
	BusyBuilders BusyCause = iota // what the unit has read waits for builder units
	BusyIntake                    // fragments of a source wait to be matched or read
	BusyFrontend                  // a front-end says that it is busy
	busyCauses
)

// BusyCauses is a set of causes: the bits 1 << cause.
type BusyCauses uint8

// Includes says whether a cause is in the set.
func (s BusyCauses) Includes(c BusyCause) bool { return s&(1<<c) != 0 }

// BusyState is what others are told of a readout unit.
type BusyState struct {
	Causes BusyCauses // none: the unit is free
	Source int        // index of the first source that is a cause; -1: none is
}

// IsBusy says whether the unit is busy.
func (s BusyState) IsBusy() bool { return s.Causes != 0 }

// BusyStats count the dead time of a readout unit. Causes may hold at a time: their times may add up to more than the
// dead time.
type BusyStats struct {
	Times    uint64        `count:"busy" help:"times that the unit became busy"`
	DeadTime time.Duration `count:"dead_us" help:"time that the unit was busy"`
	Builders time.Duration `count:"dead_builders_us" help:"part of it in which what was read waited for builder units"`
	Intake   time.Duration `count:"dead_intake_us" help:"part of it in which fragments of a source waited to be matched or read"`
	Frontend time.Duration `count:"dead_front_end_us" help:"part of it in which a front-end said that it was busy"`
}

// BusyInput is one input of a Busy: a cause holds from now on, or no more.
type BusyInput struct {
	Cause  BusyCause
	Source int // index of the source; 0 for BusyBuilders
	Holds  bool
	Over   bool          // the run takes no more data: the unit is free for good; no other field but At counts
	At     time.Duration // since any fixed time; it does not run backwards
}

// Busy decides whether a readout unit is busy, and counts the dead time: a pure core. The unit is busy while a cause
// holds.
type Busy struct {
	holds [busyCauses][]bool // by source
	count [busyCauses]int    // of those
	over  bool
	last  time.Duration
	stats BusyStats
}

// NewBusy returns a Busy for a unit with so many sources. It is free.
func NewBusy(sources int) Busy {
	var b Busy
	for c := range b.holds {
		b.holds[c] = make([]bool, sources)
	}
	return b
}

// Step takes an input. It returns the state, and whether it differs from the one before.
func (b *Busy) Step(in BusyInput) (s BusyState, changed bool) {
	before := b.State()
	b.stats = b.Stats(in.At)
	b.last = max(b.last, in.At)
	switch {
	case b.over:
	case in.Over:
		b.over = true
		for c := range b.holds {
			clear(b.holds[c])
			b.count[c] = 0
		}
	case b.holds[in.Cause][in.Source] != in.Holds:
		b.holds[in.Cause][in.Source] = in.Holds
		if b.count[in.Cause]--; in.Holds {
			b.count[in.Cause] += 2
		}
	}
	if s = b.State(); s.IsBusy() && !before.IsBusy() {
		b.stats.Times++
	}
	return s, s != before
}

// State returns the state.
func (b *Busy) State() BusyState {
	s := BusyState{Source: -1}
	for c, n := range b.count {
		if n > 0 {
			s.Causes |= 1 << c
		}
	}
	for i := range b.holds[BusyIntake] {
		if b.holds[BusyIntake][i] || b.holds[BusyFrontend][i] {
			s.Source = i
			break
		}
	}
	return s
}

// Stats returns the dead time up to a time, which is not before that of the last input.
func (b *Busy) Stats(at time.Duration) BusyStats {
	s, since := b.stats, max(0, at-b.last)
	causes := b.State().Causes
	if causes == 0 {
		return s
	}
	s.DeadTime += since
	for left := causes; left != 0; left &= left - 1 {
		switch BusyCause(bits.TrailingZeros8(uint8(left))) {
		case BusyBuilders:
			s.Builders += since
		case BusyIntake:
			s.Intake += since
		case BusyFrontend:
			s.Frontend += since
		}
	}
	return s
}

// BusyMarks are the shares of a buffer, in percent, from which it counts as nearly full, and down to which it has to
// become empty to have room again.
type BusyMarks struct{ High, Low int }

// FillGate says whether a buffer is nearly full, with hysteresis. The zero value is a buffer with room.
type FillGate struct{ full bool }

// Update takes how much of a buffer is used, and returns whether it is nearly full, and whether that is new. An empty
// buffer always has room.
func (g *FillGate) Update(m BusyMarks, used, size uint64) (full, changed bool) {
	before := g.full
	if g.full {
		g.full = used > 0 && 100*used > uint64(m.Low)*size
	} else {
		g.full = used > 0 && 100*used >= uint64(m.High)*size
	}
	return g.full, g.full != before
}

// BusyListener is a Feed whose front-end may hear whether the readout unit is busy.
type BusyListener interface {
	// SetBusy says so. Any goroutine may call it; it does not wait.
	SetBusy(s BusyState)
}
