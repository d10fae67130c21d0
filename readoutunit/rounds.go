package readoutunit

import "time"

// rounds are the phases of a readout unit: each round of them serves a cycle of tokens or several, so that what is sent
// in a phase is worth its barrier. Units that hold phases by a barrier agree on how many: on the least that any offers.
type rounds struct {
	maxCycles int      // of a round
	start     uint64   // first place of the current one
	cycles    int      // of the current one
	phase     int      // of the current one
	bounds    []uint64 // cycles that rounds begin with, in order
}

// setMaxCycles lets a round have up to so many cycles. It must be called before the first of them comes.
func (s *Transfers) setMaxCycles(most int) { s.rounds.maxCycles = max(1, most) }

// phase is the current phase, and how many a round has.
func (s *Transfers) progress() (phase, phases int) { return s.rounds.phase, len(s.visits) }

// hasRound reports whether there is a round to work on.
func (s *Transfers) hasRound() bool { return s.rounds.start < s.nextPlace() }

// cyclesAhead is how many cycles could make the next round of phases, if the others have them too.
func (s *Transfers) cyclesAhead() int {
	r, places := &s.rounds, uint64(s.placesPerCycle)
	next := r.start + uint64(r.cycles)*places
	if next >= s.nextPlace() {
		return 0
	}
	n := min(r.maxCycles, int((s.nextPlace()-next)/places))
	for _, bound := range r.bounds {
		switch nextCycle := next / places; {
		case bound == nextCycle:
			n = 1 // who goes on from there has not agreed on more
		case bound > nextCycle && bound-nextCycle < uint64(n):
			n = int(bound - nextCycle)
		}
	}
	return n
}

// boundRound says that no round of phases is to go beyond the cycle of that number, which has not come yet.
func (s *Transfers) boundRound(cycle uint64) { s.rounds.bounds = append(s.rounds.bounds, cycle) }

// RoundStart is the number of the first cycle of the current round.
func (s *Transfers) RoundStart() uint64 { return s.rounds.start / uint64(s.placesPerCycle) }

// AdvancePhase notes that the phase that Next said is over was left. After the last of a round the next round is of so
// many cycles, at least one and at most cyclesAhead: readout units that hold phases by a barrier must all say the same.
func (s *Transfers) AdvancePhase(cycles int) {
	r := &s.rounds
	if r.phase++; r.phase == len(s.visits) {
		r.phase = 0
		r.start += uint64(r.cycles * s.placesPerCycle)
		r.cycles = max(1, cycles)
		for len(r.bounds) > 0 && r.bounds[0] <= s.RoundStart() {
			r.bounds = r.bounds[1:]
		}
	}
	_ = s.order.Note(PhaseBegan, uint64(r.phase)) // only tokens can contradict
}

// minPhaseTime is how long a unit should write in a phase for the phase to be worth its barrier. More would only keep
// slots that others could fill meanwhile.
const minPhaseTime = 20 * time.Millisecond

// roundPacer tells how many cycles the next round of phases should have, from how long it took to write the parts of
// this round and of the one before. Time in barriers, and for tokens, does not count: more cycles make it no longer.
// The zero roundPacer knows nothing yet.
type roundPacer struct {
	round             uint64 // number of its first cycle
	current, previous roundWrites
}

// roundWrites is what was written in a round, and how long that took.
type roundWrites struct {
	parts int64
	took  time.Duration
}

// record takes that a unit has written so many parts in a phase of a round.
func (p *roundPacer) record(round uint64, parts int, took time.Duration) {
	if round != p.round {
		p.round, p.previous, p.current = round, p.current, roundWrites{}
	}
	p.current.parts += int64(parts)
	p.current.took += took
}

// boundCycles is how many of the cycles that are ahead the next round should have: as many as take minPhaseTime in each
// phase, rounded up.
func (p *roundPacer) boundCycles(ahead int) int {
	parts, took := p.current.parts+p.previous.parts, int64(p.current.took+p.previous.took)
	if parts == 0 || took <= 0 {
		return ahead
	}
	return int(min(int64(ahead), (minPhaseTime.Nanoseconds()*parts+took-1)/took))
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
