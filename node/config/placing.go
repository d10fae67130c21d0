package config

import (
	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/event/placing"
)

// What slots, look-ahead and the like become where they are left open.
const (
	// minSlots and minLookAhead serve MEPs of many MB, where a cycle takes many round trips.
	minSlots, minLookAhead = 4, 2
	// maxSlotBytes is what the slots of a builder unit may take where MEPs are smaller than that: tokens, sizes and grants
	// of a MEP of 1 MiB take as long as its bytes, so that more must be under way, and a phase of several MEPs is worth
	// its barrier.
	maxSlotBytes = 32 << 20
	// maxGrantedSlots is the most slots where windows are granted for each MEP, at the cost of two messages.
	maxGrantedSlots = 64
	// targetPhaseBytes is how much a readout unit writes in a phase, if there is so much: a barrier takes as long as
	// writing some 100 KB.
	targetPhaseBytes = 4 << 20
	// smallSlotBytes bounds the slots of small MEPs where no barrier holds the phases: beyond some MiB they fall out of
	// the cache between the write and the reading (second-level cache of the reference machine: 1 MiB a core, third: 32
	// MiB shared).
	smallSlotBytes = 2 << 20
	// smallSlotBytesPhased is the same where one does, so that a phase of them is worth it, too.
	smallSlotBytesPhased = 8 << 20
	// maxSmallInFlight is how many small MEPs may be under way in all: 4 ms' worth at 2 MHz, against feedback and tokens
	// that take a few hundred µs each way when both cores are busy.
	maxSmallInFlight = 8192
	// minSmallSlots leaves a builder unit that many even where there are so many others that fewer would do: with 1024, an
	// eighth of which is issued at a time, a readout unit has some 100 parts for each of them to send together.
	minSmallSlots = 1024
	// minSmallSlotsPhased is the same where a barrier holds the phases: of 26 builder units on two cores each phase costs
	// more than its data, and four times as many parts in one took 3.1 µs of processor for an event in place of 5.1.
	minSmallSlotsPhased = 4096
	// maxPrepared bounds the memory of prepared blocks only for the smallest; what a block takes is for the machine to
	// have.
	maxPrepared = 1 << 20
)

// slotAlign is what the distance of two slots is a multiple of, in bytes.
const slotAlign = 64

// SlotLayout lays the slots out for pre-granted windows. It holds after Complete, for generated data.
func (c Config) SlotLayout() (*placing.Layout, error) {
	blocks, err := c.maxBlocks()
	if err != nil {
		return nil, err
	}
	return placing.NewLayout(c.Division(), blocks)
}

// largeFragments is what --debug-large-every makes larger.
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

// maxBlocks is the largest block that each readout unit's generator can make, in bytes.
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

// PreGrantedLayout is how the slots are laid out if windows are granted once for all MEPs, and nil where they are
// granted for each. They stand where the largest part of each readout unit is known beforehand and small, and a slot of
// the size that is given, if it is, has room for all of them. The disciplines in which the size or the request of each
// MEP decides what is sent need a grant for each.
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
		return // what follows reckons with the other fields
	}
	l := c.PreGrantedLayout()
	if c.Slots == 0 {
		c.Slots = max(minSlots, c.fitSlots(l))
	}
	switch {
	case c.Debug.LookAhead != 0:
	case l != nil || c.DisciplineKind().Pull: // what a builder unit asks for, it gets
		c.Debug.LookAhead = c.Slots
	default:
		c.Debug.LookAhead = min(c.Slots, max(minLookAhead, c.Slots/2, 2*c.phaseMEPs()))
	}
}

// fitSlots is how many slots suit the data.
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

// phaseMEPs is how many parts the readout unit with the most sources writes in a phase to reach targetPhaseBytes; of
// recorded data, whose sizes are not known, one.
func (c *Config) phaseMEPs() int {
	_, high := c.MEPSize(0)
	d := c.Division()
	if !c.GeneratesData() || high <= 0 || d.Units() == 0 {
		return 1
	}
	_, most := d.SourceRange() // the largest part decides how long a phase takes
	return int(max(1, targetPhaseBytes*int64(d.Sources())/int64(most)/high))
}

// CyclesPerRound is how many cycles of tokens are served in one round of the shift's phases, at most: half of what
// may be under way, so that the other half is got ready meanwhile, and no more than makes a phase worth its
// barrier; where the network is slow, a readout unit takes fewer.
func (c Completed) CyclesPerRound() int {
	most := min(c.Slots, c.Debug.LookAhead) / 2
	if c.GeneratesData() {
		most = min(most, c.phaseMEPs())
	}
	return max(1, most)
}

// FitSlot gives the slots the size that generated data need, where none is given. It holds after Complete.
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
