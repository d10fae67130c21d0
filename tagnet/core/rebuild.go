package core

import (
	"cmp"
	"slices"
)

// rebuild makes the state of a lost scheduler anew in an Allocator that has issued nothing.
type rebuild struct {
	*Allocator
	recalls [2][]*Recall // by Role and index; nil: the unit does not live

	tokens   []PlacedToken          // of all readout units, each once, by cycle and place
	latest   map[uint64]PlacedToken // by MEP: the token with the highest attempt
	outcomes map[uint64]Feedback    // by MEP: the last outcome that its builder unit knows
	builtBy  map[uint64]int         // by MEP: that builder unit
	cycles   map[uint64]uint32      // by number of an open cycle: its index in openTokens

	triggersKnown TriggerTotals
	releasedKnown bool // a readout unit has told the watermark
}

func newRebuild(a *Allocator, recalls [2][]*Recall) *rebuild {
	return &rebuild{Allocator: a, recalls: recalls, latest: map[uint64]PlacedToken{}, outcomes: map[uint64]Feedback{},
		builtBy: map[uint64]int{}, cycles: map[uint64]uint32{}}
}

func (r *rebuild) rebuild() {
	r.started, r.isSuccessor = true, true
	r.collect()
	r.rebuildCuts()
	r.rebuildTriggers(r.triggersKnown)
	r.rebuildUnits()
	r.rebuildRecords()
	r.count()
	r.loseOthers()
	r.updateReadWatermark()
	r.advanceReleased()
	if r.chooser != nil {
		r.chooser.rebuildTurns()
	}
	r.depths.reissue.set(uint64(r.reissue.len()))
}

// collect takes the union of what the living units know.
func (r *rebuild) collect() {
	r.nextMEP = r.released
	for _, known := range r.recalls[Readout] {
		if known == nil {
			continue
		}
		if known.Released > r.released || known.Released == r.released && r.isLater(known) {
			r.released, r.heldUp.meps, r.unbuilt = known.Released, slices.Clone(known.HeldUp), known.Unbuilt
			r.releasedKnown = true
		}
		r.nextCycle = max(r.nextCycle, known.NextCycle)
		if len(known.Withdrawals) > len(r.withdrawals) {
			r.withdrawals = slices.Clone(known.Withdrawals)
		}
		if known.Triggers.Taken >= r.triggersKnown.Taken {
			r.triggersKnown = known.Triggers
		}
		r.takeAbsences(known.Absences)
		r.tokens = append(r.tokens, known.Tokens...)
	}
	inCycles := len(r.absences) // known to readout units: their cycles were told
	for bu, known := range r.recalls[Builder] {
		if known == nil {
			continue
		}
		r.takeAbsences(known.Absences)
		for _, f := range known.Outcomes {
			if had, ok := r.outcomes[f.MEP]; !ok || f.Attempt > had.Attempt {
				r.outcomes[f.MEP], r.builtBy[f.MEP] = f, bu
			}
		}
	}
	for i := inCycles; i < len(r.absences); i++ {
		r.absences[i].FirstCycle = r.nextCycle // no readout unit was told it, nor the cycles before it
	}
	slices.SortFunc(r.tokens, func(a, b PlacedToken) int {
		return cmp.Or(cmp.Compare(a.Cycle, b.Cycle), cmp.Compare(a.BU, b.BU))
	})
	r.tokens = slices.Compact(r.tokens)
	for _, t := range r.tokens {
		if had, ok := r.latest[t.MEP]; !ok || t.Attempt > had.Attempt {
			r.latest[t.MEP] = t
		}
		r.nextMEP = max(r.nextMEP, t.MEP+1)
	}
	r.nextMEP = max(r.nextMEP, r.released)
	for range r.withdrawals {
		r.confirmedExclusions = append(r.confirmedExclusions, make([]bool, len(r.rus)))
	}
}

// isLater tells that a readout unit with the same watermark was told later which MEPs are held up: they become fewer.
func (r *rebuild) isLater(known *Recall) bool {
	return !r.releasedKnown || len(known.HeldUp) < len(r.heldUp.meps)
}

// takeAbsences takes a longer list of absences: each list is a beginning of the same one.
func (r *rebuild) takeAbsences(all []Absence) {
	if len(all) > len(r.absences) {
		r.absences = append(r.absences, all[len(r.absences):]...)
	}
}

