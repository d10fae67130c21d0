package readoutunit

import (
	"math"

	"ringlet/event/placing"
	"ringlet/tagnet"
)

// withdrawals is what a readout unit knows of builder units that were excluded, or whose link is down. What was not
// sent to one by a token that is withdrawn is over at once. What was sent is waited for by nobody, but its memory is
// the network's until the write has its outcome or the link is down.
type withdrawals struct {
	validFromCycle     []uint64    // by builder unit: tokens of cycles before this one are withdrawn
	lost               []bool      // by builder unit: there is no link to it any more
	orphanedWrites     []int       // by builder unit: writes under way that nobody waits for
	exclusionCounts    []uint32    // by builder unit: exclusions that came
	unquiesced         []Exclusion // not quiesced
	exclusionsReceived uint64      // exclusions that came
	withdrawnTokens    uint64      // that were withdrawn, and by which nothing was written
	failedWrites       uint64      // writes that had no outcome when the link went down; they are among withdrawnTokens
	lateGrants         uint64      // grants of windows that are not wanted any more
}

// Exclusion is one of a builder unit.
type Exclusion struct {
	BU     int
	Number uint64 // its place among all that came
	Count  uint32 // exclusions of this builder unit so far, with this one
}

func newWithdrawals(bus int) withdrawals {
	return withdrawals{
		validFromCycle:  make([]uint64, bus),
		lost:            make([]bool, bus),
		orphanedWrites:  make([]int, bus),
		exclusionCounts: make([]uint32, bus),
	}
}

// allCycles is the cycle before which all tokens for a lost builder unit are withdrawn.
const allCycles = math.MaxUint64

// recordExclusion takes an exclusion; one that is known changes nothing else.
func (l *withdrawals) recordExclusion(w tagnet.Withdrawal) {
	if int(w.BU) < len(l.validFromCycle) {
		l.validFromCycle[w.BU] = max(l.validFromCycle[w.BU], w.BeforeCycle)
		l.exclusionCounts[w.BU]++
		l.unquiesced = append(l.unquiesced, Exclusion{int(w.BU), l.exclusionsReceived, l.exclusionCounts[w.BU]})
	}
	l.exclusionsReceived++
}

// nextQuiesced gives the next exclusion of which nothing is under way any more, each once. One of a lost builder unit
// never is.
func (l *withdrawals) nextQuiesced() (x Exclusion, ok bool) {
	for i, x := range l.unquiesced {
		if l.orphanedWrites[x.BU] == 0 && !l.lost[x.BU] {
			l.unquiesced = append(l.unquiesced[:i], l.unquiesced[i+1:]...)
			return x, true
		}
	}
	return Exclusion{}, false
}

// isLate says that a grant is of a transfer that its builder unit's exclusion has ended, and counts it.
func (l *withdrawals) isLate(bu int, t *Transfer, g *placing.Grant) bool {
	if l.validFromCycle[bu] == 0 || t != nil && t.Stage == stageAnnounced && t.MEP == g.MEP &&
		uint32(t.Attempt) == g.Attempt {
		return false
	}
	l.lateGrants++
	return true
}

// WithdrawalStats counts what became of tokens for builder units that were excluded or lost.
type WithdrawalStats struct {
	WithdrawnTokens uint64 `count:"withdrawn" help:"tokens by which nothing was written, since their builder unit was excluded or lost"`
	FailedWrites    uint64 `count:"writes_lost" help:"writes under way to a builder unit when it was excluded or lost"`
	LateGrants      uint64 `help:"windows granted by a builder unit that was excluded meanwhile"`
}

func (l *withdrawals) stats() WithdrawalStats {
	return WithdrawalStats{l.withdrawnTokens, l.failedWrites, l.lateGrants}
}

// IsWithdrawn tells that the token of a cycle for a builder unit is withdrawn.
func (s *Transfers) IsWithdrawn(cycle uint64, bu int) bool {
	return cycle < s.withdrawals.validFromCycle[bu]
}

// withdrawTransfer ends what is to be done for a token that is withdrawn.
func (s *Transfers) withdrawTransfer(t *Transfer) {
	switch t.Stage {
	case stageAnnounced, stageGranted:
		t.Stage = stageDone
		s.openCount--
		s.withdrawals.withdrawnTokens++
	case stageSent:
		t.Stage = stageOrphaned
		s.openCount--
		s.sentCount--
		s.withdrawals.orphanedWrites[t.BU]++
	}
}

// Withdraw takes the exclusion of a builder unit. It concerns all tokens that are here: those that are good come behind
// it.
func (s *Transfers) Withdraw(w tagnet.Withdrawal) {
	s.withdrawals.recordExclusion(w)
	for i := range s.places {
		if t := &s.places[i]; t.BU == w.BU {
			s.withdrawTransfer(t)
		}
	}
}

// MarkLost takes that the link to a builder unit is down: nothing sent to it will have an outcome any more. All tokens
// for it that are still to come are withdrawn.
func (s *Transfers) MarkLost(bu int) {
	if s.withdrawals.lost[bu] {
		return
	}
	s.withdrawals.validFromCycle[bu], s.withdrawals.lost[bu] = allCycles, true
	for i := range s.places {
		t := &s.places[i]
		if int(t.BU) != bu {
			continue
		}
		if s.withdrawTransfer(t); t.Stage == stageOrphaned {
			t.Stage = stageDone
			s.withdrawals.orphanedWrites[bu]--
			s.withdrawals.failedWrites++
			s.withdrawals.withdrawnTokens++
		}
	}
}

// IsLost tells whether the link to a builder unit is down.
func (s *Transfers) IsLost(bu int) bool { return s.withdrawals.lost[bu] }

// NextQuiesced gives the next exclusion of which nothing is under way any more, each once.
func (s *Transfers) NextQuiesced() (Exclusion, bool) { return s.withdrawals.nextQuiesced() }

// WithdrawalStats counts what became of withdrawn tokens.
func (s *Transfers) WithdrawalStats() WithdrawalStats { return s.withdrawals.stats() }

// OrphanedWrites is the number of writes under way that nobody waits for.
func (s *Transfers) OrphanedWrites() (n int) {
	for _, w := range s.withdrawals.orphanedWrites {
		n += w
	}
	return n
}
