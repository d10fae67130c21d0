package readoutunit

import (
	"ringlet/internal/registry"
	"ringlet/tagnet"
)

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
	Open             func(DisciplineConfig) Order
}

// Disciplines is the table.
var Disciplines = []Discipline{
	{
		Kind: registry.Kind{Name: "shift",
			Help: "a linear shift in phases, one sender to a builder unit at a time"},
		Phases:           true,
		AllowsPreGranted: true,
		Open:             openShift,
	},
	{
		Kind: registry.Kind{
			Name: "tagring",
			Help: "tags, the right to send, pass from unit to unit and back; a busy unit passes them on unserved",
		},
		Tags:   true,
		Bypass: true,
		MaxRUs: tagnet.MaxTagRingRUs,
		Open:   func(t DisciplineConfig) Order { return newTagRing(t.RU, t.BUs, t.SlotsPerBU, true) },
	},
	{
		Kind:   registry.Kind{Name: "tagring-wait", Help: "the same, but tags wait for a busy unit"},
		Tags:   true,
		MaxRUs: tagnet.MaxTagRingRUs,
		Open:   func(t DisciplineConfig) Order { return newTagRing(t.RU, t.BUs, t.SlotsPerBU, false) },
	},
	{
		Kind: registry.Kind{Name: "pull", Help: "the builder units ask for MEPs and for their parts"},
		Pull: true,
		Open: func(t DisciplineConfig) Order { return NewPulled(t.BUs, t.SlotsPerBU) },
	},
	{
		Kind:             registry.Kind{Name: "free", Help: "everybody sends at once, the baseline"},
		AllowsPreGranted: true,
		Open:             openFree,
	},
}

func openShift(c DisciplineConfig) Order {
	s := NewShift(c.RU, c.Seats, c.BUs, c.SlotsPerBU, c.FencePhases)
	s.SetMaxCycles(c.RoundCycles)
	if c.PreGranted {
		s.EnablePreGranted()
	}
	return s
}

func openFree(c DisciplineConfig) Order {
	f := newFree(c.BUs, c.SlotsPerBU)
	if c.PreGranted {
		f.EnablePreGranted()
	}
	return f
}