// rebuildUnits sets which units take part, and what the living ones hold.
func (r *rebuild) rebuildUnits() {
	for _, a := range r.absences {
		s := &r.rus[a.RU]
		if s.excluded = !a.Rejoined; s.excluded {
			s.exclusions++
		} else {
			r.absencesToAck = len(r.absences)
		}
	}
	for i, known := range r.recalls[Readout] {
		if known == nil || r.rus[i].excluded {
			continue
		}
		u := known.Update
		first, before := r.rejoined(i)
		u.ReadBelow, u.Events = max(u.ReadBelow, r.cfg.FirstMEP, first), u.Events+before
		_ = r.ApplyUpdate(i, u) // a wrong one is counted, and comes once more
	}
	last := make([]*Withdrawal, len(r.bus))
	for i := range r.withdrawals {
		w := &r.withdrawals[i]
		last[w.BU] = w
		if b := &r.bus[w.BU]; w.Returned {
			b.returned = true
		} else {
			b.counters.Exclusions++
		}
	}
	for j := range r.bus {
		b, known := &r.bus[j], r.recalls[Builder][j]
		gone := last[j] != nil && !last[j].Returned
		// A unit that lives and was excluded has come back: there is no news of that, unless it was lost.
		if gone && (known == nil || last[j].Lost) {
			b.excluded, b.lost = true, last[j].Lost
			r.activeBUs--
		}
		if known != nil {
			b.ackedAbsences, b.unconfirmed = len(known.Absences), true
			b.counters.Built, b.counters.EventsBuilt = known.Totals.Built, known.Totals.EventsBuilt
			b.counters.Discarded, b.counters.Rejected = known.Totals.Discarded, known.Totals.Rejected
		}
	}
}

// rejoined is the MEP from which readout unit ru takes part again, and the events before it; 0 if it never was gone.
func (r *rebuild) rejoined(ru int) (firstMEP, events uint64) {
	for _, a := range r.absences {
		if int(a.RU) == ru && a.Rejoined {
			firstMEP, events = a.FirstMEP, (a.FirstMEP-r.cfg.FirstMEP)*uint64(r.cfg.Packing)
			if known := r.recalls[Readout][ru]; r.cutter != nil && known != nil {
				events = known.EventsBefore
			}
		}
	}
	return firstMEP, events
}

// isVoid tells that the builder unit of a token does not complete its MEP: it has gone since.
func (r *rebuild) isVoid(t PlacedToken) bool {
	if r.recalls[Builder][t.BU] == nil || r.bus[t.BU].excluded {
		return true
	}
	return slices.ContainsFunc(r.withdrawals, func(w Withdrawal) bool { return w.BU == t.BU && t.Cycle < w.BeforeCycle })
}

// wasWithdrawn tells that the former scheduler had told that the builder unit of a token has gone.
func (r *rebuild) wasWithdrawn(t PlacedToken) bool {
	return slices.ContainsFunc(r.withdrawals, func(w Withdrawal) bool { return w.BU == t.BU && t.Cycle < w.BeforeCycle })
}

// rebuildRecords makes the record of every MEP that may have no outcome.
func (r *rebuild) rebuildRecords() {
	heldUp := r.heldUp.meps
	r.heldUp = heldUpMEPs{}
	r.reissue = newQueue(len(heldUp) + int(r.nextMEP-r.released) + r.cfg.maxUnfinished())
	used := make([]map[uint32]bool, len(r.bus))
	for j := range used {
		used[j] = map[uint32]bool{}
	}
	record := func(mep uint64) mepRecord {
		rec := r.recordFrom(mep)
		switch rec.state {
		case recordInFlight:
			used[rec.bu][rec.slot] = true
		case recordToReissue:
			r.reissue.push(mep)
		}
		return rec
	}
	for _, mep := range heldUp {
		if rec := record(mep); rec.state.isFinal() {
			r.unbuilt.add(rec.state, r.eventsOf(mep))
		} else {
			r.heldUp.add(mep, rec, r.eventsOf(mep))
		}
	}
	for mep := r.released; mep < r.nextMEP; mep++ {
		r.records[mep&r.recordMask] = record(mep)
	}
	for j := range r.bus {
		r.takeSlots(&r.bus[j], used[j])
	}
}

// recordFrom is the record of a MEP.
func (r *rebuild) recordFrom(mep uint64) mepRecord {
	t, issued := r.latest[mep]
	rec := mepRecord{slot: t.Slot, bu: t.BU, attempt: t.Attempt, cycle: noCycle, cycleLow: uint32(t.Cycle)}
	f, built := r.outcomes[mep]
	switch {
	case built && f.Attempt >= t.Attempt && (!issued || r.builtBy[mep] == int(t.BU)):
		rec.state = stateOf(f.Outcome)
	case !issued: // its token is known to nobody
		rec.state = recordToReissue
	case r.isVoid(t):
		rec.state = recordToReissue
		if int(t.Attempt) >= r.cfg.MaxAttempts && r.wasWithdrawn(t) {
			rec.state = recordAbandoned
		}
	default:
		rec.state, rec.cycle = recordInFlight, r.openCycle(t.Cycle)
		r.groups.beginEvent(int(t.BU))
	}
	return rec
}

