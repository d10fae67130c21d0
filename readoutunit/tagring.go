package readoutunit

import (
	"fmt"
	"slices"

	"ringlet/tagnet/core"
)

// tagRing is the discipline of tokens that pass from sender to sender (TagNet-farm §III.D and §III.E). All units get a
// token ahead of its tag, so that sizes are announced and windows granted when the tag comes: the token is the
// prefetched descriptor, the tag is the right to send. The unit serves tags in the order in which they come, and passes
// each on when its own write has its outcome. So the tag of a MEP is with one unit at a time, and its builder unit has
// one sender.
//
// A unit writes one MEP's part at a time. Two writes would share its port, so that both tags would leave together and
// stay together round the tag ring, while other ports idle. The next write begins when the outcome of the last one has
// come: by then its tag and its window are mostly there.
//
// If by-pass is allowed, the unit passes on a tag unserved that would wait long, and the tag comes again; so tags may
// overtake one another. Without by-pass no tag overtakes another, so that the scheduler can check their order.
type tagRing struct {
	t *Transfers

	// immutable after newTagRing
	ru     int
	bypass bool
	visits []int // all builder units, in the order of their indices

	generation   uint16
	heldTags     []heldTag // tags at this unit, in the order they came
	nextToServe  int       // index of the first tag that waits to be served
	outgoingTags []core.Tag
	forwarded    int    // how many of outgoingTags NextForward has returned
	bypassed     uint64 // tags passed on unserved because the unit was busy
}

// heldTag is a tag at a readout unit. A tag may come before its token, and then waits for the token.
type heldTag struct {
	core.Tag
	done bool // served, or of a MEP whose token was withdrawn
}

// bypassRatioX2 is how much work may be ahead of a waiting tag, in halves of its own part, before the unit passes it
// on. A tag that is passed on loses its place and a loop, so a tag with one or two parts of ordinary size ahead of it
// waits. The 99th percentile with 4 units, in virtual time (2026-11-21): passing on whenever the unit writes, 18 % more
// than never; at 2½, 14 % less (a fifth of the load, one part in 150 five times as large).
const bypassRatioX2 = 5

func newTagRing(c DisciplineConfig, t *Transfers, bypass bool) *tagRing {
	return &tagRing{t: t, ru: c.RU, bypass: bypass, visits: allUnits(c.BUs)}
}

// A tagError is a tag that contradicts the tokens.
type tagError struct {
	Tag    core.Tag
	BU     int
	Reason string
}

func (e *tagError) Error() string {
	return fmt.Sprintf("the tag of MEP %d for slot %d of builder unit %d, attempt %d: %s", e.Tag.MEP, e.Tag.Slot, e.BU,
		e.Tag.Attempt, e.Reason)
}

// Visits implements Order.
func (r *tagRing) Visits() []int { return r.visits }

// FirstNeeded implements Order: the lowest place of a tag at this unit.
func (r *tagRing) FirstNeeded() uint64 {
	first := r.t.nextPlace()
	for i := range r.heldTags {
		first = min(first, r.heldTags[i].TokenPlace)
	}
	return first
}

// Note implements Order.
func (r *tagRing) Note(c Change, n uint64) error {
	switch c {
	case CycleCame: // tags may wait for its tokens, some of which may be withdrawn already
		for i := range r.heldTags {
			if h := &r.heldTags[i]; h.TokenPlace >= n {
				if err := r.matchToken(&h.Tag); err != nil {
					return err
				}
			}
		}
	case Granted:
		i := slices.IndexFunc(r.heldTags, func(h heldTag) bool { return h.TokenPlace == n })
		if i < 0 || !r.bypassIfBusy(i) {
			return nil
		}
	case Written: // the unit may pass the tag on
		for i := range r.heldTags {
			if h := &r.heldTags[i]; h.TokenPlace == n {
				h.done = true
				h.Served.Add(r.ru)
			}
		}
	case Sent, Withdrawn: // tags of withdrawn tokens are passed on, too, for the scheduler to check
	default:
		return nil
	}
	r.updateQueue()
	return nil
}

// AddTag implements TagOrder.
func (r *tagRing) AddTag(t *core.Tag) error {
	switch newer := int16(t.Generation - r.generation); {
	case newer < 0:
		return nil
	case newer > 0:
		return &tagError{*t, r.builderOf(t), "it is of a ring that this unit does not know"}
	}
	if err := r.matchToken(t); err != nil {
		return err
	}
	for i := range r.heldTags {
		if r.heldTags[i].TokenPlace == t.TokenPlace {
			return &tagError{*t, r.builderOf(t), "it is here already"}
		}
	}
	r.heldTags = append(r.heldTags, heldTag{*t, t.Served.Contains(r.ru)})
	r.bypassIfBusy(len(r.heldTags) - 1)
	r.updateQueue()
	return nil
}

