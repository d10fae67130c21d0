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

	// immutable after NewShift and SetMaxCycles
	buByPhase   []int // builder unit of each phase, or Dummy
	fencePhases bool  // a phase is over when its writes have their outcomes, not when they are queued
	maxCycles   int   // cycles of a round

	roundStart   uint64 // first place of the current round
	roundCycles  int    // of the current round
	phase        int    // of the current round
	servedCycles int    // cycles of the round of which the place of this phase was served

	roundBounds []uint64 // cycles that rounds begin with, in order
}

// Dummy stands for a unit at a seat that has none.
const Dummy = -1

// PhaseCount is the number of phases of a cycle of bus places for rus readout units that sit in the order of their
// indices.
func PhaseCount(rus, bus int) int { return max(rus, bus) }

// targetSeat is where readout unit ru sends in a phase; a place that no builder unit has is a dummy.
func targetSeat(ru, phase, phases int) int { return (ru + phase) % phases }

// Seats says which units sit where: at seat x readout unit RUs[x] and builder unit BUs[x], or Dummy. They are equally
// many.
type Seats struct{ RUs, BUs []int }

// SeatsInOrder seats units in the order of their indices, as many seats as there are phases.
func SeatsInOrder(rus, bus int) Seats {
	n := PhaseCount(rus, bus)
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
			v = append(v, s.BUs[targetSeat(x, p, len(s.BUs))])
		}
	}
	return v
}

// NewShift makes the order of readout unit ru, which has a seat, for bus builder units with the given number of slots
// each. With a fence, a phase ends with the outcome of its write.
func NewShift(ru int, seats Seats, bus, slots int, fence bool) *Shift {
	return &Shift{
		Transfers:   newTransfers(bus, slots),
		buByPhase:   seats.visits(ru),
		fencePhases: fence,
		maxCycles:   1,
		roundCycles: 1,
	}
}

// BeginAt implements Order.
func (s *Shift) BeginAt(cycle, mep uint64) {
	s.Transfers.BeginAt(cycle, mep)
	s.roundStart = s.firstPlace
}

// SetMaxCycles lets a round have up to so many cycles. It must be called before the first of them comes.
func (s *Shift) SetMaxCycles(most int) { s.maxCycles = max(1, most) }

// VisitOrder implements Order.
func (s *Shift) VisitOrder() []int { return s.buByPhase }

// progress is the current phase, and how many a round has.
func (s *Shift) progress() (phase, phases int) { return s.phase, len(s.buByPhase) }

// AddCycle implements Order.
func (s *Shift) AddCycle(b *tagnet.Batch, i int) error { return s.addCycle(b, i, s.roundStart) }

// ApplyGrant implements Order.
func (s *Shift) ApplyGrant(bu int, g *placing.Grant) error {
	_, err := s.applyGrant(bu, g)
	return err
}

// hasRound reports whether there is a round to work on.
func (s *Shift) hasRound() bool { return s.roundStart < s.nextPlace() }

// currentPlace is the number of the place that is to be served next in the current phase. It reports false if there is
// none, or no more.
func (s *Shift) currentPlace() (uint64, bool) {
	bu := s.buByPhase[s.phase]
	if bu == Dummy {
		return 0, false
	}
	for ; s.servedCycles < s.roundCycles; s.servedCycles++ {
		n := s.roundStart + uint64(s.servedCycles*s.placesPerCycle+bu)
		if stage := s.TransferAt(n).Stage; stage == stageAnnounced || stage == stageGranted {
			return n, true
		}
	}
	return 0, false
}

// NextAction implements Order.
func (s *Shift) NextAction() (Action, uint64) {
	if !s.hasRound() {
		return WaitToken, 0
	}
	n, ok := s.currentPlace()
	switch {
	case ok && s.TransferAt(n).Stage == stageGranted:
		return Send, n
	case ok:
		return WaitGrant, n
	case s.fencePhases && s.sentCount > 0:
		return WaitWrite, 0
	}
	return AdvancePhase, 0
}

// Serve implements Order.
func (s *Shift) Serve(n uint64, most int, places []uint64) []uint64 {
	for ok := true; ok && most > 0 && s.TransferAt(n).Stage == stageGranted; n, ok = s.currentPlace() {
		s.markSent(n)
		places = append(places, n)
		most--
	}
	return places
}

// CyclesAhead implements Order.
func (s *Shift) CyclesAhead() int {
	next := s.roundStart + uint64(s.roundCycles*s.placesPerCycle)
	if next >= s.nextPlace() {
		return 0
	}
	n := min(s.maxCycles, int(s.nextPlace()-next)/s.placesPerCycle)
	for _, bound := range s.roundBounds {
		switch nextCycle := next / uint64(s.placesPerCycle); {
		case bound == nextCycle:
			n = 1 // who goes on from there has not agreed on more
		case bound > nextCycle && bound-nextCycle < uint64(n):
			n = int(bound - nextCycle)
		}
	}
	return n
}

// BoundRound implements Order.
func (s *Shift) BoundRound(cycle uint64) { s.roundBounds = append(s.roundBounds, cycle) }

// RoundStart implements Order.
func (s *Shift) RoundStart() uint64 { return s.roundStart / uint64(s.placesPerCycle) }

// AdvancePhase ends the current phase and, with the last, the round.
func (s *Shift) AdvancePhase(cycles int) {
	s.servedCycles = 0
	if s.phase++; s.phase == len(s.buByPhase) {
		s.phase = 0
		s.roundStart += uint64(s.roundCycles * s.placesPerCycle)
		s.roundCycles = max(1, cycles)
		for len(s.roundBounds) > 0 && s.roundBounds[0] <= s.RoundStart() {
			s.roundBounds = s.roundBounds[1:]
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
