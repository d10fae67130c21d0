package tagnet

import "slices"

// Counters of the scheduler, cumulative over the view.
//
// Issued = Built + Incomplete + Discarded + Rejected + Abandoned + in flight, and so for the events.
type Counters struct {
	Cycles        uint64 `help:"cycles issued"`
	PartialCycles uint64 `help:"cycles with fewer tokens than active builder units"`
	Issued        uint64 `help:"MEPs that were given a token"`
	Reissued      uint64 `help:"tokens beyond the first for the same MEP"`
	Built         uint64 `help:"MEPs built"`
	Incomplete    uint64 `help:"MEPs without all their parts"`
	Discarded     uint64 `help:"MEPs that were thrown away for want of time"`
	Rejected      uint64 `help:"MEPs that were rejected by the filter"`
	Abandoned     uint64 `help:"MEPs without an outcome when the run was given up"`

	EventsIssued     uint64 `help:"events in issued MEPs, as the readout units told them"`
	EventsBuilt      uint64 `help:"events in built MEPs"`
	EventsIncomplete uint64 `help:"events in incomplete MEPs"`
	EventsDiscarded  uint64 `help:"events in discarded MEPs"`
	EventsRejected   uint64 `help:"events in rejected MEPs"`
	EventsAbandoned  uint64 `help:"events in abandoned MEPs"`

	Skips      uint64 `help:"places left empty, or turns lost, for want of a free slot"`
	GroupSkips uint64 `help:"turns lost since the group had its running event"`

	Waits   waitCounts   `count:"waits_for_" help:"times the scheduler began to wait for it"`
	Refused reasonCounts `count:"refused_" help:"inputs that were refused or reported for this reason"`
}

type waitCounts [numberOfWaiting]uint64

// Kinds names what it waits for.
func (waitCounts) Kinds() (names []string) {
	for w := NotWaiting; w < numberOfWaiting; w++ {
		names = append(names, w.String())
	}
	return names
}

type reasonCounts [numberOfReasons]uint64

// Kinds names the reasons.
func (reasonCounts) Kinds() (names []string) {
	for why := UnknownUnit; why < numberOfReasons; why++ {
		names = append(names, why.String())
	}
	return names
}

// BUCounters of one builder unit.
type BUCounters struct {
	Tokens     uint64 `help:"tokens sent to it"`
	Built      uint64 `help:"MEPs built"`
	Incomplete uint64 `help:"MEPs without all their parts"`
	Discarded  uint64 `help:"MEPs that were thrown away for want of time"`
	Rejected   uint64 `help:"MEPs that were rejected by the filter"`
	Skips      uint64 `help:"places left empty because it had no free slot"`
	LeftBehind uint64 `help:"times that the others went on without it"`
	Refused    uint64 `help:"feedback entries refused"`
	Withdrawn  uint64 `help:"tokens taken back since it was excluded"`
	Exclusions uint64 `help:"times it was excluded"`

	EventsBuilt uint64 `help:"events in built MEPs"`
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
