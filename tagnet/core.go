package tagnet

import (
	"ringlet/internal/counter"
	"ringlet/tagnet/core"
)

// Absence and the names that follow are those of package core, for units, run control and reports.
type (
	Absence    = core.Absence
	BUCounters = core.BUCounters
	BURegister = core.BURegister
	Batch      = core.Batch
	Config     = core.Config
	Counters   = core.Counters
	Cut        = core.Cut
	Feedback   = core.Feedback
	Outcome    = core.Outcome
	Policy     = core.Policy
	Reach      = core.Reach
	Reason     = core.Reason
	Refusal    = core.Refusal
	Registers  = core.Registers
	Role       = core.Role
	Rules      = core.Rules
	State      = core.State
	Stats      = core.Stats
	Tag        = core.Tag
	Token      = core.Token
	TurnOrder  = core.TurnOrder
	UnitError  = core.UnitError
	Update     = core.Update
	Withdrawal = core.Withdrawal
)

// The constants of these types, of which core says more.
const (
	Running  = core.Running
	Paused   = core.Paused
	Draining = core.Draining
	Drained  = core.Drained

	Built      = core.Built
	Incomplete = core.Incomplete
	Discarded  = core.Discarded
	Rejected   = core.Rejected

	Wait       = core.Wait
	Skip       = core.Skip
	RoundRobin = core.RoundRobin
	ByRatio    = core.ByRatio
	ByDemand   = core.ByDemand

	NotNow       = core.NotNow
	WrongAttempt = core.WrongAttempt
	WrongEvents  = core.WrongEvents

	WaitForSlots = core.WaitForSlots

	Readout  = core.Readout
	Builder  = core.Builder
	UnitLost = core.UnitLost

	RefusedExcluded   = core.RefusedExcluded
	RefusedUntilReset = core.RefusedUntilReset
	RefusedTerm       = core.RefusedTerm
	RefusedNotNow     = core.RefusedNotNow

	NoMEP         = core.NoMEP
	MaxSlots      = core.MaxSlots
	MaxAttempt    = core.MaxAttempt
	MaxTagRingRUs = core.MaxTagRingRUs
	MaxLoops      = core.MaxLoops
	MaxTagWords   = core.MaxTagWords
)

// ParsePolicy reads the words "wait" and "skip".
func ParsePolicy(s string) (Policy, error) { return core.ParsePolicy(s) }

// ParseTurnOrder reads the words "round-robin", "ratio" and "demand".
func ParseTurnOrder(s string) (TurnOrder, error) { return core.ParseTurnOrder(s) }

// ParseTag reads the first tag of words and returns what follows it, or false if there is none.
func ParseTag(words []uint64) (t Tag, rest []uint64, ok bool) { return core.ParseTag(words) }

// CounterList lists the counters that a scheduler may tell.
func CounterList() counter.List { return core.CounterList() }

// Scheduler is what run control needs of the scheduler of a view, wherever that lives. A Remote is one.
type Scheduler interface {
	Pause() error
	Resume() error
	Drain(end uint64) error
	Abandon() error
	// ExcludeBU returns how many MEPs are issued again.
	ExcludeBU(name string) (reissued int, err error)
	// LoseBU is ExcludeBU for a unit that is known to be gone: what readout units have under way to it is over at once.
	LoseBU(name string) (reissued int, err error)
	// ExcludeRU goes on without a readout unit: what has not come from it is missing.
	ExcludeRU(name string) error
	// IncludeRU lets an excluded readout unit attach again with a new session, and take part from then on.
	IncludeRU(name string) error
	// IncludeBU lets an excluded unit come back; until it has, the registers say that it is excluded.
	IncludeBU(name string) error
	Stats() (Stats, error)
	// Drained is closed when every issued MEP has its outcome and no other will be issued.
	Drained() <-chan struct{}
	// Close ends the session with it.
	Close()
}

var _ Scheduler = (*Remote)(nil)
