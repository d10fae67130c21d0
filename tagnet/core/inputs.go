package core

import (
	"math/bits"
)

// inputs are what readout units hold, and up to where MEPs may be issued by that.
type inputs struct {
	table

	rus           []ruState
	readWatermark uint64 // every MEP below is held by all included RUs
	inputEnded    bool   // no included RU will go beyond read
	endMEP        uint64 // first MEP not to be issued, whatever is read
}

type ruState struct {
	Update
	excluded   bool
	exclusions uint64
}

func newInputs(cfg Config) inputs {
	c := inputs{
		table:         newTable(cfg),
		rus:           make([]ruState, len(cfg.RUs)),
		readWatermark: cfg.FirstMEP,
		endMEP:        NoMEP,
	}
	if cfg.EndMEP != 0 {
		c.endMEP = cfg.EndMEP
	}
	for i := range c.rus {
		c.rus[i].ReadBelow = cfg.FirstMEP
	}
	return c
}

// inputComplete tells that no MEP will ever come beyond those that were read.
func (c *inputs) inputComplete() bool { return c.inputEnded || c.readWatermark >= c.endMEP }

// ApplyUpdate takes the newest watermark of readout unit ru. One that goes back, moves after the unit's end, or names a
// number of events that does not fit is refused with an *inputError, counted, and changes nothing. EndMismatch alone is
// a report: the update stands, and the run will end at the earliest end.
func (c *inputs) ApplyUpdate(ru int, u Update) error {
	if ru < 0 || ru >= len(c.rus) {
		return c.refuse(UnknownUnit, "scheduler", "update of readout unit %d of %d", ru, len(c.rus))
	}
	s := &c.rus[ru]
	name := c.cfg.RUs[ru]
	switch {
	case s.excluded:
		return c.refuse(UnitExcluded, name, "update to %d after the unit was excluded", u.ReadBelow)
	case u.ReadBelow < s.ReadBelow:
		return c.refuse(WatermarkBack, name, "watermark goes back from %d to %d", s.ReadBelow, u.ReadBelow)
	case s.InputEnded && (u.ReadBelow != s.ReadBelow || !u.InputEnded):
		return c.refuse(AfterEnd, name, "watermark %d after the end at %d", u.ReadBelow, s.ReadBelow)
	}
	if err := c.checkEvents(ru, u); err != nil {
		return err
	}
	ending := u.InputEnded && !s.InputEnded
	s.Update = u
	c.updateReadWatermark()
	if ending {
		return c.checkEnd(ru)
	}
	return nil
}

// checkEvents holds the readout units to one account of events: every MEP has Packing, but the last may be short, and
// then it is the same MEP with the same number for all of them.
func (c *inputs) checkEvents(ru int, u Update) error {
	if c.cutter != nil {
		return c.checkCuts(ru, u)
	}
	name := c.cfg.RUs[ru]
	high, full := bits.Mul64(u.ReadBelow-c.cfg.FirstMEP, uint64(c.cfg.Packing))
	if high != 0 || u.Events > full || full-u.Events >= uint64(c.cfg.Packing) {
		return c.refuse(EventsMismatch, name, "%d events do not fill the MEPs from %d up to %d at %d each",
			u.Events, c.cfg.FirstMEP, u.ReadBelow, c.cfg.Packing)
	}
	lacks := uint32(full - u.Events)
	switch {
	case lacks == 0 && u.ReadBelow <= c.shortMEP: // includes: none is known
		return nil
	case lacks == 0:
		return c.refuse(EventsMismatch, name, "MEP %d is full here and lacks %d events elsewhere", c.shortMEP,
			c.shortMEPLacks)
	case c.shortMEP == NoMEP:
		for i := range c.rus {
			if r := &c.rus[i]; !r.excluded && r.ReadBelow >= u.ReadBelow {
				return c.refuse(EventsMismatch, name, "MEP %d lacks %d events here and is full on %s", u.ReadBelow-1, lacks,
					c.cfg.RUs[i])
			}
		}
		c.shortMEP, c.shortMEPLacks = u.ReadBelow-1, lacks
		return nil
	case c.shortMEP != u.ReadBelow-1 || c.shortMEPLacks != lacks:
		return c.refuse(EventsMismatch, name, "MEP %d lacks %d events here, elsewhere MEP %d lacks %d",
			u.ReadBelow-1, lacks, c.shortMEP, c.shortMEPLacks)
	}
	return nil
}

