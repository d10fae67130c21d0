package tagnet

// Where data are live nobody knows beforehand how many events come in which time. So the scheduler decides which events
// a MEP has, for all readout units alike: it cuts the stream of events when a MEP would be full, when what is there has
// waited long enough for that, or when a readout unit has waited long enough for the others.

// noEvent is no number of an event.
const noEvent = NoMEP

// Reach is how far the live data of a readout unit go, in numbers of events. A later one replaces it; only From may go
// back, when events were cut.
type Reach struct {
	From    uint64 // first event that is not cut and of which there is any data here; To if there is none
	To      uint64 // of every event below, each fragment is here or given up
	Flush   uint64 // events below have waited long enough for a MEP to be full
	Overdue uint64 // events below have waited as long as any may: whoever lacks them gives them up
	Over    bool   // nothing comes beyond To
}

// Cut is which events a MEP has.
type Cut struct {
	First  uint64 // number of the first event
	Events uint32
}

// end is the number behind the last event.
func (c Cut) end() uint64 { return c.First + uint64(c.Events) }

// cutter decides which events the MEPs have. It is a core: without network, clock and goroutines.
//
//	kept ─┬─ released ─────────── next ─┬─ released + window
//	      └ of every MEP from here on the cut is known
type cutter struct {
	packing      uint64
	maxEvents    uint64 // events in all; 0: no limit
	mask         uint64
	completeOnly bool // events are cut only when all have all of them

	reach  []Reach // by readout unit
	cuts   []Cut   // of MEP k at k & mask
	sums   []uint64
	heldUp map[uint64]Cut // MEPs that the watermark passed over

	first          uint64 // MEP
	next           uint64 // MEP to be cut next
	end            uint64 // of the last cut
	sum            uint64 // events in all cuts
	skippedNumbers uint64 // numbers of events between cuts
	over           bool   // no further cut will come
}

func newCutter(cfg *Config) *cutter {
	return &cutter{
		packing:      uint64(cfg.Packing),
		maxEvents:    cfg.Events,
		mask:         uint64(cfg.Window) - 1,
		completeOnly: cfg.CompleteOnly,
		reach:        make([]Reach, len(cfg.RUs)),
		cuts:         make([]Cut, cfg.Window),
		sums:         make([]uint64, cfg.Window),
		heldUp:       map[uint64]Cut{},
		first:        cfg.First,
		next:         cfg.First,
	}
}

// step cuts all that can be cut. ending tells that no unit takes more; excluded, which readout units do not count.
func (c *cutter) step(released uint64, ending bool, excluded func(ru int) bool) {
	for !c.over && c.next-released < c.mask {
		cut, over := c.nextCut(ending, c.next == released, excluded)
		if cut.Events == 0 {
			c.over = over
			return
		}
		c.skippedNumbers += cut.First - c.end
		c.end, c.sum = cut.end(), c.sum+uint64(cut.Events)
		c.cuts[c.next&c.mask], c.sums[c.next&c.mask] = cut, c.sum
		c.next++
		c.over = c.maxEvents > 0 && c.sum == c.maxEvents
	}
}

// combinedReach is what the readout units say together.
type combinedReach struct {
	first, flush, overdue uint64
	low                   uint64 // of events below all that go on have everything; top where none does
	least, top            uint64 // of events below all, or any, have everything
	over                  bool
}

func (c *cutter) combineReach(excluded func(ru int) bool) combinedReach {
	v := combinedReach{
		first: noEvent,
		low:   noEvent,
		least: noEvent,
		over:  true,
	}
	for i := range c.reach {
		if excluded(i) {
			continue
		}
		r := &c.reach[i]
		v.least, v.top = min(v.least, r.To), max(v.top, r.To)
		v.flush, v.overdue = max(v.flush, r.Flush), max(v.overdue, r.Overdue)
		if !r.Over {
			v.over, v.low = false, min(v.low, r.To)
		}
		if r.To > c.end && r.From < r.To {
			v.first = min(v.first, max(r.From, c.end))
		}
	}
	if v.over {
		v.low = v.top
	}
	return v
}

