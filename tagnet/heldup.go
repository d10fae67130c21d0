package tagnet

import (
	"math"
	"slices"
)

// What a builder unit that has stopped must not do to the others. Two things would make them wait for it:
//
//   - cycles in flight, under Skip: each MEP that it has holds one open, and there are LookAhead of them. So it is left
//     behind: its MEPs are taken out of their cycles;
//   - the released watermark, which stops at its oldest MEP, and with it the records and the readout units' memory. So
//     the watermark passes over its MEPs, which are held up from then on: they are named beside the watermark. Under
//     Wait that serves a builder unit which discards what it has no time for, and so goes on but for the MEP that its
//     sink is stuck with.
//
// Both are bounded: a builder unit has at most creditPerBU MEPs.

// noCycle stands in the record of a MEP that no cycle waits for.
const noCycle = math.MaxUint32

// heldUpMEPs are the MEPs that the watermark passed over, in order, with their records.
type heldUpMEPs struct {
	meps    []uint64
	records []mepRecord
	changes uint64
}

func (h *heldUpMEPs) add(mep uint64, r mepRecord) {
	h.meps, h.records = append(h.meps, mep), append(h.records, r)
	h.changes++
}

// find is the record of a MEP, or nil.
func (h *heldUpMEPs) find(mep uint64) *mepRecord {
	if i, ok := slices.BinarySearch(h.meps, mep); ok {
		return &h.records[i]
	}
	return nil
}

// drop forgets a MEP that has its outcome.
func (h *heldUpMEPs) drop(mep uint64) {
	if i, ok := slices.BinarySearch(h.meps, mep); ok {
		h.meps, h.records = slices.Delete(h.meps, i, i+1), slices.Delete(h.records, i, i+1)
		h.changes++
	}
}

// prune forgets all that have their outcome.
func (h *heldUpMEPs) prune() {
	for i := len(h.meps) - 1; i >= 0; i-- {
		if h.records[i].state == recordFinal {
			h.drop(h.meps[i])
		}
	}
}

// HeldUp are the MEPs below Released that have no outcome, in order. They stay the Core's, and so until it is called
// again.
func (c *Core) HeldUp() []uint64 { return c.heldUp.meps }

// finalRecord is the record of every MEP of which none is kept any more.
var finalRecord = mepRecord{state: recordFinal}

// recordOf is the record of a MEP that was issued.
func (c *Core) recordOf(mep uint64) *mepRecord {
	if mep >= c.released {
		return &c.records[mep&c.recordMask]
	}
	if r := c.heldUp.find(mep); r != nil {
		return r
	}
	r := finalRecord // a copy: nobody may change it for all
	return &r
}

// forEachUnfinished calls f with every MEP that has no outcome, in order. f may give it one.
func (c *Core) forEachUnfinished(f func(mep uint64, r *mepRecord)) {
	for i, mep := range c.heldUp.meps {
		f(mep, &c.heldUp.records[i])
	}
	c.heldUp.prune()
	for k := c.released; k < c.nextMEP; k++ {
		if r := &c.records[k&c.recordMask]; r.state != recordFinal {
			f(k, r)
		}
	}
}

// advanceReleased moves the watermark over every MEP that has its outcome, and over others when all that is kept for
// them would be more than can be in flight.
func (c *Core) advanceReleased() {
	for c.released < c.nextMEP {
		r := &c.records[c.released&c.recordMask]
		if r.state != recordFinal {
			if len(c.heldUp.meps)+int(c.nextMEP-c.released) <= c.maxBeyondReleased() {
				return
			}
			c.heldUp.add(c.released, *r)
			if c.cutter != nil {
				c.cutter.heldUpCuts[c.released] = c.cutter.cuts[c.released&c.recordMask]
			}
		}
		r.state = recordUnused
		c.released++
	}
}

// maxBeyondReleased is how far beyond the watermark MEPs are issued before it passes over those that hold it up.
// Readout units keep what is between, and what is held up, so that together they are no more than can be in flight
// anyway; of small MEPs they have room for twice that, and a reach beyond it would let them fill up behind a builder
// unit that has stopped. In a window of a cycle or less nothing is passed over.
func (c *Core) maxBeyondReleased() int {
	if c.cfg.Window <= c.placesPerCycle {
		return c.cfg.Window
	}
	return min(c.cfg.maxUnfinished(), c.cfg.Window-c.placesPerCycle)
}

// maxCyclesBehind is how many cycles a readout unit can be behind that has not missed any: twice what can be in flight.
// Under Skip, cycles of which only builder units left behind have MEPs come on top, and each has a token in flight at
// least.
func (c *Core) maxCyclesBehind() int {
	n := 2 * len(c.openTokens)
	if c.cfg.NoSlotPolicy == Skip {
		n = max(n, c.cfg.LookAhead*(c.placesPerCycle+2))
	}
	return n
}

// releasedMark is the released watermark with its exceptions, which stay the Core's.
func (c *Core) releasedMark() watermark {
	return watermark{c.released, c.heldUp.meps, c.heldUp.changes}
}

// noCycleAwaited tells that no cycle is in flight that anybody waits for.
func (c *Core) noCycleAwaited() bool { return len(c.freeCycles) == len(c.openTokens) }

// hasIdleBU tells that an active builder unit has nothing.
func (c *Core) hasIdleBU() bool {
	for j := range c.bus {
		if b := &c.bus[j]; !b.excluded && b.usedSlots.Now == 0 {
			return true
		}
	}
	return false
}

// leaveBehind lets the others go on without the builder units that hold them up, and reports whether there was any:
// those that have all they can have while another has nothing. One that has worked off half of what it can have is
// waited for again.
func (c *Core) leaveBehind() bool {
	if c.cfg.NoSlotPolicy != Skip || !c.hasIdleBU() {
		return false
	}
	found, threshold := false, c.behindThreshold()
	for j := range c.bus {
		if b := &c.bus[j]; !b.excluded && !b.leftBehind && b.usedSlots.Now >= threshold {
			b.leftBehind, found = true, true
			c.leftBehindBUs++
			b.counters.LeftBehind++
		}
	}
	if found {
		c.forEachUnfinished(func(_ uint64, r *mepRecord) {
			if r.state == recordInFlight && c.bus[r.bu].leftBehind {
				c.releaseFromCycle(r)
			}
		})
	}
	return found
}

// behindThreshold is how many MEPs a builder unit has that holds the others up. Who stands in every cycle has all it
// can have by then; where rules pass over builder units, it is whoever has most: one that has stopped may have a single
// MEP, where its group has no more. So a healthy one may be taken for it, and counted, until it has worked off half of
// what it can have; cycles need not be full then.
func (c *Core) behindThreshold() uint64 {
	if c.cfg.Rules.isPlain() && !c.cfg.Loose {
		return uint64(c.cfg.creditPerBU())
	}
	most := uint64(1)
	for j := range c.bus {
		if b := &c.bus[j]; !b.excluded && !b.leftBehind {
			most = max(most, b.usedSlots.Now)
		}
	}
	return most
}
