package core

import (
	"math/bits"
)

// inputs are what readout units hold, and how far MEPs may be issued because of that.
type inputs struct {
	table

	rus           []ruState
	readWatermark uint64 // all included RUs hold every MEP below
	inputEnded    bool   // no included RU will get beyond readWatermark
	endMEP        uint64 // first MEP that is not issued, even if it is read
	push          pushEnd
	triggers      triggers
}

type ruState struct {
	Update
	hasStopped bool   // with Push: it waits for the end, and has assigned the MEPs below stopMEP
	stopMEP    uint64 // with hasStopped
	excluded   bool
	exclusions uint64

	clearedAbsences int // of a tag ring: see ApplyCleared
}

func newInputs(cfg Config) inputs {
	c := inputs{
		table:         newTable(cfg),
		rus:           make([]ruState, len(cfg.RUs)),
		readWatermark: cfg.FirstMEP,
		endMEP:        NoMEP,
		triggers:      newTriggers(&cfg),
	}
	if cfg.EndMEP != 0 {
		c.endMEP = cfg.EndMEP
	}
	for i := range c.rus {
		c.rus[i].ReadBelow = cfg.FirstMEP
	}
	return c
}

// inputComplete tells that no MEP beyond those that were read will ever come.
func (c *inputs) inputComplete() bool {
	if c.cfg.Push {
		return c.endMEP != NoMEP
	}
	return c.inputEnded || c.readWatermark >= c.endMEP
}

// allIssued tells that no MEP will be issued for the first time any more.
func (c *inputs) allIssued() bool {
	return c.nextMEP >= c.endMEP || c.inputEnded && c.nextMEP >= c.readWatermark
}

// ApplyUpdate sets the watermark of readout unit ru. It refuses an update that goes back, that moves after the unit's
// end, or whose number of events does not fit, with an *inputError, counts it and changes nothing. EndMismatch alone is
// a report: the update is valid, and the run will end at the earliest end.
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

// checkEvents checks that the readout units agree on the events: every MEP has Packing events, but the last MEP may be
// short, and then it is the same MEP with the same number of events for all of them.
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
	case lacks == 0 && u.ReadBelow <= c.shortMEP: // also while no short MEP is known
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
		c.setShortMEP(u.ReadBelow-1, lacks)
		return nil
	case c.shortMEP != u.ReadBelow-1 || c.shortMEPLacks != lacks:
		return c.refuse(EventsMismatch, name, "MEP %d lacks %d events here, elsewhere MEP %d lacks %d",
			u.ReadBelow-1, lacks, c.shortMEP, c.shortMEPLacks)
	}
	return nil
}

// checkEnd compares the end of a unit that has just ended with what the other units have read. A unit with live sources
// may end before the others when one of its sources fails: the unit itself reports why.
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

// updateReadWatermark finds the watermark that all included readout units have reached.
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
		// No unit is left to read: no MEPs will come beyond those that were issued.
		c.inputEnded = true
		if !c.cfg.Push {
			c.readWatermark = c.nextMEP
		}
		return
	}
	// A unit that has ended at the lowest watermark ends the input: that watermark will not move.
	for i := range c.rus {
		r := &c.rus[i]
		ended = ended || !r.excluded && r.InputEnded && r.ReadBelow == low
	}
	c.readWatermark, c.inputEnded = low, ended
}

// applyReach sets how far the live data of a readout unit reach. It refuses a reach that goes back with an *inputError.
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

// cutMEPs cuts the events that can be cut, as far as MEPs may still be issued.
func (c *inputs) cutMEPs() {
	if c.cutter != nil && c.cutter.nextMEP < c.endMEP {
		c.cutter.step(c.released, c.draining || c.inputEnded, func(ru int) bool { return c.rus[ru].excluded })
	}
}

// checkCuts compares what a readout unit has read with the cuts.
func (c *inputs) checkCuts(ru int, u Update) error {
	switch name := c.cfg.RUs[ru]; {
	case u.ReadBelow > c.cutter.nextMEP:
		return c.refuse(EventsMismatch, name, "has read up to MEP %d, cuts go up to %d", u.ReadBelow, c.cutter.nextMEP)
	case u.Events != c.cutter.eventsBelow(u.ReadBelow):
		return c.refuse(EventsMismatch, name, "%d events up to MEP %d, which have %d", u.Events, u.ReadBelow,
			c.cutter.eventsBelow(u.ReadBelow))
	}
	return nil
}

// With live data no unit knows beforehand how many events will come in which time. So the scheduler decides which
// events a MEP has, for all readout units alike. It cuts the stream of events when a MEP would be full, when the events
// have waited for a full MEP as long as they may, or when a readout unit has waited long enough for the others.