// nextCut is the next cut; none, if it has no events, and then whether there will ever be one.
// idle tells that all that was cut has its outcome.
func (c *cutter) nextCut(ending, idle bool, excluded func(ru int) bool) (cut Cut, over bool) {
	v := c.combineReach(excluded)
	if v.first == noEvent { // of what all have passed nobody has anything
		return Cut{}, v.over
	}
	end := c.endOfCut(&v, idle && !ending)
	if end == v.first {
		return Cut{}, v.over && ending
	}
	if c.maxEvents > 0 {
		end = min(end, v.first+c.maxEvents-c.sum)
	}
	return Cut{v.first, uint32(end - v.first)}, false
}

// endOfCut is the end of the next cut; the first event, if there is none. Where events must be whole, a unit that holds
// the others up is asked for a single one: it has it by now, or says what it lacks. What is asked for is awaited.
func (c *cutter) endOfCut(v *combinedReach, mayRequest bool) uint64 {
	low := v.low
	if c.completeOnly {
		low = v.least
	}
	full, due := v.first+c.packing, v.overdue > v.first
	switch {
	case low >= full:
		return full
	case low > v.first && (v.flush > v.first || v.over || c.completeOnly && due):
		return low
	case !c.completeOnly && due:
		return min(full, v.overdue)
	case c.completeOnly && mayRequest && (due || v.over):
		return v.first + 1
	}
	return v.first
}

// cutOf is the cut of a MEP that was issued.
func (c *cutter) cutOf(mep, released uint64) Cut {
	if mep < released {
		return c.heldUp[mep]
	}
	return c.cuts[mep&c.mask]
}

// dropCut forgets the cut of a MEP that was held up.
func (c *Core) dropCut(mep uint64) {
	if c.cuts != nil {
		delete(c.cuts.heldUp, mep)
	}
}

// eventsBelow is how many events all MEPs below one have, which is no lower than the watermark.
func (c *cutter) eventsBelow(mep uint64) uint64 {
	if mep == c.first {
		return 0
	}
	return c.sums[(mep-1)&c.mask]
}

// applyReach takes how far the live data of a readout unit go. One that goes back is refused, with an *inputError.
func (c *Core) applyReach(ru int, r Reach) error {
	switch {
	case ru < 0 || ru >= len(c.rus):
		return c.refuse(UnknownUnit, "scheduler", "reach of readout unit %d of %d", ru, len(c.rus))
	case c.cuts == nil:
		return c.refuse(NotNow, c.cfg.RUs[ru], "live data in a run that has none")
	case c.rus[ru].excluded:
		return c.refuse(Excluded, c.cfg.RUs[ru], "live data up to event %d after the unit was excluded", r.To)
	}
	had := &c.cuts.reach[ru]
	switch {
	case r.To < had.To:
		return c.refuse(WatermarkBack, c.cfg.RUs[ru], "live data go back from event %d to %d", had.To, r.To)
	case had.Over && (!r.Over || r.To > had.To):
		return c.refuse(AfterEnd, c.cfg.RUs[ru], "live data up to event %d after their end at %d", r.To, had.To)
	case r.From > r.To || r.Flush > r.To || r.Overdue > r.To || r.To == noEvent:
		return c.refuse(EventsMismatch, c.cfg.RUs[ru], "live data from event %d up to %d, of which %d and %d are due",
			r.From, r.To, r.Flush, r.Overdue)
	}
	*had = r
	return nil
}

// cutMEPs cuts what can be cut, and may still be issued.
func (c *Core) cutMEPs() {
	if c.cuts != nil && c.cuts.next < c.limit {
		c.cuts.step(c.released, c.draining || c.ended, func(ru int) bool { return c.rus[ru].excluded })
	}
}

// checkCuts holds what a readout unit has read against the cuts.
func (c *Core) checkCuts(ru int, u Update) error {
	switch name := c.cfg.RUs[ru]; {
	case u.Read > c.cuts.next:
		return c.refuse(EventsMismatch, name, "has read up to MEP %d, and %d are cut", u.Read, c.cuts.next)
	case u.Events != c.cuts.eventsBelow(u.Read):
		return c.refuse(EventsMismatch, name, "%d events up to MEP %d, which have %d", u.Events, u.Read,
			c.cuts.eventsBelow(u.Read))
	}
	return nil
}
