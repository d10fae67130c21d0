package readoutunit

import "time"

// minPhaseTime is how long a unit should write in a phase for the phase to be worth its barrier. More would only keep
// slots that others could fill meanwhile.
const minPhaseTime = 20 * time.Millisecond

// roundPacer tells how many cycles the next round of phases should have, from how long it took to write the parts of
// this round and of the one before. Time in barriers, and for tokens, does not count: more cycles make it no longer. It
// is a core. Units that hold phases by a barrier agree on the least that any of them offers. The zero roundPacer
// knows nothing yet.
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