// ChangeRing implements TagOrder.
func (r *tagRing) ChangeRing(generation uint16) {
	r.generation = generation
	r.heldTags, r.nextToServe = r.heldTags[:0], 0
	r.outgoingTags, r.forwarded = r.outgoingTags[:0], 0
}

func (r *tagRing) builderOf(t *core.Tag) int { return int(t.TokenPlace % uint64(r.t.placesPerCycle)) }

// bypassIfBusy marks a tag to be passed on unserved if more than bypassRatioX2 halves of its own part are ahead of it.
// The tag must have its window: before, the unit knows no size of the part, and could not serve the tag.
func (r *tagRing) bypassIfBusy(i int) bool {
	h := &r.heldTags[i]
	if h.done || !r.bypass || h.Loop == core.MaxLoops || !r.t.isKept(h.TokenPlace) ||
		r.t.TransferAt(h.TokenPlace).Stage != stageGranted {
		return false
	}
	ahead := uint64(0)
	for k := range r.heldTags[:i] {
		if x := &r.heldTags[k]; !x.done && x.TokenPlace < r.t.nextPlace() {
			ahead += uint64(r.t.TransferAt(x.TokenPlace).GrantedBytes)
		}
	}
	if 2*ahead <= bypassRatioX2*uint64(r.t.TransferAt(h.TokenPlace).GrantedBytes) {
		return false
	}
	h.done = true
	r.bypassed++
	return true
}

// matchToken checks a tag against its token; nil also if the token is over or still to come.
func (r *tagRing) matchToken(t *core.Tag) error {
	if !r.t.isKept(t.TokenPlace) || t.MEP < r.t.firstMEP {
		return nil // this unit has no part of the MEP, or the token is over, or has not come yet
	}
	if x := r.t.TransferAt(t.TokenPlace); x.Stage == stageEmpty || x.MEP != t.MEP || x.Slot != t.Slot ||
		x.Attempt != t.Attempt {
		return &tagError{*t, r.builderOf(t), "no token matches it"}
	}
	return nil
}

// updateQueue finds the first tag that waits to be served, and moves the tags that may be passed on to outgoingTags.
func (r *tagRing) updateQueue() {
	kept := r.heldTags[:0]
	r.nextToServe = -1
	for _, h := range r.heldTags {
		if !h.done && r.isTransferOver(&h.Tag) {
			h.done = true
			// The scheduler may not know of a loss yet, and accepts only served tags. A tag that starts again was served.
			if bu := r.builderOf(&h.Tag); r.t.isLost(bu) || r.generation > 0 && !r.t.isWithdrawn(
				h.TokenPlace/uint64(r.t.placesPerCycle), bu) {
				h.Served.Add(r.ru)
			}
		}
		if h.done && (r.bypass || len(kept) == 0) {
			r.outgoingTags = append(r.outgoingTags, h.Tag)
			continue
		}
		if r.nextToServe < 0 && r.awaitsService(&h) {
			r.nextToServe = len(kept)
		}
		kept = append(kept, h)
	}
	if r.heldTags = kept; r.nextToServe < 0 {
		r.nextToServe = len(kept)
	}
}

// isTransferOver tells that a tag's transfer has ended without being served by that tag.
func (r *tagRing) isTransferOver(t *core.Tag) bool {
	return t.MEP < r.t.firstMEP || t.TokenPlace < r.t.firstPlace ||
		r.t.isKept(t.TokenPlace) && r.t.TransferAt(t.TokenPlace).Stage >= stageOrphaned
}

func (r *tagRing) awaitsService(h *heldTag) bool {
	return !h.done && (h.TokenPlace >= r.t.nextPlace() || r.t.TransferAt(h.TokenPlace).Stage < stageSent)
}

// Next implements Order.
func (r *tagRing) Next() (Turn, uint64) {
	switch {
	case r.nextToServe == len(r.heldTags) && r.t.OpenTransfers() == 0:
		return WaitToken, 0
	case r.nextToServe == len(r.heldTags) || r.heldTags[r.nextToServe].TokenPlace >= r.t.nextPlace():
		return WaitTag, 0
	}
	n := r.heldTags[r.nextToServe].TokenPlace
	switch {
	case r.t.TransferAt(n).Stage == stageAnnounced:
		return WaitGrant, n
	case r.t.awaited.count > 0:
		return WaitWrite, n
	}
	return Send, n
}

// Along implements Order: one part at a time.
func (r *tagRing) Along(places []uint64, _ int) []uint64 { return places }

// NextForward implements TagOrder.
func (r *tagRing) NextForward() (core.Tag, bool) {
	if r.forwarded == len(r.outgoingTags) {
		r.outgoingTags, r.forwarded = r.outgoingTags[:0], 0
		return core.Tag{}, false
	}
	r.forwarded++
	return r.outgoingTags[r.forwarded-1], true
}

// BypassedTags implements TagOrder.
func (r *tagRing) BypassedTags() uint64 { return r.bypassed }
