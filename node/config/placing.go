package config

import (
	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/event/placing"
)

// Defaults of slots, look-ahead and related values.
const (
	// minSlots and minLookAhead are for MEPs of many MB, where a cycle takes many round trips.
	minSlots, minLookAhead = 4, 2
	// maxSlotBytes bounds the slots of a builder unit for smaller MEPs: tokens, sizes and grants of a MEP of 1 MiB take as
	// long as its bytes, so more must be under way, and a phase must have several MEPs to be worth its barrier.
	maxSlotBytes = 32 << 20
	// maxGrantedSlots is the most slots if windows are granted for each MEP, at the cost of two messages.
	maxGrantedSlots = 64
	// targetPhaseBytes is how much a readout unit writes in a phase, if it has that much: a barrier takes as long as
	// writing some 100 KB.
	targetPhaseBytes = 4 << 20
	// smallSlotBytes bounds the slots of small MEPs without a barrier: beyond some MiB they leave the cache between the
	// write and the reading (second-level cache of the reference machine: 1 MiB a core, third: 32 MiB shared).
	smallSlotBytes = 2 << 20
	// smallSlotBytesPhased is the same with a barrier, whose phases have to be worth it.
	smallSlotBytesPhased = 8 << 20
	// maxSmallInFlight is how many small MEPs may be under way in all: 4 ms' worth at 2 MHz, while feedback and tokens
	// take a few hundred µs each way when both cores are busy.
	maxSmallInFlight = 8192
	// minSmallSlots is the least number of slots, however many builder units there are: with 1024, an eighth of which is
	// issued at a time, a readout unit has some 100 parts to send together to each builder unit.
	minSmallSlots = 1024
	// minSmallSlotsPhased is the same with a barrier: with 26 builder units on two cores each phase costs more than its
	// data, and four times as many parts in a phase took 3.1 µs of processor time for an event in place of 5.1.
	minSmallSlotsPhased = 4096
	// maxPrepared bounds the memory of prepared blocks only for the smallest blocks; the machine must have the memory for
	// larger ones.
	maxPrepared = 1 << 20
)

// slotAlign divides the distance of two slots, in bytes.
const slotAlign = 64

// SlotLayout lays out slots with pre-granted windows. It needs a completed configuration with generated data.
func (c Config) SlotLayout() (*placing.Layout, error) {
	blocks, err := c.maxBlocks()
	if err != nil {
		return nil, err
	}
	return placing.NewLayout(c.Division(), blocks)
}

// largeFragments are the fragments that --debug-large-every makes larger.
func (c Config) largeFragments() pattern.LargeFragments {
	d, division := &c.Debug, c.Division()
	if d.LargeEvery == 0 || d.LargeRU >= division.Units() {
		return pattern.LargeFragments{}
	}
	return pattern.LargeFragments{
		FirstSource: division.FirstSource(d.LargeRU),
		Sources:     division.SourceCount(d.LargeRU),
		Packing:     c.Packing,
		MEPInterval: uint64(d.LargeEvery),
		Factor:      d.LargeFactor,
	}
}

// maxBlocks has the largest block that each readout unit's generator can make, in bytes.
func (c Config) maxBlocks() ([]int, error) {
	rule, err := c.Pattern()
	if err != nil {
		return nil, err
	}
	d := c.Division()
	blocks := make([]int, d.Units())
	for ru := range blocks {
		for stream := range d.SourceCount(ru) {
			if rule == nil {
				blocks[ru] += int(padTo(int64(c.content().MaxMFP(c.Packing, 0)), event.MEPWordBytes))
				continue
			}
			most := rule.MaxMFP(uint16(d.FirstSource(ru)+stream), c.Packing)
			blocks[ru] += int(padTo(int64(most), event.MEPWordBytes))
		}
	}
	return blocks, nil
}

