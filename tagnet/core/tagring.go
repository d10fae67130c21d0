package core

import (
	"fmt"
	"math/bits"
	"slices"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// MaxTagRingRUs is how many readout units a ring of tags may have: the bits of ServedRUs. It is three times the nodes
// of the largest founding system (LHCb-EB: 320), and enough for ringlet predict. On the wire a tag has only the words
// that it needs.
const MaxTagRingRUs = 1024

// MaxLoops is how often a tag may go round the ring again because a busy readout unit passed it on. TagNet-farm §III.D
// asks for a bound and names none. After four loops of at least one transfer each, a unit that is still busy has a
// queue, and the tag is served sooner by waiting in that queue.
const MaxLoops = 4

// A Tag is the right to send. It passes from readout unit to readout unit and returns to the scheduler (TagNet-farm
// §III.D). Its token, which all of them got before, says what to send and where to; the tag says when.
type Tag struct {
	TokenPlace uint64 // place of its token: number of the cycle × places in a cycle + index of the builder unit
	MEP        uint64
	Slot       uint32
	Attempt    uint8
	Loop       uint8  // how often it has come round before all had served it
	Generation uint16 // of the ring: how often it has changed, modulo 2^16; a tag of an earlier ring is dropped
	Served     ServedRUs
}

// ServedRUs is the bit field of the readout units that have sent.
type ServedRUs [MaxTagRingRUs / 64]uint64

// Contains tells that a readout unit has sent.
func (s *ServedRUs) Contains(ru int) bool { return s[ru/64]>>(ru%64)&1 != 0 }

// Add notes that a readout unit has sent.
func (s *ServedRUs) Add(ru int) { s[ru/64] |= 1 << (ru % 64) }

// Len is how many readout units have sent.
func (s *ServedRUs) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// wordCount is how many words hold all set bits.
func (s *ServedRUs) wordCount() int {
	n := len(s)
	for n > 0 && s[n-1] == 0 {
		n--
	}
	return n
}

// allBelow tells that only readout units with an index below rus have sent.
func (s *ServedRUs) allBelow(rus int) bool {
	for i, w := range s {
		if remaining := rus - 64*i; remaining < 64 && w>>max(0, remaining) != 0 {
			return false
		}
	}
	return true
}

// containsAll tells that s contains every readout unit of before.
func (s *ServedRUs) containsAll(before *ServedRUs) bool {
	for i, w := range before {
		if w&^s[i] != 0 {
			return false
		}
	}
	return true
}

// The third word of a tag (docs/format/tagnet.md): slot, attempt, loop, number of words of the bit field.
const (
	tagHeaderWords   = 3
	loopShift        = 32
	servedWordsShift = 40
	generationShift  = 48
)

// MaxTagWords is the most words that a tag takes.
const MaxTagWords = tagHeaderWords + len(ServedRUs{})

// AppendWords appends the tag in its form on the wire.
func (t *Tag) AppendWords(dst []uint64) []uint64 {
	n := t.Served.wordCount()
	dst = append(dst, t.TokenPlace, t.MEP, uint64(t.Generation)<<generationShift|uint64(n)<<servedWordsShift|
		uint64(t.Loop)<<loopShift|uint64(PackSlot(t.Attempt, t.Slot)))
	return append(dst, t.Served[:n]...)
}

// ParseTag reads the first tag in words and returns the words after it, or false if there is no tag. AppendWords of the
// tag gives the same words again.
func ParseTag(words []uint64) (t Tag, rest []uint64, ok bool) {
	if len(words) < tagHeaderWords {
		return t, nil, false
	}
	w := words[2]
	n := int(w >> servedWordsShift & 0xff)
	if n > len(t.Served) || tagHeaderWords+n > len(words) || n > 0 && words[tagHeaderWords+n-1] == 0 {
		return t, nil, false
	}
	t = Tag{
		TokenPlace: words[0],
		MEP:        words[1],
		Slot:       uint32(w & slotMask),
		Attempt:    uint8(w >> attemptShift),
		Loop:       uint8(w >> loopShift),
		Generation: uint16(w >> generationShift),
	}
	copy(t.Served[:], words[tagHeaderWords:tagHeaderWords+n])
	return t, words[tagHeaderWords+n:], true
}

// tagRing is the scheduler's end of the ring of tags (TagNet-farm §III.D): it launches the tags of issued tokens and
// checks every tag that returns against the one that it sent. It is a step machine, owned by the Allocator.
//
//	token ─► pending ─► launch ─► RU 0 ─► RU 1 ─► … ─► RU N-1 ─► back ─► checked
//	                      ▲                                       │
//	                      └──────── some have not sent ───────────┘
//
// A group of builder units never has two tags under way, since it never has two running events (TagNet-farm §III.B.2).
// So the group of a returned tag says which tag it must be.
//
// When a readout unit is lost or back, the tags on their way to it are lost. So the ring changes: each unit drops all
// tags, and reports when no write of it is under way. When all have, the tags start again in a ring of the units that
// there are, with a new generation; a unit that has sent passes its tag on. Meanwhile no tag starts.
type tagRing struct {
	// Immutable after newTagRing.

	ruCount          int // also those that are absent
	placesPerCycle   int
	bypassBusyRUs    bool
	waitForBusyGroup bool     // a tag whose group is busy holds up the tags behind it
	maxInFlight      int      // how many tags may be under way
	groupOf          []uint16 // of each builder unit; without groups each builder unit is one
	groups           *groups  // of the Allocator: counts the running events

	// Owned by the Core's goroutine.

	present         ServedRUs // the readout units of the ring
	first, last     int       // of them; −1: there are none
	generation      uint16
	isChanging      bool          // no tag starts until all readout units have dropped those of the ring before
	pendingTags     []pendingTag  // tokens whose tags have not been launched, in the order of issue
	launchedByGroup []launchedTag // by group
	checkFIFO       []uint16      // groups with a tag under way, in the order of launch
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

// launchedTag is the tag of a group that is under way, or the last one that was.
type launchedTag struct {
	tag      Tag
	inFlight bool
	void     bool // its builder unit has been excluded since: no readout unit need serve the tag
}

// tagsPerRU is how many tags may be under way for each readout unit: one that it serves and one that waits, so that a
// unit always has something to send (TagNet-farm §III.E: transfers back to back). More tags would only queue.
const tagsPerRU = 2

// newTagRing makes the ring of a view whose configuration was checked.
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
	for ru := range cfg.RUs {
		r.present.Add(ru)
	}
	r.last = len(cfg.RUs) - 1
	r.maxInFlight = min(r.maxInFlight, len(r.launchedByGroup))
	r.fifoDepth = newDepth(uint64(r.maxInFlight))
	return r
}

// enqueue queues the tag of an issued token for its launch.
func (r *tagRing) enqueue(cycle uint64, t Token) {
	r.pendingTags = append(r.pendingTags, pendingTag{
		tokenPlace: cycle*uint64(r.placesPerCycle) + uint64(t.BU),
		mep:        t.MEP,
		slot:       t.Slot,
		bu:         t.BU,
		attempt:    t.Attempt,
	})
}

// launch appends to out the tags that start now: those that go round again, then new ones in the order of their tokens.
func (r *tagRing) launch(out []Tag) []Tag {
	if r.isChanging {
		return out
	}
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
			Generation: r.generation,
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

// acceptReturn takes a tag that has come round. If the tag is not the one expected, it returns the reason and a
// description and changes nothing.
func (r *tagRing) acceptReturn(t *Tag, bus []string) (why Reason, what string) {
	if r.isChanging || t.Generation != r.generation {
		return 0, "" // it starts again
	}
	bu := int(t.TokenPlace % uint64(r.placesPerCycle))
	group := r.groupOf[bu]
	l := &r.launchedByGroup[group]
	at := slices.Index(r.checkFIFO, group) // mostly the first
	if why, what = r.checkTag(l, t, at); what != "" {
		article, token := "the", ""
		switch why {
		case TagUnknown:
			article = "a"
		case TagWrong:
			token = fmt.Sprintf(" (slot %d, attempt %d)", t.Slot, t.Attempt)
		}
		return why, fmt.Sprintf("%s tag of MEP %d%s for %s %s", article, t.MEP, token, bus[bu], what)
	}
	if at > 0 {
		r.counters.Overtaken++
	}
	r.checkFIFO = slices.Delete(r.checkFIFO, at, at+1)
	if n := r.unserved(t); n > 0 && !l.void {
		r.counters.Again++
		r.counters.Unserved += uint64(n)
		l.tag.Served = t.Served
		l.tag.Loop++
		r.checkFIFO = append(r.checkFIFO, group)
		r.relaunch = append(r.relaunch, l.tag)
		return 0, ""
	}
	r.countReturned(l)
	r.fifoDepth.set(uint64(len(r.checkFIFO)))
	return 0, ""
}

// unserved is how many readout units of the ring have not served a tag.
func (r *tagRing) unserved(t *Tag) int {
	n := 0
	for i, w := range r.present {
		n += bits.OnesCount64(w &^ t.Served[i])
	}
	return n
}

// countReturned notes that a tag has come back for good.
func (r *tagRing) countReturned(l *launchedTag) {
	r.retire(l)
	r.counters.Returned++
	r.counters.Loops[l.tag.Loop]++
	if l.void {
		r.counters.Void++
	}
}

// change takes a readout unit out of the ring, or in again. generation counts the changes.
func (r *tagRing) change(ru int, isBack bool, generation int) {
	r.present[ru/64] &^= 1 << (ru % 64)
	if isBack {
		r.present.Add(ru)
	}
	r.first, r.last = -1, -1
	for i := range r.ruCount {
		if r.present.Contains(i) {
			if r.last = i; r.first < 0 {
				r.first = i
			}
		}
	}
	r.generation, r.isChanging, r.relaunch = uint16(generation), true, r.relaunch[:0]
}

// restart starts the tags under way again, in the order in which they set out, once no readout unit has any of them.
func (r *tagRing) restart() {
	r.isChanging = false
	kept := r.checkFIFO[:0]
	for _, group := range r.checkFIFO {
		l := &r.launchedByGroup[group]
		if l.void {
			r.countReturned(l)
			continue
		}
		l.tag.Loop, l.tag.Generation, l.tag.Served = 0, r.generation, ServedRUs{}
		kept, r.relaunch = append(kept, group), append(r.relaunch, l.tag)
	}
	r.checkFIFO = kept
	r.fifoDepth.set(uint64(len(kept)))
}

// retire notes that a tag is no longer under way.
func (r *tagRing) retire(l *launchedTag) {
	l.inFlight = false
	r.groups.endEvent(int(l.tag.TokenPlace % uint64(r.placesPerCycle)))
}

// checkTag compares a tag that has come round with the last one sent for its group, at index at of the check FIFO. It
// returns the reason and the end of a sentence about the tag if they do not match.
func (r *tagRing) checkTag(l *launchedTag, t *Tag, at int) (Reason, string) {
	sent, unserved := &l.tag, r.unserved(t)
	switch {
	case !l.inFlight && sent.Attempt != 0 && sent.TokenPlace == t.TokenPlace:
		return TagTwice, "has come round already"
	case !l.inFlight || sent.TokenPlace != t.TokenPlace:
		return TagUnknown, "came round that was not sent"
	case sent.MEP != t.MEP || sent.Slot != t.Slot || sent.Attempt != t.Attempt:
		return TagWrong, fmt.Sprintf("came round where MEP %d (slot %d, attempt %d) was sent", sent.MEP, sent.Slot,
			sent.Attempt)
	case sent.Loop != t.Loop:
		return TagLoop, fmt.Sprintf("came round in loop %d, it was sent in loop %d", t.Loop, sent.Loop)
	case !t.Served.allBelow(r.ruCount) || !t.Served.containsAll(&sent.Served):
		return TagBadServed, "came round with a bit field that lost or invented readout units"
	case unserved > 0 && !l.void && (!r.bypassBusyRUs || t.Loop == MaxLoops):
		return TagUnserved, fmt.Sprintf("came round, but %d of %d readout units have not sent", unserved, r.present.Len())
	case !r.bypassBusyRUs && at > 0:
		return TagOvertook, "came round before one that was sent earlier"
	}
	return 0, ""
}

// exclude drops the pending tags of a builder unit. A tag of it that is under way must only return, served or not.
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

// abandon drops every tag.
func (r *tagRing) abandon() {
	r.counters.Abandoned += uint64(len(r.checkFIFO))
	r.counters.Dropped += uint64(len(r.pendingTags))
	for _, group := range r.checkFIFO {
		r.retire(&r.launchedByGroup[group])
	}
	r.pendingTags, r.checkFIFO, r.relaunch = r.pendingTags[:0], r.checkFIFO[:0], r.relaunch[:0]
	r.fifoDepth.set(0)
}

// isEmpty tells that no tag is under way or pending.
func (r *tagRing) isEmpty() bool { return len(r.checkFIFO) == 0 && len(r.pendingTags) == 0 }

// LaunchTags appends to out the tags that start on the ring now, and returns it. The caller sends them to the first
// readout unit, behind the cycles issued before. Without a ring there are no tags.
func (c *table) LaunchTags(out []Tag) []Tag {
	if c.tagRing == nil {
		return out
	}
	return c.tagRing.launch(out)
}

// ReturnTag takes a tag that has come round the ring from the last readout unit. It checks the tag in full against the
// one that was sent. A tag that does not match is refused with an *inputError, counted, and changes nothing.
func (c *table) ReturnTag(ru int, t *Tag) error {
	if c.tagRing == nil || t.Generation == c.tagRing.generation && ru != c.tagRing.last {
		unit := "scheduler"
		if ru >= 0 && ru < len(c.cfg.RUs) {
			unit = c.cfg.RUs[ru]
		}
		return c.refuse(TagUnknown, unit, "a tag of MEP %d came from readout unit %d, where no ring ends", t.MEP, ru)
	}
	if why, what := c.tagRing.acceptReturn(t, c.cfg.BUs); what != "" {
		return c.refuse(why, c.cfg.RUs[ru], "%s", what)
	}
	return nil
}

// ApplyCleared notes that readout unit ru has dropped all tags, and has no write under way, since the first count
// absences. When all units have, the tags of a ring that has changed start again.
func (c *Allocator) ApplyCleared(ru int, count uint64) error {
	switch {
	case ru < 0 || ru >= len(c.rus):
		return c.refuse(UnknownUnit, "scheduler", "a ring was cleared by readout unit %d of %d", ru, len(c.rus))
	case c.tagRing == nil || count > uint64(len(c.absences)):
		return c.refuse(BadConfirmation, c.cfg.RUs[ru], "has cleared the ring after %d absences of readout units, there "+
			"were only %d", count, len(c.absences))
	}
	c.rus[ru].clearedAbsences = max(c.rus[ru].clearedAbsences, int(count))
	for i := range c.rus {
		if r := &c.rus[i]; !r.excluded && r.clearedAbsences < len(c.absences) {
			return nil
		}
	}
	if c.tagRing.isChanging {
		c.tagRing.restart()
	}
	return nil
}
