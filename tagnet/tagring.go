package tagnet

import tagnetv1 "ringlet/proto/ringlet/tagnet/v1"

// tagRing is the scheduler's end of the control ring (TagNet-farm §III.D): it launches the
// tags of issued tokens and checks every one that returns against what it sent. Like the Core, which owns it, it is a
// step machine.
//
//	token ─► pending ─► launch ─► RU 0 ─► RU 1 ─► … ─► RU N-1 ─► back ─► checked
//	                      ▲                                       │
//	                      └──────── some have not sent ───────────┘
//
// A group of builder units has never two tags under way: never two running events to one group (TagNet-farm §III.B.2).
// So the group of a returned tag says which one it must be.
type tagRing struct {
	// Immutable after newTagRing.

	ruCount          int
	placesPerCycle   int
	bypassBusyRUs    bool
	waitForBusyGroup bool     // a tag whose group is busy holds up those behind it
	maxInFlight      int      // tags under way
	groupOf          []uint16 // of each builder unit; without groups each is one
	groups           *groups  // of the Core: which are running

	// Owned by the Core's goroutine.

	pendingTags     []pendingTag  // tokens whose tags have not been launched, in the order they were issued
	launchedByGroup []launchedTag // by group
	checkFIFO       []uint16      // groups with a tag under way, in the order of launching: the check FIFO
	relaunch        []Tag         // tags that go round again
	counters        *tagnetv1.TagCounters
	fifoDepth       depth // of the FIFO
}

// pendingTag is a tag before its launch.
type pendingTag struct {
	tokenPlace, mep uint64
	slot            uint32
	bu              uint16
	attempt         uint8
}

// launchedTag is the tag of a group that is under way, or the one that was last.
type launchedTag struct {
	tag      Tag
	inFlight bool
	void     bool // its builder unit has been excluded since: nobody need serve it
}

// tagsPerRU is how many tags may be under way for each readout unit: one that is served and one that waits its turn, so
// that a unit has always something to send (TagNet-farm §III.E: transfers back to back). More would only queue.
const tagsPerRU = 2

// newTagRing makes the ring of a view whose configuration has been checked.
func newTagRing(cfg *Config, g *groups) *tagRing {
	r := &tagRing{
		ruCount:          len(cfg.RUs),
		placesPerCycle:   len(cfg.BUs),
		bypassBusyRUs:    cfg.BypassBusyRUs,
		maxInFlight:      tagsPerRU * len(cfg.RUs),
		waitForBusyGroup: g.groupOf != nil && cfg.Rules.BusyGroupPolicy == Wait,
		groupOf:          g.groupOf,
		groups:           g,
		launchedByGroup:  make([]launchedTag, max(len(g.registers), len(cfg.BUs))),
		counters:         &tagnetv1.TagCounters{Loops: make([]uint64, MaxLoops+1)},
	}
	if g.groupOf != nil {
		r.launchedByGroup = r.launchedByGroup[:len(g.registers)]
	} else {
		for bu := range cfg.BUs {
			r.groupOf = append(r.groupOf, uint16(bu))
		}
	}
	r.maxInFlight = min(r.maxInFlight, len(r.launchedByGroup))
	r.fifoDepth = newDepth(uint64(r.maxInFlight))
	return r
}

// enqueue takes a token whose tag is to be launched.
func (r *tagRing) enqueue(cycle uint64, t Token) {
	r.pendingTags = append(r.pendingTags, pendingTag{
		tokenPlace: cycle*uint64(r.placesPerCycle) + uint64(t.BU),
		mep:        t.MEP,
		slot:       t.Slot,
		bu:         t.BU,
		attempt:    t.Attempt,
	})
}

