package readoutunit

import (
	"time"

	"ringlet/barrier"
	"ringlet/internal/standstill"
)

// How a readout unit passes over a builder unit that stands still, in an order with phases:
//
//	the phase waits for the builder unit, and nothing comes from it for too long ─► passOver: its writes under way hold
//	no phase, and its places are left for later ─► its phases are empty ─► an outcome or a grant comes from it, and no
//	write to it is under way ─► its next phase serves what was left, the oldest first
//
// So a readout unit that has begun a burst to it sends it nothing else before the burst is over, and what was left goes
// in the phases of its seat only. When nobody has tokens, the units go through empty rounds until nothing is left
// anywhere: they agree on that by their offers at the barrier.
//
// An offer is emptyOffer, noOffer, or noOffer plus a number of cycles. All units take the smallest. emptyOffer comes
// only from a unit without tokens: if another one has tokens, this unit will get them.

// emptyOffer asks for an empty round; noOffer says that the unit has no cycles for the next round.
const emptyOffer, noOffer = 0, 1

// offer is what this unit offers if it could serve that many cycles.
func (c *Core) offer(cycles int) int {
	if cycles == 0 && c.held != nil && c.held.hasLeft() {
		return emptyOffer
	}
	return noOffer + cycles
}

// cyclesOf is the number of cycles of the next round by an offer that all units take: without any, one that is to come.
func cyclesOf(offer int) int {
	if offer == emptyOffer {
		return emptyRound
	}
	return max(1, offer-noOffer)
}

// leaveEpoch ends the phase after the barrier. If nobody has cycles for another round, the epochs that are still open,
// where there is slack, may ask for an empty one.
func (c *Core) leaveEpoch(in *Input) {
	if in.Held.Rank != barrier.Nobody {
		c.offered = int(in.Held.MinOffer)
	}
	if phase, phases := c.transfers.progress(); c.offered == noOffer && phase == phases-1 {
		c.roundOver = true
		return
	}
	c.endPhase(cyclesOf(c.offered), in.Now)
}

// finishEpochs applies that all epochs are over.
func (c *Core) finishEpochs(in *Input) {
	if !c.roundOver {
		for _, held := range in.Finished {
			c.fail(c.stats.recordHolder(held))
		}
		c.phasesLeft = true
		return
	}
	for _, held := range in.Finished {
		if held.Rank != barrier.Nobody {
			c.offered = min(c.offered, int(held.MinOffer))
		}
	}
	c.roundOver = false
	c.endPhase(cyclesOf(c.offered), in.Now)
}

// warmPhases is how many phases a unit must have gone through before its waits count.
const warmPhases = 64

// emptyRoundTime is the shortest time of an empty round: otherwise units that wait for another one would use up the
// processors.
const emptyRoundTime = 10 * time.Millisecond

// watchPhase looks at a phase that waits. It returns how long the conductor waits at most, 0 for no limit, or that the
// builder unit was passed over.
func (c *Core) watchPhase(turn Turn, now time.Time) (within time.Duration, passedOver bool) {
	if c.held == nil {
		return 0, false
	}
	since, bu := time.Duration(now.UnixNano()), c.held.holder()
	waits := bu != Dummy && (turn == WaitGrant || turn == WaitWrite || turn == WaitLink)
	if !waits {
		c.standstill.End(since)
	} else if n := c.transfers.builders[bu].answers; n != c.answersSeen {
		c.answersSeen = n
		c.standstill.End(since)
	}
	switch {
	case waits:
		c.standstill.Warm = c.stats.PhasesPassed >= warmPhases
		if !c.standstill.Wait(since) {
			return standstill.Tick, false
		}
		c.standstill.GiveUp()
		c.transfers.awaited.passOver(&c.transfers.builders[bu])
		c.stats.PassedOver++
		return 0, true
	case turn == AdvancePhase && c.transfers.rounds.isEmpty() && c.transfers.cyclesAhead() == 0:
		if c.phase.begun.IsZero() {
			c.phase.begun = now
		}
		if rest := emptyRoundTime - now.Sub(c.phase.begun); c.transfers.rounds.phase == 0 && rest > 0 {
			return rest, false
		}
	}
	return 0, false
}

// awaited counts the transfers whose write is under way, and whose outcome is awaited.
type awaited struct {
	count int // all
	still int // those to builder units that stand still
}

// begin notes that transfers to a builder unit are under way.
func (a *awaited) begin(b *builder, n int) {
	a.count += n
	b.sentCount += n
}

// end notes that the outcome of a transfer to a builder unit is awaited no longer.
func (a *awaited) end(b *builder) {
	a.count--
	b.sentCount--
	if b.still {
		a.still--
	}
}

// passOver notes that a builder unit stands still: its writes under way hold no phase, and it gets no others until
// noteAnswer.
func (a *awaited) passOver(b *builder) {
	if !b.still {
		b.still = true
		a.still += b.sentCount
	}
}

// holding is how many transfers are under way that hold the phase.
func (a awaited) holding() int { return a.count - a.still }

// noteAnswer notes that something came from a builder unit. If it stood still, it is served again, once no write to it
// is under way any more: until then its link may carry the rest of a burst.
func (b *builder) noteAnswer() {
	b.answers++
	b.still = b.still && b.sentCount > 0
}

// isEmpty tells that the current round serves only what earlier rounds have left.
func (r *rounds) isEmpty() bool { return r.cycles == emptyRound }

// phasedOf is the order of a table, if a builder unit that stands still is passed over in it; else nil.
func phasedOf(t *Transfers) phased {
	held, _ := t.order.(phased)
	return held
}

// barrierRound is the number of the current round at the barrier. An empty round belongs to the cycle before: what is
// to change with the next cycle may not be known yet.
func (c *Core) barrierRound() uint64 {
	if c.transfers.rounds.isEmpty() {
		return c.transfers.RoundStart() - 1
	}
	return c.transfers.RoundStart()
}
