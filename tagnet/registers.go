package tagnet

import "slices"

// Counters of the scheduler, cumulative over the view.
//
// Issued = Built + Incomplete + Discarded + Rejected + Abandoned + in flight, and so for the events.
type Counters struct {
	Cycles        uint64
	PartialCycles uint64 // with fewer tokens than active builder units
	Issued        uint64 // MEPs: first attempts
	Reissued      uint64 // tokens beyond the first for the same MEP
	Built         uint64 // MEPs, by outcome
	Incomplete    uint64
	Discarded     uint64
	Rejected      uint64
	Abandoned     uint64

	EventsIssued     uint64 // in issued MEPs, as the readout units told them
	EventsBuilt      uint64
	EventsIncomplete uint64
	EventsDiscarded  uint64
	EventsRejected   uint64
	EventsAbandoned  uint64

	Skips      uint64 // places left empty, or turns lost, for want of a free slot
	GroupSkips uint64 // turns lost since the group had its running event

	Waits   [numberOfWaiting]uint64 // times it began to wait, by Waiting
	Refused [numberOfReasons]uint64 // inputs refused or reported, by Reason
}

// BUCounters of one builder unit.
type BUCounters struct {
	Tokens     uint64 // sent to it
	Built      uint64 // MEPs, by outcome
	Incomplete uint64
	Discarded  uint64
	Rejected   uint64
	Skips      uint64 // places left empty because it had no free slot
	LeftBehind uint64 // times that the others went on without it
	Refused    uint64 // feedback entries refused
	Withdrawn  uint64 // tokens taken back since it was excluded
	Exclusions uint64 // times it was

	EventsBuilt uint64
}

// GroupCounters of a group of builder units.
type GroupCounters struct {
	Running uint64 // events now
	Most    uint64 // events at a time, ever: 1 where the rule holds
	Tokens  uint64 // sent to it
	Skips   uint64 // turns lost since it had its running event
}

// Registers is one consistent reading of the scheduler (row T5).
type Registers struct {
	State   State
	Policy  Policy
	Rules   Rules
	Loose   bool
	Waiting Waiting // why nothing was issued when Issue was last called

	NextMEP   uint64 // never issued before
	NextCycle uint64
	Read      uint64 // every MEP below is held by all included readout units
	Released  uint64 // every MEP below has its outcome, but those held up
	HeldUp    uint64 // MEPs below Released that have no outcome
	InFlight  uint64 // MEPs without outcome, those to be issued again included

	Counters Counters

	Ready  Depth // MEPs read and not issued; the capacity is the window
	Cycles Depth // cycles in flight; the capacity is the look-ahead, where Loose as many cycles of one token as may be
	Window Depth // MEPs past the released watermark
	Again  Depth // MEPs that wait to be issued again

	Ring *RingRegister // nil without a ring

	RUs []RURegister // in the order of the view
	BUs []BURegister

	Groups []GroupCounters // in the order of Rules.Groups
}

// RURegister is what the scheduler knows of a readout unit.
type RURegister struct {
	Name     string
	Excluded bool
	Attached bool // its stream is open; false in a Core without a Server
	Update   Update
}

// BURegister is what the scheduler knows of a builder unit.
type BURegister struct {
	Name     string
	Excluded bool
	Lost     bool // excluded, and not to come back in this view
	Attached bool // its stream is open; false in a Core without a Server
	Free     int  // slots without a token
	Used     Depth
	Counters BUCounters
}

// Registers reads all registers. It allocates.
func (c *Core) Registers() Registers {
	r := Registers{
		State:     c.State(),
		Policy:    c.cfg.Policy,
		Rules:     c.cfg.Rules,
		Loose:     c.cfg.Loose,
		Waiting:   c.waiting,
		NextMEP:   c.next,
		NextCycle: c.nextCycle,
		Read:      c.read,
		Released:  c.released,
		HeldUp:    uint64(len(c.held.meps)),
		InFlight:  uint64(c.InFlight()),
		Counters:  c.counters,
		Ready:     c.depths.ready,
		Cycles:    c.depths.cycles,
		Window:    c.depths.window,
		Again:     c.depths.again,
	}
	r.Groups = slices.Clone(c.groups.running)
	if c.ring != nil {
		r.Ring = &RingRegister{RingCounters: c.ring.count, Waiting: uint64(len(c.ring.waiting)), Under: c.ring.depth}
	}
	for i := range c.rus {
		r.RUs = append(r.RUs, RURegister{Name: c.cfg.RUs[i], Excluded: c.rus[i].excluded, Update: c.rus[i].Update})
	}
	for j := range c.bus {
		b := &c.bus[j]
		r.BUs = append(r.BUs, BURegister{
			Name: c.cfg.BUs[j], Excluded: b.excluded, Lost: b.lost, Free: b.free.len(), Used: b.used, Counters: b.count,
		})
	}
	return r
}
