package readoutunit

import "time"

// worthPhase is how long a unit should write in a phase for the phase to be worth its barrier. More would only keep
// slots that others could fill meanwhile.
const worthPhase = 20 * time.Millisecond

// pace tells how many cycles the next round of phases should have, from how long it took to write the parts of this
// round and of the one before. Time in barriers, and for tokens, does not count: more cycles make it no longer. It is a
// core. Units that hold phases by a barrier agree on the least that any of them offers. The zero pace knows nothing
// yet.
type pace struct {
	round     uint64 // number of its first cycle
	now, last written
}

// written is what was written in a round, and how long that took.
type written struct {
	parts int64
	took  time.Duration
}

// wrote takes that a unit has written so many parts in a phase of a round.
func (p *pace) wrote(round uint64, parts int, took time.Duration) {
	if round != p.round {
		p.round, p.last, p.now = round, p.now, written{}
	}
	p.now.parts += int64(parts)
	p.now.took += took
}

// bound is how many of the cycles that are ahead the next round should have: as many as take worthPhase in each phase,
// rounded up.
func (p *pace) bound(ahead int) int {
	parts, took := p.now.parts+p.last.parts, int64(p.now.took+p.last.took)
	if parts == 0 || took <= 0 {
		return ahead
	}
	return int(min(int64(ahead), (worthPhase.Nanoseconds()*parts+took-1)/took))
}
