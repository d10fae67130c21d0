package readoutunit

import (
	"ringlet/internal/registry"
	"ringlet/tagnet"
)

// Traffic is what a discipline is opened with at a readout unit.
type Traffic struct {
	RU    int // index of the readout unit
	BUs   int
	Slots int   // of each builder unit
	Seats Seats // of disciplines with phases
	Fence bool  // a phase ends with the outcome of its write
	Round int   // cycles of tokens that are served in one round of phases, at most
	Stand bool  // windows stand for all MEPs
}

// Discipline is a row of the table of disciplines: who decides when a readout unit may send.
type Discipline struct {
	registry.Kind
	Phases  bool // sending goes by phases, which something ends, and in which nodes have seats
	Tags    bool // tags pass from readout unit to readout unit
	Bypass  bool // a busy one passes them on unserved
	Pull    bool // builder units ask for MEPs and for their parts
	Stands  bool // windows may stand for all MEPs: neither size nor request of a MEP decides what is sent
	MostRUs int  // 0: as many as there may be
	Open    func(Traffic) Order
}

// Disciplines is the table.
var Disciplines = []Discipline{
	{
		Kind:   registry.Kind{Name: "shift", Help: "a linear shift in phases, one sender to a builder unit at a time"},
		Phases: true,
		Stands: true,
		Open:   openShift,
	},
	{
		Kind: registry.Kind{
			Name: "tagring",
			Help: "tags, the right to send, pass from unit to unit and back; a busy unit passes them on unserved",
		},
		Tags:    true,
		Bypass:  true,
		MostRUs: tagnet.MaxRing,
		Open:    func(t Traffic) Order { return newTagRing(t.RU, t.BUs, t.Slots, true) },
	},
	{
		Kind:    registry.Kind{Name: "tagring-wait", Help: "the same, but tags wait for a busy unit"},
		Tags:    true,
		MostRUs: tagnet.MaxRing,
		Open:    func(t Traffic) Order { return newTagRing(t.RU, t.BUs, t.Slots, false) },
	},
	{
		Kind: registry.Kind{Name: "pull", Help: "the builder units ask for MEPs and for their parts"},
		Pull: true,
		Open: func(t Traffic) Order { return NewPulled(t.BUs, t.Slots) },
	},
	{
		Kind:   registry.Kind{Name: "free", Help: "everybody sends at once, the baseline"},
		Stands: true,
		Open:   openFree,
	},
}

func openShift(t Traffic) Order {
	s := NewShift(t.RU, t.Seats, t.BUs, t.Slots, t.Fence)
	s.Widen(t.Round)
	if t.Stand {
		s.Stand()
	}
	return s
}

func openFree(t Traffic) Order {
	f := newFree(t.BUs, t.Slots)
	if t.Stand {
		f.Stand()
	}
	return f
}
