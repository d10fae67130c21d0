package readoutunit

import (
	"time"

	"ringlet/event/placing"
	"ringlet/tagnet"
)

// Shift is the linear shift (LHCb-EB §II.A): a round takes P phases, and in phase p the readout unit at seat i sends to
// the builder unit at seat (i+p) mod P. No seat has two senders in a phase, since i ↦ (i+p) mod P is injective for i <
// P. A seat without a builder unit, and an empty place, are dummies: the unit is silent, and keeps phase.
//
// A round serves one cycle or several, so that what is sent in a phase is worth its barrier.
type Shift struct {
	Transfers

	// immutable after NewShift and Widen
	visits []int // builder unit of each phase, or Dummy
	fence  bool  // a phase is over when its writes have their outcomes, not when they are queued
	most   int   // cycles of a round

	first  uint64 // first place of the current round
	cycles int    // of the current round
	phase  int    // of the current round
	at     int    // cycles of the round of which the place of this phase was served

	bounds []uint64 // cycles that rounds begin with, in order
}

// Dummy stands for a unit at a seat that has none.
const Dummy = -1

// Phases is the number of phases of a cycle of bus places for rus readout units that sit in the order of their indices.
func Phases(rus, bus int) int { return max(rus, bus) }

// placeOf is where readout unit ru sends in a phase; a place that no builder unit has is a dummy.
func placeOf(ru, phase, phases int) int { return (ru + phase) % phases }

// Seats says which units sit where: at seat x readout unit RUs[x] and builder unit BUs[x], or Dummy. They are equally
// many.
type Seats struct{ RUs, BUs []int }

// InOrder seats units in the order of their indices, as many seats as there are phases.
func InOrder(rus, bus int) Seats {
	n := Phases(rus, bus)
	s := Seats{RUs: make([]int, n), BUs: make([]int, n)}
	for x := range n {
		s.RUs[x], s.BUs[x] = x, x
		if x >= rus {
			s.RUs[x] = Dummy
		}
		if x >= bus {
			s.BUs[x] = Dummy
		}
	}
	return s
}

// visits are the builder units that readout unit ru comes to, phase by phase.
func (s Seats) visits(ru int) []int {
	var v []int
	for x, r := range s.RUs {
		if r != ru {
			continue
		}
		for p := range s.BUs {
			v = append(v, s.BUs[placeOf(x, p, len(s.BUs))])
		}
	}
	return v
}

// NewShift makes the order of readout unit ru, which has a seat, for bus builder units with the given number of slots
// each. With a fence, a phase ends with the outcome of its write.
func NewShift(ru int, seats Seats, bus, slots int, fence bool) *Shift {
	return &Shift{
		Transfers: newTransfers(bus, slots),
		visits:    seats.visits(ru),
		fence:     fence,
		most:      1,
		cycles:    1,
	}
}

// Begin implements Order.
func (s *Shift) Begin(cycle, mep uint64) {
	s.Transfers.Begin(cycle, mep)
	s.first = s.base
}

// Widen lets a round have up to so many cycles. It must be called before the first of them comes.
func (s *Shift) Widen(most int) { s.most = max(1, most) }

// Visits implements Order.
func (s *Shift) Visits() []int { return s.visits }

// progress is the current phase, and how many a round has.
func (s *Shift) progress() (phase, phases int) { return s.phase, len(s.visits) }

// Cycle implements Order.
func (s *Shift) Cycle(b *tagnet.Batch, i int) error { return s.cycle(b, i, s.first) }

// Grant implements Order.
func (s *Shift) Grant(bu int, g *placing.Grant) error {
	_, err := s.grant(bu, g)
	return err
}

// ready reports whether there is a round to work on.
func (s *Shift) ready() bool { return s.first < s.end() }

// current is the number of the place that is to be served next in the current phase. It reports false if there is none,
// or no more.
func (s *Shift) current() (uint64, bool) {
	bu := s.visits[s.phase]
	if bu == Dummy {
		return 0, false
	}
	for ; s.at < s.cycles; s.at++ {
		n := s.first + uint64(s.at*s.width+bu)
		if stage := s.At(n).Stage; stage == stageAnnounced || stage == stageGranted {
			return n, true
		}
	}
	return 0, false
}

// Turn implements Order.
func (s *Shift) Turn() (Turn, uint64) {
	if !s.ready() {
		return ForToken, 0
	}
	n, ok := s.current()
	switch {
	case ok && s.At(n).Stage == stageGranted:
		return Send, n
	case ok:
		return ForGrant, n
	case s.fence && s.sent > 0:
		return ForWrite, 0
	}
	return Pass, 0
}

// Serve implements Order.
func (s *Shift) Serve(n uint64, most int, places []uint64) []uint64 {
	for ok := true; ok && most > 0 && s.At(n).Stage == stageGranted; n, ok = s.current() {
		s.write(n)
		places = append(places, n)
		most--
	}
	return places
}

// Ahead implements Order.
func (s *Shift) Ahead() int {
	next := s.first + uint64(s.cycles*s.width)
	if next >= s.end() {
		return 0
	}
	n := min(s.most, int(s.end()-next)/s.width)
	for _, bound := range s.bounds {
		switch at := next / uint64(s.width); {
		case bound == at:
			n = 1 // who goes on from there has not agreed on more
		case bound > at && bound-at < uint64(n):
			n = int(bound - at)
		}
	}
	return n
}

// Bound implements Order.
func (s *Shift) Bound(cycle uint64) { s.bounds = append(s.bounds, cycle) }

// Round implements Order.
func (s *Shift) Round() uint64 { return s.first / uint64(s.width) }

// Passed ends the current phase and, with the last, the round.
func (s *Shift) Passed(cycles int) {
	s.at = 0
	if s.phase++; s.phase == len(s.visits) {
		s.phase = 0
		s.first += uint64(s.cycles * s.width)
		s.cycles = max(1, cycles)
		for len(s.bounds) > 0 && s.bounds[0] <= s.Round() {
			s.bounds = s.bounds[1:]
		}
	}
}

// untilPhase is how long it takes, from a time since an epoch that all readout units share, to the next period of the
// given length in which a phase has its turn: period k belongs to phase k mod phases. So phases of equal number
// coincide everywhere, whichever cycle a unit is in, and no builder unit has two senders (LHCb-EB §II.A: "switch on a
// time window").
func untilPhase(now, length time.Duration, phase, phases int) time.Duration {
	round := length * time.Duration(phases)
	wait := (length*time.Duration(phase) - now%round) % round
	if wait < 0 {
		wait += round
	}
	return wait
}
