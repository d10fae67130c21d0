package readoutunit

import (
	"ringlet/event/placing"
	"ringlet/tagnet"
)

// An Order is a discipline at a readout unit: in which order the tokens that have come are served, and what has to
// happen in between. It is a pure core, like the Transfers it stands on; its owner calls it under a lock.
//
//	AddCycle, ApplyGrant, Complete ─► NextAction ─► what the unit does now ─► Serve or AdvancePhase ─► NextAction …
type Order interface {
	// BeginAt says that the unit takes part from a cycle on, and has no MEP below the given one: it came back in the run.
	// It must be called before the first cycle comes.
	BeginAt(cycle, mep uint64)
	// AddCycle takes the next cycle of a batch. An error says what is wrong with it, and the unit cannot go on; it then
	// had no effect, but that of a *tagError is found when the tokens are there.
	AddCycle(b *tagnet.Batch, i int) error
	// VisitOrder is the order in which the builder units of a cycle are come to, by index.
	VisitOrder() []int
	// ApplyGrant takes a builder unit's answer to an announcement. An error says what is wrong with it; it then had no
	// effect.
	ApplyGrant(bu int, g *placing.Grant) error
	// UsesPreGrants tells whether windows are granted once for all: then nothing is announced.
	UsesPreGrants() bool
	// ApplyPreGrants takes windows of a builder unit that are granted once for all. An error says what is wrong; it then
	// had no effect.
	ApplyPreGrants(bu int, m *placing.PreGrants) error
	// Release takes the watermark below which every MEP has its outcome.
	Release(below uint64)
	// Reject takes that a MEP was rejected by the builder unit to which its token went, for a slot, and says whether
	// nothing of this unit's part is needed any more; with written, also not of one that was written.
	Reject(bu int, slot uint32, mep uint64, written bool) bool
	// SetLinkFull says whether the link to a builder unit takes nothing more for now. Where there is neither a phase nor a
	// tag to hold, NextAction names what goes to others meanwhile; else it names the same, which is sent when the link
	// takes it.
	SetLinkFull(bu int, full bool)
	// Withdraw takes the exclusion of a builder unit: nothing is sent by its earlier tokens that was not sent yet.
	Withdraw(w tagnet.Withdrawal)
	// MarkLost takes that the link to a builder unit is down. Once is enough.
	MarkLost(bu int)
	// IsLost tells whether it was.
	IsLost(bu int) bool
	// IsWithdrawn tells that the token of a cycle for a builder unit is withdrawn: there is nothing to announce.
	IsWithdrawn(cycle uint64, bu int) bool
	// NextQuiesced gives the next exclusion of which nothing is under way any more, each once.
	NextQuiesced() (Exclusion, bool)
	// WithdrawalStats counts what became of withdrawn tokens.
	WithdrawalStats() WithdrawalStats
	// OrphanedWrites is the number of writes under way that nobody waits for.
	OrphanedWrites() int
	// Complete takes the outcomes of the writes at places that Serve gave. It refuses one that was not sent, or is
	// done.
	Complete(places []uint64) error
	// TransferAt is the transfer at a place that is kept.
	TransferAt(n uint64) *Transfer
	// UnrequestedTransfers is the number of transfers that their builder unit never asked for, and that are over by that.
	UnrequestedTransfers() uint64
	// OpenTransfers is the number of transfers that are not done.
	OpenTransfers() int

	// NextAction tells what the unit does now; with Send, the number of the place whose transfer is to be sent. It changes
	// nothing.
	NextAction() (Action, uint64)
	// Serve notes that the write of the transfer that NextAction named is queued, and those of others to the same builder
	// unit that may go along with it, so many in all at most, and appends their places.
	Serve(n uint64, most int, places []uint64) []uint64
	// CyclesAhead is how many cycles could make the next round of phases, if the others have them too.
	CyclesAhead() int
	// BoundRound says that no round of phases is to go beyond the cycle of that number, which has not come yet.
	BoundRound(cycle uint64)
	// RoundStart is the number of the first cycle of the current round; 0 where there are no phases.
	RoundStart() uint64
	// AdvancePhase notes that the phase that NextAction said is over was left. After the last of a round the next round is
	// of so many cycles, at least one and at most CyclesAhead: readout units that hold phases by a barrier must all say
	// the same.
	AdvancePhase(cycles int)
}

// Action is what a unit does now.
type Action uint8

// Actions.
const (
	WaitToken Action = iota // it waits for tokens: it has nothing to serve
	WaitGrant               // it waits for a builder unit to grant a window
	WaitWrite               // it waits for the outcome of a write
	WaitTag                 // it waits for a tag, the right to send
	// it waits for a link that takes more: those to all builder units that it could serve are full
	WaitLink
	Send         // it sends
	AdvancePhase // it goes on to the next phase, when the others do
)

func (t Action) String() string {
	return [...]string{"waits for tokens", "waits for a grant", "waits for its write", "waits for a tag",
		"waits for room in a link", "sends", "goes on"}[t]
}