// openCycle counts a token of a cycle as in flight. If there are more cycles than may be in flight, nothing waits for
// the token, as for those of builder units left behind.
func (r *rebuild) openCycle(cycle uint64) uint32 {
	index, open := r.cycles[cycle]
	if !open {
		last := len(r.freeCycles) - 1
		if last < 0 {
			return noCycle
		}
		index = r.freeCycles[last]
		r.freeCycles, r.cycles[cycle] = r.freeCycles[:last], index
		r.depths.cycles.set(uint64(len(r.openTokens) - last))
	}
	r.openTokens[index]++
	return index
}

// takeSlots takes the slots with tokens in flight out of a builder unit's free ones.
func (r *rebuild) takeSlots(b *buState, used map[uint32]bool) {
	if b.excluded {
		return
	}
	free := b.freeSlots.len()
	for range free {
		if slot := b.freeSlots.pop(); !used[uint32(slot)] {
			b.freeSlots.push(slot)
		}
	}
	b.usedSlots.set(uint64(len(used)))
	if b.freeSlots.len() == 0 {
		r.blockedBUs++
	}
}

// count sets the counters. What has no other outcome and is not in flight was built; what no living unit counts, by
// units that are lost.
func (r *rebuild) count() {
	c := r.counters
	c.Cycles, c.Issued = r.nextCycle, r.nextMEP-r.cfg.FirstMEP
	c.EventsIssued = r.eventsBelow(r.nextMEP)
	if r.shortMEP < r.nextMEP {
		c.EventsIssued -= uint64(r.shortMEPLacks)
	}
	unbuilt, unfinished, events := r.unbuilt, uint64(0), uint64(0)
	for mep := r.released; mep < r.nextMEP; mep++ {
		unbuilt.add(r.recordOf(mep).state, r.eventCount(mep))
	}
	r.forEachUnfinished(func(mep uint64, _ *mepRecord) {
		unfinished++
		events += r.eventCount(mep)
	})
	c.Discarded, c.Rejected, c.Abandoned = unbuilt.Discarded, unbuilt.Rejected, unbuilt.Abandoned
	c.EventsDiscarded, c.EventsRejected = unbuilt.EventsDiscarded, unbuilt.EventsRejected
	c.EventsAbandoned = unbuilt.EventsAbandoned
	c.Built = c.Issued - unfinished - unbuilt.meps()
	c.EventsBuilt = c.EventsIssued - events - unbuilt.events()
	r.countLost()
	for i, known := range r.recalls[Readout] {
		if first, _ := r.rejoined(i); known != nil && first == 0 && known.NextCycle == r.nextCycle {
			c.Reissued = known.TokenCount - min(known.TokenCount, c.Issued)
		}
	}
}

// countLost has a builder unit that is lost count what no living one does.
func (r *rebuild) countLost() {
	all, lost := BUCounters{}, &BUCounters{}
	for j := range r.bus {
		b := r.bus[j].counters
		all.Discarded, all.Rejected = all.Discarded+b.Discarded, all.Rejected+b.Rejected
		all.Built, all.EventsBuilt = all.Built+b.Built, all.EventsBuilt+b.EventsBuilt
		if r.recalls[Builder][j] == nil {
			lost = b
		}
	}
	c := r.counters
	lost.Built += c.Built - min(c.Built, all.Built)
	lost.EventsBuilt += c.EventsBuilt - min(c.EventsBuilt, all.EventsBuilt)
	lost.Discarded += c.Discarded - min(c.Discarded, all.Discarded)
	lost.Rejected += c.Rejected - min(c.Rejected, all.Rejected)
}

// loseOthers excludes the units that took part and do not live.
func (r *rebuild) loseOthers() {
	for i := range r.rus {
		if r.recalls[Readout][i] == nil {
			_ = r.ExcludeRU(i) // the unit exists
		}
	}
	for j := range r.bus {
		switch lives := r.recalls[Builder][j] != nil; {
		case !lives && !r.bus[j].excluded:
			_, _ = r.ExcludeBU(j, true) // the unit exists
		case lives && r.bus[j].excluded: // it was lost, and another process had attached
			_ = r.IncludeBU(j)
			r.bus[j].ackedAbsences = len(r.recalls[Builder][j].Absences)
		}
	}
}

