package readoutunit

import (
	"ringlet/internal/registry"
	"ringlet/tagnet/core"
)

// An Order is a discipline at a readout unit: it decides in which order the transfers of a table are served, and what
// has to happen in between. It is a pure core, and looks at the table that it was made for.
type Order interface {
	// Visits are the builder units, by index, in the order in which the unit comes to those of a cycle, each once. Where
	// sending goes by phases, one for each phase, or Dummy. It never changes.
	Visits() []int
	// FirstNeeded is the number of the first place that the order may still look at when it is empty or done.
	FirstNeeded() uint64
	// Next tells what the unit does now; with Send, the number of the place whose transfer is to be sent. What it says
	// changes with the table and by Note alone.
	Next() (Turn, uint64)
	// Along appends the places of transfers that may go in the same write as the one that Next names, whose place is the
	// last in the list. The list may get so many places in all.
	Along(places []uint64, most int) []uint64
	// Note takes a change of the table. Only CycleCame may have an error: the tokens contradict what is known, and the
	// unit cannot go on.
	Note(c Change, n uint64) error
}

// TagOrder is an order in which the right to send passes from readout unit to readout unit, as tags.
type TagOrder interface {
	// AddTag takes a tag. An error says what is wrong with it; it then had no effect.
	AddTag(t *core.Tag) error
	// NextForward is the next tag that this unit is done with, to be passed on; each is given once.
	NextForward() (core.Tag, bool)
	// BypassedTags is how many tags were passed on unserved since the unit was busy.
	BypassedTags() uint64
}

// Change is a change of the table of transfers.
type Change uint8

// Changes, and what the number with each is.
const (
	CycleCame   Change = iota // the first place of the cycle; transfers with pre-granted windows are granted already
	Granted                   // the place of the transfer that has its window now
	Sent                      // the place of the first transfer of a write that is queued
	Written                   // the place of the first transfer of a write that has its outcome
	Withdrawn                 // the builder unit for which all transfers are withdrawn
	LinkChanged               // the builder unit to which the link is full, or not, or as it was
	PhaseBegan                // the phase
)

// Turn is what a unit does now.
type Turn uint8

// Turns.
const (
	WaitToken Turn = iota // it waits for tokens: it has nothing to serve
	WaitGrant             // it waits for a builder unit to grant a window
	WaitWrite             // it waits for the outcome of a write
	WaitTag               // it waits for a tag, the right to send
	// it waits for a link that takes more: those to all builder units that it could serve are full
	WaitLink
	Send         // it sends
	AdvancePhase // it goes on to the next phase, when the others do
)

func (t Turn) String() string {
	return [...]string{"waits for tokens", "waits for a grant", "waits for its write", "waits for a tag",
		"waits for room in a link", "sends", "goes on"}[t]
}

// DisciplineConfig is what a discipline is opened with at a readout unit.
type DisciplineConfig struct {
	RU          int // index of the readout unit
	BUs         int
	SlotsPerBU  int   // of each builder unit
	Seats       Seats // of disciplines with phases
	FencePhases bool  // a phase ends with the outcome of its write
	RoundCycles int   // cycles of tokens that are served in one round of phases, at most
	PreGranted  bool  // windows are granted once, for all MEPs
}

// Discipline is a row of the table of disciplines: who decides when a readout unit may send.
type Discipline struct {
	registry.Kind
	Phases           bool // sending goes by phases, which something ends, and in which nodes have seats
	Tags             bool // tags pass from readout unit to readout unit
	Bypass           bool // a busy one passes them on unserved
	Pull             bool // builder units ask for MEPs and for their parts
	AllowsPreGranted bool // windows may be granted for all MEPs: neither size nor request of a MEP decides what is sent
	MaxRUs           int  // 0: as many as there may be
	// order makes the order of a table of transfers.
	order func(DisciplineConfig, *Transfers) Order
}

// Disciplines is the table.
var Disciplines = []Discipline{
	{
		Kind: registry.Kind{Name: "shift",
			Help: "a linear shift in phases, one sender to a builder unit at a time"},
		Phases:           true,
		AllowsPreGranted: true,
		order:            orderShift,
	},
	{
		Kind: registry.Kind{
			Name: "tagring",
			Help: "tags, the right to send, pass from unit to unit and back; a busy unit passes them on unserved",
		},
		Tags:   true,
		Bypass: true,
		MaxRUs: core.MaxTagRingRUs,
		order:  func(c DisciplineConfig, t *Transfers) Order { return newTagRing(c, t, true) },
	},
	{
		Kind:   registry.Kind{Name: "tagring-wait", Help: "the same, but tags wait for a busy unit"},
		Tags:   true,
		MaxRUs: core.MaxTagRingRUs,
		order:  func(c DisciplineConfig, t *Transfers) Order { return newTagRing(c, t, false) },
	},
	{
		Kind:  registry.Kind{Name: "pull", Help: "the builder units ask for MEPs and for their parts"},
		Pull:  true,
		order: orderFree,
	},
	{
		Kind:             registry.Kind{Name: "free", Help: "everybody sends at once, the baseline"},
		AllowsPreGranted: true,
		order:            orderFree,
	},
}

// Open makes the table of transfers of a readout unit, which are served in this discipline.
func (d Discipline) Open(c DisciplineConfig) *Transfers {
	t := newTransfers(c.BUs, c.SlotsPerBU)
	t.grantsOnRequest, t.usesPreGrants = d.Pull, c.PreGranted
	t.setMaxCycles(c.RoundCycles)
	t.order = d.order(c, t)
	t.visits = t.order.Visits()
	return t
}

// TagOrder is the order where it is one of tags; else nil.
func (s *Transfers) TagOrder() TagOrder {
	tags, _ := s.order.(TagOrder)
	return tags
}

// allUnits are so many units, in the order of their indices.
func allUnits(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
