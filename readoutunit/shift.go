package readoutunit

import "slices"

// shift is the linear shift (LHCb-EB §II.A): a round takes P phases, and in phase p the readout unit at seat i sends to
// the builder unit at seat (i+p) mod P. No seat has two senders in a phase, since i ↦ (i+p) mod P is injective for i <
// P. In a phase whose seat has no builder unit, or whose place has no token, the unit sends nothing and keeps in step:
// a dummy.
type shift struct {
	t           *Transfers
	buByPhase   []int // builder unit of each phase, or Dummy
	fencePhases bool  // a phase ends when its writes have their outcomes, not when they are queued

	servedCycles int // cycles of the round whose place in this phase was served

	leftPlaces [][]uint64 // by builder unit: places of earlier phases that were passed over, in order
}

// phased is an order with phases, in which a builder unit that stands still is passed over: its phases are empty until
// something comes from it.
type phased interface {
	// holder is the builder unit that the current phase waits for, or Dummy.
	holder() int
	// hasLeft tells that places of earlier phases wait to be served.
	hasLeft() bool
}

// Dummy stands for the unit at a seat that has none.
const Dummy = -1

// PhaseCount is the number of phases of a cycle of bus places for rus readout units that sit in the order of their
// indices.
func PhaseCount(rus, bus int) int { return max(rus, bus) }

// targetSeat is the seat that the readout unit at seat ru sends to in a phase.
func targetSeat(ru, phase, phases int) int { return (ru + phase) % phases }

// Seats says which units sit where: at seat x readout unit RUs[x] and builder unit BUs[x], or Dummy. Both have the same
// length.
type Seats struct{ RUs, BUs []int }

// SeatsInOrder seats units in the order of their indices, on as many seats as there are phases.
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

// Visits are the builder units, or Dummy, that readout unit ru sends to, phase by phase.
func (s Seats) Visits(ru int) []int {
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

func orderShift(c DisciplineConfig, t *Transfers) Order {
	return &shift{
		t:           t,
		buByPhase:   c.Seats.Visits(c.RU),
		fencePhases: c.FencePhases,
		leftPlaces:  make([][]uint64, c.BUs),
	}
}

func (s *shift) holder() int { return s.buByPhase[s.t.rounds.phase] }

func (s *shift) hasLeft() bool {
	for bu := range s.leftPlaces {
		if s.dropServed(bu); len(s.leftPlaces[bu]) > 0 {
			return true
		}
	}
	return false
}

// dropServed drops the places left to a builder unit that need not be served any more.
func (s *shift) dropServed(bu int) {
	s.leftPlaces[bu] = slices.DeleteFunc(s.leftPlaces[bu], func(n uint64) bool { return !s.isOpen(n) })
}

// isOpen tells that the transfer at a place waits to be sent.
func (s *shift) isOpen(n uint64) bool {
	if !s.t.isKept(n) {
		return false
	}
	stage := s.t.TransferAt(n).Stage
	return stage == stageAnnounced || stage == stageGranted
}

// oldestLeft is the oldest place left to a builder unit that has its window. The phase waits for no other.
func (s *shift) oldestLeft(bu int) (uint64, bool) {
	if len(s.leftPlaces[bu]) == 0 {
		return 0, false
	}
	s.dropServed(bu)
	for _, n := range s.leftPlaces[bu] {
		if s.t.TransferAt(n).Stage == stageGranted {
			return n, true
		}
	}
	return 0, false
}

// Visits implements Order.
func (s *shift) Visits() []int { return s.buByPhase }

// FirstNeeded implements Order.
func (s *shift) FirstNeeded() uint64 { return s.t.rounds.start }

// currentPlace is the number of the next place to serve in the current phase. It reports false if no place is left.
func (s *shift) currentPlace() (uint64, bool) {
	r := &s.t.rounds
	bu := s.buByPhase[r.phase]
	if bu == Dummy {
		return 0, false
	}
	still := s.t.builders[bu].still
	if !still {
		if n, ok := s.oldestLeft(bu); ok {
			return n, true
		}
	}
	for ; s.servedCycles < r.cycles; s.servedCycles++ {
		n := r.start + uint64(s.servedCycles*s.t.placesPerCycle+bu)
		switch open := s.isOpen(n); {
		case open && still:
			s.leftPlaces[bu] = append(s.leftPlaces[bu], n)
		case open:
			return n, true
		}
	}
	return 0, false
}

// Next implements Order.
func (s *shift) Next() (Turn, uint64) {
	if !s.t.hasRound() {
		return WaitToken, 0
	}
	n, ok := s.currentPlace()
	switch {
	case ok && s.t.TransferAt(n).Stage == stageGranted:
		return Send, n
	case ok:
		return WaitGrant, n
	case s.fencePhases && s.t.awaited.holding() > 0:
		return WaitWrite, 0
	}
	return AdvancePhase, 0
}

// Along implements Order: the granted places of the phase, up to the first that still waits for a grant.
func (s *shift) Along(places []uint64, most int) []uint64 {
	r, width := &s.t.rounds, uint64(s.t.placesPerCycle)
	if last := places[len(places)-1]; last < r.start {
		for _, n := range s.leftPlaces[s.t.TransferAt(last).BU] {
			if n > last && len(places) < most && s.t.TransferAt(n).Stage == stageGranted {
				places = append(places, n)
			}
		}
		return places
	}
	n, end := places[len(places)-1]+width, r.start+uint64(r.cycles)*width
	for ; n < end && len(places) < most; n += width {
		switch s.t.TransferAt(n).Stage {
		case stageGranted:
			places = append(places, n)
		case stageAnnounced:
			return places
		}
	}
	return places
}

// Note implements Order.
func (s *shift) Note(c Change, _ uint64) error {
	if c == PhaseBegan {
		s.servedCycles = 0
	}
	return nil
}