// PreGrantedLayout is the layout of slots if windows are granted once for all MEPs, or nil if they are granted for each
// MEP. Windows are pre-granted if the largest part of each readout unit is known and small, and a slot of the given
// size, if any, has space for all parts. Disciplines in which the size or request of each MEP decides what is sent need
// a grant for each MEP.
func (c *Config) PreGrantedLayout() *placing.Layout {
	if !c.GeneratesData() || !c.DisciplineKind().AllowsPreGranted {
		return nil
	}
	l, err := c.SlotLayout()
	if err != nil || c.SlotSize > 0 && int64(c.SlotSize) < int64(l.Size()) {
		return nil
	}
	for ru := range l.Units() {
		if _, size := l.PartRange(ru); size > placing.MaxPartSize {
			return nil
		}
	}
	return l
}

// resolveSlots fills in Slots and LookAhead.
func (c *draft) resolveSlots() {
	if len(c.problems) > 0 {
		return // the rest computes with the other fields
	}
	l := c.PreGrantedLayout()
	if c.Slots == 0 {
		c.Slots = max(minSlots, c.fitSlots(l))
	}
	switch {
	case c.Debug.LookAhead != 0:
	case l != nil || c.DisciplineKind().Pull || c.DisciplineKind().Push: // a builder unit gets as many as it asks for
		c.Debug.LookAhead = c.Slots
	default:
		c.Debug.LookAhead = min(c.Slots, max(minLookAhead, c.Slots/2, 2*c.phaseMEPs()))
	}
}

// fitSlots is the number of slots that suits the data.
func (c *draft) fitSlots(l *placing.Layout) int {
	if l == nil {
		if _, high := c.MEPSize(0); c.GeneratesData() && high > 0 {
			return int(min(maxSlotBytes/high, maxGrantedSlots))
		}
		return minSlots
	}
	size := int(padTo(max(int64(l.Size()), int64(c.SlotSize)), slotAlign))
	bytes, many := smallSlotBytes, minSmallSlots
	if c.Phased() {
		bytes, many = smallSlotBytesPhased, minSmallSlotsPhased
	}
	return min(bytes/size, max(many, maxSmallInFlight/c.BUs))
}

// phaseMEPs is how many parts the readout unit with the most sources writes in a phase to reach targetPhaseBytes; for
// recorded data, whose sizes are not known, one.
func (c *Config) phaseMEPs() int {
	_, high := c.MEPSize(0)
	d := c.Division()
	if !c.GeneratesData() || high <= 0 || d.Units() == 0 {
		return 1
	}
	_, most := d.SourceRange() // the largest part decides the length of a phase
	return int(max(1, targetPhaseBytes*int64(d.Sources())/int64(most)/high))
}

// CyclesPerRound is the most cycles of tokens in one round of the shift's phases: half of those under way, so that the
// other half can be prepared meanwhile, and no more than make a phase worth its barrier. On a slow network, a readout
// unit takes fewer.
func (c Completed) CyclesPerRound() int {
	most := min(c.Slots, c.Debug.LookAhead) / 2
	if c.GeneratesData() {
		most = min(most, c.phaseMEPs())
	}
	return max(1, most)
}

// FitSlot sets the slot size that generated data needs, if none is given. It needs a completed configuration.
func (c *Config) FitSlot() error {
	if c.SlotSize != 0 {
		return nil
	}
	if l := c.PreGrantedLayout(); l != nil {
		c.SlotSize = Bytes(padTo(int64(l.Size()), slotAlign))
		return nil
	}
	_, high := c.MEPSize(0)
	c.SlotSize = Bytes(high)
	return nil
}

// UnreleasedMEPs is more than there may be MEPs between the scheduler's released watermark and the next MEP (see
// core.Config.Window): outcomes of so many MEPs are kept for a successor of the scheduler.
func (c Completed) UnreleasedMEPs() int {
	ahead := max(c.Debug.LookAhead, c.Slots+(c.Slots+1)/2)
	return 2 * max(1024, 4*c.BUs*c.Slots, (ahead+1)*c.BUs)
}