// launch appends to out the tags that set out now: those that go round again, then new ones in the order of their
// tokens.
func (r *tagRing) launch(out []Tag) []Tag {
	out = append(out, r.relaunch...)
	r.relaunch = r.relaunch[:0]
	kept := 0
	for i := range r.pendingTags {
		w := &r.pendingTags[i]
		l := &r.launchedByGroup[r.groupOf[w.bu]]
		if len(r.checkFIFO) == r.maxInFlight || r.waitForBusyGroup && kept > 0 {
			kept += copy(r.pendingTags[kept:], r.pendingTags[i:])
			break
		}
		if l.inFlight {
			r.pendingTags[kept] = *w
			kept++
			continue
		}
		*l = launchedTag{tag: Tag{
			TokenPlace: w.tokenPlace,
			MEP:        w.mep,
			Slot:       w.slot,
			Attempt:    w.attempt,
		}, inFlight: true}
		r.checkFIFO = append(r.checkFIFO, r.groupOf[w.bu])
		r.groups.beginEvent(int(w.bu))
		r.counters.Launched++
		out = append(out, l.tag)
	}
	r.pendingTags = r.pendingTags[:kept]
	r.fifoDepth.set(uint64(len(r.checkFIFO)))
	return out
}

// acceptReturn takes a tag that has come round. It tells what is wrong with it; it then changes nothing.
func (r *tagRing) acceptReturn(t *Tag) (Reason, bool) {
	group := r.groupOf[t.TokenPlace%uint64(r.placesPerCycle)]
	l := &r.launchedByGroup[group]
	at := r.fifoIndex(group)
	if why, ok := r.checkTag(l, t, at); !ok {
		return why, false
	}
	if at > 0 {
		r.counters.Overtaken++
	}
	r.checkFIFO = append(r.checkFIFO[:at], r.checkFIFO[at+1:]...)
	if served := t.Served.Len(); served < r.ruCount && !l.void {
		r.counters.Again++
		r.counters.Unserved += uint64(r.ruCount - served)
		l.tag.Served = t.Served
		l.tag.Loop++
		r.checkFIFO = append(r.checkFIFO, group)
		r.relaunch = append(r.relaunch, l.tag)
		return 0, true
	}
	r.retire(l)
	r.counters.Returned++
	r.counters.Loops[t.Loop]++
	if l.void {
		r.counters.Void++
	}
	r.fifoDepth.set(uint64(len(r.checkFIFO)))
	return 0, true
}

// retire notes that a tag is no longer under way.
func (r *tagRing) retire(l *launchedTag) {
	l.inFlight = false
	r.groups.endEvent(int(l.tag.TokenPlace % uint64(r.placesPerCycle)))
}

// checkTag compares a tag that has come round with the one of its group that was sent, which is at a place of the check
// FIFO.
func (r *tagRing) checkTag(l *launchedTag, t *Tag, at int) (Reason, bool) {
	sent := &l.tag
	switch {
	case !l.inFlight && sent.Attempt != 0 && sent.TokenPlace == t.TokenPlace:
		return TagTwice, false
	case !l.inFlight || sent.TokenPlace != t.TokenPlace:
		return TagUnknown, false
	case sent.MEP != t.MEP || sent.Slot != t.Slot || sent.Attempt != t.Attempt:
		return TagWrong, false
	case sent.Loop != t.Loop:
		return TagLoop, false
	case !t.Served.allBelow(r.ruCount) || !t.Served.containsAll(&sent.Served):
		return TagBadServed, false
	case t.Served.Len() < r.ruCount && !l.void && (!r.bypassBusyRUs || t.Loop == MaxLoops):
		return TagUnserved, false
	case !r.bypassBusyRUs && at > 0:
		return TagOvertook, false
	}
	return 0, true
}

// fifoIndex is where the tag of a group stands in the check FIFO; it is mostly the first.
func (r *tagRing) fifoIndex(group uint16) int {
	for i, g := range r.checkFIFO {
		if g == group {
			return i
		}
	}
	return -1
}

// exclude forgets the tags of a builder unit that wait, and asks nothing any more of those under way but that they
// return.
func (r *tagRing) exclude(bu int) {
	kept := r.pendingTags[:0]
	for _, w := range r.pendingTags {
		if int(w.bu) == bu {
			r.counters.Dropped++
			continue
		}
		kept = append(kept, w)
	}
	r.pendingTags = kept
	if l := &r.launchedByGroup[r.groupOf[bu]]; l.inFlight && l.tag.TokenPlace%uint64(r.placesPerCycle) == uint64(bu) {
		l.void = true
	}
}