// noEvent stands for the number of an event that does not exist.
const noEvent = NoMEP

// Reach is how far the live data of a readout unit go, in numbers of events. A later Reach replaces an earlier one;
// only FirstUncut may decrease, after a cut.
type Reach struct {
	FirstUncut    uint64 // first event that is not cut and has data in this unit; CompleteBelow if there is none
	CompleteBelow uint64 // every fragment of every event below is here or given up
	FlushBelow    uint64 // events below have waited for a full MEP as long as they may
	OverdueBelow  uint64 // events below have waited as long as they may: units that lack their fragments give these up
	Ended         bool   // no event will come from CompleteBelow on
}

// Cut says which events a MEP has.
type Cut struct {
	FirstEvent uint64 // number of the first event
	Events     uint32
}

// end is the number after the last event.
func (c Cut) end() uint64 { return c.FirstEvent + uint64(c.Events) }

// CutPosition is a place in the stream of cuts.
type CutPosition struct {
	MEP          uint64 // to be cut next
	EventsBefore uint64 // events in all MEPs below
	End          uint64 // number after the last event in them
}

// After is the position after further cuts.
func (p CutPosition) After(cuts []Cut) CutPosition {
	for _, c := range cuts {
		p = CutPosition{p.MEP + 1, p.EventsBefore + uint64(c.Events), c.end()}
	}
	return p
}

// cutter decides which events the MEPs have. It is a core without network, clock and goroutines. It knows the cuts of
// the MEPs from the released watermark up to nextMEP, and cuts as many as its window has room for:
//
//	released ─── cuts known ─── nextMEP ─── to be cut ─── released + window
type cutter struct {
	packing            uint64
	maxEvents          uint64 // events in all; 0: no limit
	mask               uint64
	completeEventsOnly bool // an event is cut only when all readout units have it complete

	reachByRU []Reach // by readout unit
	cuts      []Cut   // cut of MEP k at k & mask; beside it in eventSums the events in all MEPs up to k
	eventSums []uint64

	firstMEP       uint64 // MEP
	nextMEP        uint64 // MEP to be cut next
	lastCutEnd     uint64 // number after the last event that was cut
	eventSum       uint64 // events in all cuts
	skippedNumbers uint64 // event numbers that no cut has, since no unit has data of them
	cutsOver       bool   // no further cut will be made
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

// step cuts all MEPs that can be cut. ending tells that the readout units accept no more data; excluded tells which of
// them do not count.
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

// combinedReach combines the reaches of the readout units that are not excluded.
type combinedReach struct {
	firstUncut, flushBelow, overdueBelow uint64
	minCompleteOngoing                   uint64 // lowest CompleteBelow of units that have not ended; else maxComplete
	minComplete, maxComplete             uint64 // the lowest and the highest CompleteBelow
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

// nextCut is the next cut. If it has no events, over tells that there will never be one. idle tells that every MEP that
// was cut has its outcome.
func (c *cutter) nextCut(ending, idle bool, excluded func(ru int) bool) (cut Cut, over bool) {
	v := c.combineReach(excluded)
	if v.firstUncut == noEvent { // no unit has data of an uncut event
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

// endOfCut is the end of the next cut; the first event if no cut can be made. Where events must be complete, the
// scheduler asks a unit that holds up the others for a single event: either the unit has it by now, or it reports what
// it lacks. The answer is awaited before the next request.
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

// cutOf is the cut of a MEP, which is not below the released watermark.
func (c *cutter) cutOf(mep uint64) Cut { return c.cuts[mep&c.mask] }

// from returns the cuts from a MEP on, which is not below the released watermark.
func (c *cutter) from(mep uint64) (cuts []Cut) {
	for ; mep < c.nextMEP; mep++ {
		cuts = append(cuts, c.cutOf(mep))
	}
	return cuts
}

// position is the place before the cut of a MEP, which is not below the released watermark.
func (c *cutter) position(mep uint64) CutPosition {
	if mep == c.firstMEP {
		return CutPosition{MEP: mep}
	}
	return CutPosition{mep, c.eventsBelow(mep), c.cutOf(mep - 1).end()}
}

// eventsBelow is how many events all MEPs below mep have; mep is not below the released watermark.
func (c *cutter) eventsBelow(mep uint64) uint64 {
	if mep == c.firstMEP {
		return 0
	}
	return c.eventSums[(mep-1)&c.mask]
}

// Update is what a readout unit holds in memory.
type Update struct {
	ReadBelow  uint64 // every MFP of every MEP below has been read from every source of the unit
	Events     uint64 // events in the MEPs from Config.FirstMEP up to ReadBelow
	InputEnded bool   // the input has ended: ReadBelow is final
}
