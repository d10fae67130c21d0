package config

import (
	"fmt"

	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/event/placing"
)

// What slots, look-ahead and the like become where they are left open.
const (
	// slotsAnnounced and aheadAnnounced serve MEPs of MB, where a cycle takes many round trips.
	slotsAnnounced, aheadAnnounced = 4, 2
	// announcedBytes is what the slots of a builder unit may take where MEPs are smaller than that: tokens, sizes and grants of a MEP of 1 MiB take
	// as long as its bytes, so that more must be under way; with 4 folded nodes, whose MEPs are 4 MiB, more slots gained nothing (16 slots against
	// 4 for a pair on express: 9.7 against 6.7 Gbit/s; 8 against 4 for 4 nodes: 7.8 against 10.4; medians of 2, 2026-11-21).
	announcedBytes, mostAnnounced = 16 << 20, 64
	// maxSlotBytes bounds the slots of one builder unit: beyond some MiB they fall out of the cache between the write and the
	// reading (second-level cache of the reference machine: 1 MiB a core, third: 32 MiB shared).
	maxSlotBytes = 2 << 20
	// maxInFlight is how many small MEPs may be under way in all: 4 ms' worth at 2 MHz, against feedback and tokens that take a few hundred µs
	// each way when both cores are busy.
	maxInFlight = 8192
	// leastSlots leaves a builder unit that many even where there are so many others that fewer would do: with 1024, an eighth of which is
	// issued at a time, a readout unit has some 100 parts for each of them to send together.
	leastSlots = 1024
	// heldInFlight is how many MEPs may be under way where a barrier holds the phases: one is written at a time, so that more only wait.
	heldInFlight = 64
	// maxPrepared bounds the memory of prepared blocks only for the smallest; what a block takes is for the machine to have.
	maxPrepared = 1 << 20
)

// SlotAlign is what the distance of two slots is a multiple of, in bytes.
const SlotAlign = 64

// Layout lays out the slots by quota. It holds after Complete, for generated data.
func (c Config) Layout() (*placing.Layout, error) {
	blocks, err := c.maxBlocks()
	if err != nil {
		return nil, err
	}
	return placing.NewLayout(c.Streams, blocks)
}

// Large is what --debug-large-every makes larger.
func (c Config) Large() pattern.Large {
	d := &c.Debug
	return pattern.Large{First: d.LargeRU * c.Streams, Sources: c.Streams, Packing: c.Packing, Every: uint64(d.LargeEvery), Factor: d.LargeFactor}
}

// maxBlocks is the largest block that each readout unit's generator can make, in bytes.
func (c Config) maxBlocks() ([]int, error) {
	rule, err := c.Rule()
	if err != nil {
		return nil, err
	}
	blocks := make([]int, c.RUs)
	for source := range c.RUs * c.Streams {
		blocks[source/c.Streams] += int(padTo(int64(rule.MaxMFP(uint16(source), c.Packing)), event.MEPWord))
	}
	return blocks, nil
}

// resolvePlacing settles Placing, and with it how many slots there are and how far tokens go ahead.
func (c *Config) resolvePlacing(p *problems) {
	if len(*p) > 0 {
		return // what follows reckons with the other fields
	}
	var layout *placing.Layout
	switch {
	case !c.Generated() && c.Placing == PlacingQuota:
		p.add("placing", "quota needs to know the largest part beforehand, and recorded events may have any size: use announce or leave out input")
		return
	case !c.plain() && c.Placing == PlacingQuota:
		p.add("placing", "quota goes with a shift in the order of ranks whose phases end by the barrier: use announce")
		return
	case !c.Generated() || !c.plain():
		c.Placing = PlacingAnnounce
	case c.Placing != PlacingAnnounce:
		var err error
		if layout, err = c.Layout(); err != nil && c.Placing == PlacingQuota {
			p.add("placing", "quota is not possible: %v", err)
			return
		}
		if err == nil && (c.Placing == PlacingQuota || c.small(layout) && c.holds(layout)) {
			c.Placing = PlacingQuota
		} else {
			c.Placing, layout = PlacingAnnounce, nil
		}
	}
	c.resolveSlots(layout)
	if layout != nil && !c.holds(layout) {
		p.add("slot-size", "the quotas of %d readout units take %d bytes, more than a slot of %s: make the slots larger, or use placing announce",
			c.RUs, layout.Size(), c.SlotSize)
	}
}

// holds says whether a slot of the size that is given, if it is, has room for all quotas.
func (c *Config) holds(l *placing.Layout) bool {
	return c.SlotSize <= 0 || int64(c.SlotSize) >= int64(l.Size())
}

// small says whether every part is small enough to be placed by quota unasked.
func (c *Config) small(l *placing.Layout) bool {
	for ru := range l.RUs() {
		if _, room := l.Part(ru); room > placing.MaxQuota {
			return false
		}
	}
	return true
}

// resolveSlots fills in Slots and LookAhead. Without a layout they serve large MEPs.
func (c *Config) resolveSlots(l *placing.Layout) {
	if l == nil {
		if c.Slots == 0 {
			c.Slots = slotsAnnounced
			if _, high := c.MEPSize(0); c.Generated() && high > 0 {
				c.Slots = int(max(slotsAnnounced, min(announcedBytes/high, mostAnnounced)))
			}
		}
		switch {
		case c.Debug.LookAhead != 0:
		case c.Traffic().Pull: // what a builder unit asks for, it gets
			c.Debug.LookAhead = c.Slots
		default:
			c.Debug.LookAhead = max(aheadAnnounced, c.Slots/2)
		}
		return
	}
	if c.Slots == 0 {
		size := int(padTo(max(int64(l.Size()), int64(c.SlotSize)), SlotAlign))
		most := max(leastSlots, maxInFlight/c.BUs)
		if c.Phased() {
			most = heldInFlight / c.BUs
		}
		c.Slots = max(slotsAnnounced, min(maxSlotBytes/size, most))
	}
	if c.Debug.LookAhead == 0 {
		c.Debug.LookAhead = c.Slots
	}
}

// FitSlot gives the slots the size that generated data need, where none is given. It holds after Complete.
func (c *Config) FitSlot() error {
	if c.SlotSize != 0 {
		return nil
	}
	if c.Placing != PlacingQuota {
		_, high := c.MEPSize(0)
		c.SlotSize = Bytes(high)
		return nil
	}
	l, err := c.Layout()
	if err != nil {
		return fmt.Errorf("the slots cannot be laid out: %w", err)
	}
	c.SlotSize = Bytes(padTo(int64(l.Size()), SlotAlign))
	return nil
}
