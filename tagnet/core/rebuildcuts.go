package core

// rebuildCuts sets the cuts of the MEPs from the released watermark on. Each readout unit knows a beginning of the same
// cuts, and the longest one is what was told.
func (r *rebuild) rebuildCuts() {
	k := r.cutter
	if k == nil {
		return
	}
	for _, t := range r.tokens { // of MEPs whose cuts are known to no readout unit that has a part in them
		if t.MEP >= r.released {
			k.cuts[t.MEP&k.mask].Events = t.Events
		}
	}
	for _, known := range r.recalls[Readout] {
		if known != nil {
			k.recallStart(known, r.released)
		}
	}
	for _, known := range r.recalls[Readout] {
		if known != nil {
			k.recall(known, r.released)
		}
	}
	k.skippedNumbers = k.lastCutEnd - k.eventSum
	k.cutsOver = k.cutsOver || k.maxEvents > 0 && k.eventSum == k.maxEvents
}

// firstKnown is the MEP of the first cut that a readout unit knows, and the events in all MEPs below.
func (r *Recall) firstKnown() (mep, events uint64) {
	mep, events = r.NextCut.MEP-uint64(len(r.Cuts)), r.NextCut.EventsBefore
	for _, c := range r.Cuts {
		events -= uint64(c.Events)
	}
	return mep, events
}

// recallStart notes what is before the cuts that a readout unit knows.
func (c *cutter) recallStart(known *Recall, released uint64) {
	first, events := known.firstKnown()
	if first == c.firstMEP || first < released {
		return
	}
	end := known.NextCut.End
	if len(known.Cuts) > 0 {
		end = known.Cuts[0].FirstEvent // at most
	}
	before := &c.cuts[(first-1)&c.mask]
	before.FirstEvent = end - min(end, uint64(before.Events))
	c.eventSums[(first-1)&c.mask] = events
}

// recall notes the cuts that a readout unit knows.
func (c *cutter) recall(known *Recall, released uint64) {
	mep, events := known.firstKnown()
	for _, cut := range known.Cuts {
		events += uint64(cut.Events)
		if mep+1 >= released {
			c.cuts[mep&c.mask], c.eventSums[mep&c.mask] = cut, events
		}
		mep++
	}
	if next := known.NextCut; next.MEP >= c.nextMEP {
		c.nextMEP, c.eventSum, c.lastCutEnd = next.MEP, next.EventsBefore, next.End
		c.cutsOver = c.cutsOver || known.CutsOver
	}
}

// eventsOf is the number of events of a MEP that was issued, while the MEPs that are held up are not known yet.
func (r *rebuild) eventsOf(mep uint64) uint64 {
	if r.cutter == nil {
		return r.eventCount(mep)
	}
	if t, issued := r.latest[mep]; issued {
		return uint64(t.Events)
	}
	return uint64(r.outcomes[mep].Events)
}

// eventsBelow is how many events all MEPs below mep would have, if all were full, or have, where the data are live.
func (r *rebuild) eventsBelow(mep uint64) uint64 {
	if r.cutter != nil {
		return r.cutter.eventsBelow(mep)
	}
	return (mep - r.cfg.FirstMEP) * uint64(r.cfg.Packing)
}

// continuation is the position and the cuts from which a readout unit goes on. All cuts are known from the released
// watermark on; a unit that knows fewer is told a position that is not its own, and cannot go on.
func (c *cutter) continuation(had *CutPosition, released uint64) (*CutPosition, []Cut) {
	if had.MEP < released {
		return new(c.position(released)), nil
	}
	return had, c.from(had.MEP)
}
