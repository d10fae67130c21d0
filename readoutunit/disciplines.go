package readoutunit

import (
	"ringlet/internal/registry"
	"ringlet/tagnet/core"
)

// DisciplineConfig is what a readout unit opens a discipline with.
type DisciplineConfig struct {
	RU          int // index of the readout unit
	BUs         int
	SlotsPerBU  int   // of each builder unit
	Seats       Seats // of disciplines with phases
	FencePhases bool  // a phase ends only when its writes have their outcomes
	RoundCycles int   // how many cycles of tokens one round of phases may serve
	PreGranted  bool  // each window is granted once, for all MEPs
}

// Discipline is a row of the table of disciplines: the rule by which a readout unit knows when it may send.
type Discipline struct {
	registry.Kind
	Phases           bool // a unit sends in phases, which a barrier or time ends, and nodes have seats
	Tags             bool // tags pass from readout unit to readout unit
	Bypass           bool // a busy readout unit passes tags on unserved
	Push             bool // readout units assign MEPs by number as they read them: tokens are credits
	Pull             bool // builder units request MEPs and their parts
	AllowsPreGranted bool // windows may be granted for all MEPs: neither a MEP's size nor a request decides what is sent
	MaxRUs           int  // 0: no limit
	// order makes the order for a table of transfers.
	order func(DisciplineConfig, *Transfers) Order
}

// Disciplines is the table of disciplines.
var Disciplines = []Discipline{
	{
		Kind: registry.Kind{Name: "shift",
			Help: "a linear shift in phases, one sender to a builder unit at a time"},
		Phases:           true,
		AllowsPreGranted: true,
		order:            orderShift,
	},
	{
		Kind: registry.Kind{Name: "push",
			Help: "the same shift, but the readout units assign MEPs to builder units by number, as they read them"},
		Phases:           true,
		Push:             true,
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
		Kind:             registry.Kind{Name: "free", Help: "every readout unit sends at once, the baseline"},
		AllowsPreGranted: true,
		order:            orderFree,
	},
}

// Open makes the table of transfers of a readout unit in this discipline.
func (d Discipline) Open(c DisciplineConfig) *Transfers {
	t := newTransfers(c.BUs, c.SlotsPerBU)
	t.grantsOnRequest, t.usesPreGrants = d.Pull, c.PreGranted
	if d.Push {
		t.credits = &credits{t: t, limit: core.NoMEP}
	}
	t.setMaxCycles(c.RoundCycles)
	t.order = d.order(c, t)
	t.visits = t.order.Visits()
	return t
}

// TagOrder is the order as a TagOrder; nil if it is none.
func (s *Transfers) TagOrder() TagOrder {
	tags, _ := s.order.(TagOrder)
	return tags
}

// allUnits are the indices of n units, in order.
func allUnits(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