// abandon gives up every tag.
func (r *tagRing) abandon() {
	r.counters.Abandoned += uint64(len(r.checkFIFO))
	r.counters.Dropped += uint64(len(r.pendingTags))
	for _, group := range r.checkFIFO {
		r.retire(&r.launchedByGroup[group])
	}
	r.pendingTags, r.checkFIFO, r.relaunch = r.pendingTags[:0], r.checkFIFO[:0], r.relaunch[:0]
	r.fifoDepth.set(0)
}

// isEmpty tells that no tag is under way, nor will be for what was issued.
func (r *tagRing) isEmpty() bool { return len(r.checkFIFO) == 0 && len(r.pendingTags) == 0 }

// maxTags is how many tags can be under way.
func (c *Core) maxTags() int {
	if c.tagRing == nil {
		return 0
	}
	return c.tagRing.maxInFlight
}

// LaunchTags appends to out the tags that set out on the ring now, and returns it. The caller sends them to the first
// readout unit, behind the cycles issued before. Without a ring there are none.
func (c *Core) LaunchTags(out []Tag) []Tag {
	if c.tagRing == nil {
		return out
	}
	return c.tagRing.launch(out)
}

// ReturnTag takes a tag that has come round the ring from the last readout unit. It is checked in full against what was
// sent; one that does not match is refused with an *inputError and counted, and changes nothing.
func (c *Core) ReturnTag(ru int, t *Tag) error {
	if c.tagRing == nil || ru != len(c.rus)-1 {
		unit := "scheduler"
		if ru >= 0 && ru < len(c.rus) {
			unit = c.cfg.RUs[ru]
		}
		return c.refuse(TagUnknown, unit, "a tag of MEP %d came from readout unit %d, where no ring ends", t.MEP, ru)
	}
	if why, ok := c.tagRing.acceptReturn(t); !ok {
		return c.refuseTag(why, ru, t)
	}
	return nil
}

func (c *Core) refuseTag(why Reason, ru int, t *Tag) error {
	unit, bu := c.cfg.RUs[ru], int(t.TokenPlace%uint64(c.placesPerCycle))
	sent := &c.tagRing.launchedByGroup[c.tagRing.groupOf[bu]].tag
	switch why {
	case TagTwice:
		return c.refuse(why, unit, "the tag of MEP %d for %s has come round already", t.MEP, c.cfg.BUs[bu])
	case TagUnknown:
		return c.refuse(why, unit, "a tag of MEP %d for %s came round that was not sent", t.MEP, c.cfg.BUs[bu])
	case TagLoop:
		return c.refuse(why, unit, "the tag of MEP %d for %s came round in loop %d, it was sent in loop %d", t.MEP,
			c.cfg.BUs[bu], t.Loop, sent.Loop)
	case TagBadServed:
		return c.refuse(why, unit, "the tag of MEP %d for %s came round with a bit field that lost or invented readout units",
			t.MEP, c.cfg.BUs[bu])
	case TagUnserved:
		return c.refuse(why, unit, "the tag of MEP %d for %s came round, but %d of %d readout units have not sent", t.MEP,
			c.cfg.BUs[bu], c.tagRing.ruCount-t.Served.Len(), c.tagRing.ruCount)
	case TagOvertook:
		return c.refuse(why, unit, "the tag of MEP %d for %s came round before one that was sent earlier", t.MEP,
			c.cfg.BUs[bu])
	}
	return c.refuse(why, unit,
		"the tag of MEP %d (slot %d, attempt %d) for %s came round where MEP %d (slot %d, attempt %d) was sent",
		t.MEP, t.Slot, t.Attempt, c.cfg.BUs[bu], sent.MEP, sent.Slot, sent.Attempt)
}