// cyclesFrom are the cycles from one on, with the tokens that are known of them.
func (r *rebuild) cyclesFrom(first uint64) (b Batch) {
	b.Reset(first, r.placesPerCycle)
	for n := first; n < r.nextCycle; n++ {
		b.appendEmptyCycle()
	}
	for _, t := range r.tokens {
		if t.Cycle >= first {
			at := int(t.Cycle-first)*r.placesPerCycle + int(t.BU)
			b.MEPs[at], b.Slots[at] = t.MEP, PackSlot(t.Attempt, t.Slot)
		}
	}
	return b
}

// ValidTokens are the tokens of a builder unit that remain valid under the successor of its scheduler.
type ValidTokens struct{ Tokens []PlacedToken }

// validTokens are the tokens in flight to a builder unit.
func (c *table) validTokens(bu int) (all []PlacedToken) {
	c.forEachUnfinished(func(mep uint64, r *mepRecord) {
		if r.state == recordInFlight && int(r.bu) == bu {
			all = append(all, PlacedToken{Token: Token{MEP: mep, Slot: r.slot, BU: r.bu, Attempt: r.attempt}})
		}
	})
	return all
}

// awaitsConfirmation tells that a builder unit may still have parts of tokens that are not valid.
func (c *builders) awaitsConfirmation() bool {
	return c.isSuccessor && slices.ContainsFunc(c.bus, func(b buState) bool { return b.unconfirmed && !b.excluded })
}

// earlierTokens are the last tokens of the MEPs without an outcome, for a readout unit that comes into the run now.
func (c *table) earlierTokens(nextCycle uint64) (all []PlacedToken) {
	c.forEachUnfinished(func(mep uint64, r *mepRecord) {
		if r.attempt > 0 {
			last := nextCycle - 1
			t := PlacedToken{Token: Token{MEP: mep, Slot: r.slot, BU: r.bu, Attempt: r.attempt},
				Cycle: last - uint64(uint32(last)-r.cycleLow)}
			if c.cutter != nil {
				t.Events = uint32(c.eventCount(mep))
			}
			all = append(all, t)
		}
	})
	return all
}

// publish has the stream of notices begin from the rebuilt state: every unit is told what it lacks when it is admitted.
func (r *rebuild) publish(c *Core) {
	a := c.alloc
	c.absenceNotices = nil
	for range a.absences {
		c.absenceNotices = append(c.absenceNotices, c.next)
	}
	c.withdrawalsPublished = len(a.withdrawals)
	c.releasedPublished = a.released - uint64(len(a.heldUp.meps))
	c.releasedSeen = c.releasedPublished
	n := Notice{State: a.State(), Released: a.released, HeldUp: slices.Clone(a.heldUp.meps),
		HeldUpChanges: a.heldUp.changes, Unbuilt: a.unbuilt, Triggers: a.triggerTotals(),
		Batch: Batch{FirstCycle: a.nextCycle, PlacesPerCycle: a.placesPerCycle}}
	if k := a.cutter; k != nil {
		c.cutsPublished, n.CutsOver = k.nextMEP, k.cutsOver
		n.CutsAt = new(k.position(k.nextMEP))
	}
	c.mark, c.statePublished = n, n.State
	n.For = ForControl
	c.append(n)
	for bu := range a.bus {
		a.forEachUnfinished(func(_ uint64, r *mepRecord) {
			if r.state == recordInFlight && int(r.bu) == bu {
				*c.issuedAt(bu, r.slot) = c.now // when it was issued is not known: latencies count from now on
			}
		})
	}
}

// continuation is what a unit lacks of all that was told.
func (r *rebuild) continuation(c *Core, u Unit, had *Recall) (all []Notice) {
	n := c.mark
	n.Absences = c.alloc.absences[len(had.Absences):]
	cycles, cuts := Batch{FirstCycle: c.alloc.nextCycle, PlacesPerCycle: c.alloc.placesPerCycle}, []Cut(nil)
	if u.Role == Readout {
		n.Withdrawals = c.alloc.withdrawals[len(had.Withdrawals):]
		cycles = r.cyclesFrom(had.NextCycle)
		if had.NextCut != nil {
			n.CutsAt, cuts = r.cutter.continuation(had.NextCut, r.released)
		}
	} else {
		n.Valid = &ValidTokens{Tokens: c.alloc.validTokens(u.Index)}
	}
	split(n, cuts, cycles, func(n Notice, last bool) {
		if last {
			n.Sequence = c.next - 1
		}
		all = append(all, n)
	})
	return all
}