// checkEnd compares the end of a unit that has just ended with what the others have. A unit with live sources may end
// before the others, where one of its sources lets it down: it tells why itself.
func (c *inputs) checkEnd(ru int) error {
	if c.cutter != nil {
		return nil
	}
	end := c.rus[ru].ReadBelow
	for i := range c.rus {
		if r := &c.rus[i]; !r.excluded && (r.ReadBelow > end || r.InputEnded && r.ReadBelow < end) {
			return c.refuse(EndMismatch, c.cfg.RUs[ru], "the input ends at MEP %d, but %s has read up to %d", end, c.cfg.RUs[i],
				r.ReadBelow)
		}
	}
	return nil
}

// updateReadWatermark finds the watermark that all included readout units have passed.
func (c *inputs) updateReadWatermark() {
	low, ended, included := NoMEP, false, false
	for i := range c.rus {
		r := &c.rus[i]
		if r.excluded {
			continue
		}
		included = true
		low = min(low, r.ReadBelow)
	}
	if !included {
		// Nobody is left to read: what has been issued is all there is.
		c.readWatermark, c.inputEnded = c.nextMEP, true
		return
	}
	// A unit that has ended at the lowest watermark ends it for all: it will not move.
	for i := range c.rus {
		r := &c.rus[i]
		ended = ended || !r.excluded && r.InputEnded && r.ReadBelow == low
	}
	c.readWatermark, c.inputEnded = low, ended
}

// applyReach takes how far the live data of a readout unit go. One that goes back is refused, with an *inputError.
func (c *inputs) applyReach(ru int, r Reach) error {
	switch {
	case ru < 0 || ru >= len(c.rus):
		return c.refuse(UnknownUnit, "scheduler", "reach of readout unit %d of %d", ru, len(c.rus))
	case c.cutter == nil:
		return c.refuse(NotNow, c.cfg.RUs[ru], "live data in a run that has none")
	case c.rus[ru].excluded:
		return c.refuse(UnitExcluded, c.cfg.RUs[ru], "live data up to event %d after the unit was excluded", r.CompleteBelow)
	}
	had := &c.cutter.reachByRU[ru]
	switch {
	case r.CompleteBelow < had.CompleteBelow:
		return c.refuse(WatermarkBack, c.cfg.RUs[ru], "live data go back from event %d to %d", had.CompleteBelow,
			r.CompleteBelow)
	case had.Ended && (!r.Ended || r.CompleteBelow > had.CompleteBelow):
		return c.refuse(AfterEnd, c.cfg.RUs[ru], "live data up to event %d after their end at %d", r.CompleteBelow,
			had.CompleteBelow)
	case r.FirstUncut > r.CompleteBelow || r.FlushBelow > r.CompleteBelow || r.OverdueBelow > r.CompleteBelow ||
		r.CompleteBelow == noEvent:
		return c.refuse(EventsMismatch, c.cfg.RUs[ru], "live data from event %d up to %d, of which %d and %d are due",
			r.FirstUncut, r.CompleteBelow, r.FlushBelow, r.OverdueBelow)
	}
	*had = r
	return nil
}

// cutMEPs cuts what can be cut, and may still be issued.
func (c *inputs) cutMEPs() {
	if c.cutter != nil && c.cutter.nextMEP < c.endMEP {
		c.cutter.step(c.released, c.draining || c.inputEnded, func(ru int) bool { return c.rus[ru].excluded })
	}
}

