package readoutunit

import "time"

// worthPhase is how long a phase may take and still be made longer, so that it is worth its barrier. What takes longer
// is worth one anyway, and more of it would only keep the slots of builder units that others could fill.
const worthPhase = 20 * time.Millisecond

// pace tells from how long the last round took how many cycles the next one is to have at most. It is a core: readout
// units that hold phases by a barrier agree on the least that any of them says. Its zero value knows nothing yet.
type pace struct {
	began time.Time // of the current round; zero: no phase has passed yet
	round uint64    // number of its first cycle
	most  int       // cycles of the next one; 0: any number
}

// passed notes that a phase was left, of the phases of a round, and in which round the unit is now.
func (p *pace) passed(round uint64, phases int, now time.Time) {
	if cycles := int64(round - p.round); !p.began.IsZero() && cycles > 0 {
		took := max(1, now.Sub(p.began).Nanoseconds())
		worth := int64(phases) * worthPhase.Nanoseconds() * cycles
		p.most = int(min((worth+took-1)/took, 1<<30))
	}
	if p.began.IsZero() || round != p.round {
		p.began, p.round = now, round
	}
}

// bound is how many of the cycles that are ahead the next round is to have.
func (p *pace) bound(ahead int) int {
	if p.most == 0 {
		return ahead
	}
	return min(ahead, p.most)
}
