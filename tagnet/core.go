package tagnet

import (
	"ringlet/internal/counter"
	"ringlet/tagnet/core"
)

type (
	// Absence is a change of who among the readout units takes part; see package core.
	Absence = core.Absence
	// BUCounters are those of one builder unit; see package core.
	BUCounters = core.BUCounters
	// BURegister is what the scheduler knows of a builder unit; see package core.
	BURegister = core.BURegister
	// Batch holds whole cycles of tokens; see package core.
	Batch = core.Batch
	// Config describes a view to the scheduler; see package core.
	Config = core.Config
	// Counters are those of the scheduler; see package core.
	Counters = core.Counters
	// Cut is which events a MEP has; see package core.
	Cut = core.Cut
	// Feedback returns a slot and tells an outcome; see package core.
	Feedback = core.Feedback
	// Outcome is that of a MEP; see package core.
	Outcome = core.Outcome
	// Policy says what a cycle does without a free slot; see package core.
	Policy = core.Policy
	// Reach is how far the live data of a readout unit go; see package core.
	Reach = core.Reach
	// Reason tells why the scheduler refused an input; see package core.
	Reason = core.Reason
	// Refusal names why a session or a call was refused; see package core.
	Refusal = core.Refusal
	// Registers are what a scheduler says of itself; see package core.
	Registers = core.Registers
	// Role is that of a unit; see package core.
	Role = core.Role
	// Rules say which builder unit comes next; see package core.
	Rules = core.Rules
	// State is that of the scheduler; see package core.
	State = core.State
	// Stats are registers and what can be read in them; see package core.
	Stats = core.Stats
	// Tag is the right to send that passes through the readout units; see package core.
	Tag = core.Tag
	// Token sends one MEP to one slot of one builder unit; see package core.
	Token = core.Token
	// TurnOrder says how turns are given; see package core.
	TurnOrder = core.TurnOrder
	// UnitError reports what is wrong with a unit; see package core.
	UnitError = core.UnitError
	// Update is what a readout unit holds; see package core.
	Update = core.Update
	// Withdrawal says that a builder unit has been excluded; see package core.
	Withdrawal = core.Withdrawal
)

// The constants of these types, of which core says more.
const (
	Running  = core.Running
	Paused   = core.Paused
	Draining = core.Draining
	Drained  = core.Drained

	Built     = core.Built
	Discarded = core.Discarded
	Rejected  = core.Rejected

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