// checkCuts holds what a readout unit has read against the cuts.
func (c *inputs) checkCuts(ru int, u Update) error {
	switch name := c.cfg.RUs[ru]; {
	case u.ReadBelow > c.cutter.nextMEP:
		return c.refuse(EventsMismatch, name, "has read up to MEP %d, and %d are cut", u.ReadBelow, c.cutter.nextMEP)
	case u.Events != c.cutter.eventsBelow(u.ReadBelow):
		return c.refuse(EventsMismatch, name, "%d events up to MEP %d, which have %d", u.Events, u.ReadBelow,
			c.cutter.eventsBelow(u.ReadBelow))
	}
	return nil
}

// Where data are live nobody knows beforehand how many events come in which time. So the scheduler decides which events
// a MEP has, for all readout units alike: it cuts the stream of events when a MEP would be full, when what is there has
// waited long enough for that, or when a readout unit has waited long enough for the others.

// noEvent is no number of an event.
const noEvent = NoMEP

// Reach is how far the live data of a readout unit go, in numbers of events. A later one replaces it; only From may go
// back, when events were cut.
type Reach struct {
	FirstUncut    uint64 // first event that is not cut and of which there is any data here; To if there is none
	CompleteBelow uint64 // of every event below, each fragment is here or given up
	FlushBelow    uint64 // events below have waited long enough for a MEP to be full
	OverdueBelow  uint64 // events below have waited as long as any may: whoever lacks them gives them up
	Ended         bool   // nothing comes beyond To
}

// Cut is which events a MEP has.
type Cut struct {
	FirstEvent uint64 // number of the first event
	Events     uint32
}

// end is the number behind the last event.
func (c Cut) end() uint64 { return c.FirstEvent + uint64(c.Events) }

// cutter decides which events the MEPs have. It is a core: without network, clock and goroutines.
//
//	kept ─┬─ released ─────────── next ─┬─ released + window
//	      └ of every MEP from here on the cut is known
type cutter struct {
	packing            uint64
	maxEvents          uint64 // events in all; 0: no limit
	mask               uint64
	completeEventsOnly bool // events are cut only when all have all of them

	reachByRU []Reach // by readout unit
	cuts      []Cut   // of MEP k at k & mask
	eventSums []uint64

	firstMEP       uint64 // MEP
	nextMEP        uint64 // MEP to be cut next
	lastCutEnd     uint64 // of the last cut
	eventSum       uint64 // events in all cuts
	skippedNumbers uint64 // numbers of events between cuts
	cutsOver       bool   // no further cut will come
}

func newCutter(cfg *Config) *cutter {
	return &cutter{
		packing:            uint64(cfg.Packing),
		maxEvents:          cfg.MaxEvents,
		mask:               uint64(cfg.Window) - 1,
		completeEventsOnly: cfg.CompleteEventsOnly,
		reachByRU:          make([]Reach, len(cfg.RUs)),
		cuts:               make([]Cut, cfg.Window),
		eventSums:          make([]uint64, cfg.Window),
		firstMEP:           cfg.FirstMEP,
		nextMEP:            cfg.FirstMEP,
	}
}

// step cuts all that can be cut. ending tells that no unit takes more; excluded, which readout units do not count.
func (c *cutter) step(released uint64, ending bool, excluded func(ru int) bool) {
	for !c.cutsOver && c.nextMEP-released < c.mask {
		cut, over := c.nextCut(ending, c.nextMEP == released, excluded)
		if cut.Events == 0 {
			c.cutsOver = over
			return
		}
		c.skippedNumbers += cut.FirstEvent - c.lastCutEnd
		c.lastCutEnd, c.eventSum = cut.end(), c.eventSum+uint64(cut.Events)
		c.cuts[c.nextMEP&c.mask], c.eventSums[c.nextMEP&c.mask] = cut, c.eventSum
		c.nextMEP++
		c.cutsOver = c.maxEvents > 0 && c.eventSum == c.maxEvents
	}
}

// combinedReach is what the readout units say together.
type combinedReach struct {
	firstUncut, flushBelow, overdueBelow uint64
	minCompleteOngoing                   uint64 // of events below all that go on have everything; top where none does
	minComplete, maxComplete             uint64 // of events below all, or any, have everything
	allEnded                             bool
}

func (c *cutter) combineReach(excluded func(ru int) bool) combinedReach {
	v := combinedReach{
		firstUncut:         noEvent,
		minCompleteOngoing: noEvent,
		minComplete:        noEvent,
		allEnded:           true,
	}
	for i := range c.reachByRU {
		if excluded(i) {
			continue
		}
		r := &c.reachByRU[i]
		v.minComplete, v.maxComplete = min(v.minComplete, r.CompleteBelow), max(v.maxComplete, r.CompleteBelow)
		v.flushBelow, v.overdueBelow = max(v.flushBelow, r.FlushBelow), max(v.overdueBelow, r.OverdueBelow)
		if !r.Ended {
			v.allEnded, v.minCompleteOngoing = false, min(v.minCompleteOngoing, r.CompleteBelow)
		}
		if r.CompleteBelow > c.lastCutEnd && r.FirstUncut < r.CompleteBelow {
			v.firstUncut = min(v.firstUncut, max(r.FirstUncut, c.lastCutEnd))
		}
	}
	if v.allEnded {
		v.minCompleteOngoing = v.maxComplete
	}
	return v
}

// nextCut is the next cut; none, if it has no events, and then whether there will ever be one.
// idle tells that all that was cut has its outcome.
func (c *cutter) nextCut(ending, idle bool, excluded func(ru int) bool) (cut Cut, over bool) {
	v := c.combineReach(excluded)
	if v.firstUncut == noEvent { // of what all have passed nobody has anything
		return Cut{}, v.allEnded
	}
	end := c.endOfCut(&v, idle && !ending)
	if end == v.firstUncut {
		return Cut{}, v.allEnded && ending
	}
	if c.maxEvents > 0 {
		end = min(end, v.firstUncut+c.maxEvents-c.eventSum)
	}
	return Cut{v.firstUncut, uint32(end - v.firstUncut)}, false
}

// endOfCut is the end of the next cut; the first event, if there is none. Where events must be whole, a unit that holds
// the others up is asked for a single one: it has it by now, or says what it lacks. What is asked for is awaited.
func (c *cutter) endOfCut(v *combinedReach, mayRequest bool) uint64 {
	low := v.minCompleteOngoing
	if c.completeEventsOnly {
		low = v.minComplete
	}
	full, due := v.firstUncut+c.packing, v.overdueBelow > v.firstUncut
	switch {
	case low >= full:
		return full
	case low > v.firstUncut && (v.flushBelow > v.firstUncut || v.allEnded || c.completeEventsOnly && due):
		return low
	case !c.completeEventsOnly && due:
		return min(full, v.overdueBelow)
	case c.completeEventsOnly && mayRequest && (due || v.allEnded):
		return v.firstUncut + 1
	}
	return v.firstUncut
}

// cutOf is the cut of a MEP from the watermark on.
func (c *cutter) cutOf(mep uint64) Cut { return c.cuts[mep&c.mask] }

// from are the cuts from a MEP on, which is no lower than the watermark.
func (c *cutter) from(mep uint64) (cuts []Cut) {
	for ; mep < c.nextMEP; mep++ {
		cuts = append(cuts, c.cutOf(mep))
	}
	return cuts
}

// eventsBelow is how many events all MEPs below one have, which is no lower than the watermark.
func (c *cutter) eventsBelow(mep uint64) uint64 {
	if mep == c.firstMEP {
		return 0
	}
	return c.eventSums[(mep-1)&c.mask]
}

// Update is what a readout unit holds.
type Update struct {
	ReadBelow  uint64 // every MFP of a MEP below has been read from every source of the unit
	Events     uint64 // events in the MEPs from Config.FirstMEP up to Read
	InputEnded bool   // the input has ended: Read is final
}
