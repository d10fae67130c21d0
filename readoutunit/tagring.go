package readoutunit

import (
	"fmt"

	"ringlet/event/placing"
	"ringlet/tagnet"
)

// A TagOrder is an order in which the right to send passes from readout unit to readout unit, as tags.
type TagOrder interface {
	Order
	// AddTag takes a tag. An error says what is wrong with it; it then had no effect.
	AddTag(t *tagnet.Tag) error
	// NextForward is the next tag that this unit is done with, to be passed on; each is given once.
	NextForward() (tagnet.Tag, bool)
	// BypassedTags is how many tags were passed on unserved since the unit was busy.
	BypassedTags() uint64
}

// tagRing is the discipline of tokens that pass from sender to sender (TagNet-farm §III.D and §III.E). Tokens come
// ahead to all units, so that sizes are announced and windows granted when the tag comes: the token is the prefetched
// descriptor, the tag is the right to send. The unit serves tags in the order in which they come, and passes one on
// when its own write has its outcome. So the tag of a MEP is with one unit at a time, and its builder unit has one
// sender.
//
// A unit writes one MEP's part at a time: two would share its port, both tags would leave together, and stay together
// round the tag ring, while other ports idle. The next write begins when the outcome of the one before is here: its tag
// and its window mostly are.
//
// A tag that would wait long is passed on unserved where by-pass is allowed, and comes again; so tags may overtake one
// another. Without by-pass none does, so that the scheduler can check their order.
type tagRing struct {
	Transfers

	// immutable after newTagRing
	ru         int
	bypass     bool
	visitOrder []int // all builder units, in the order of their indices

	heldTags     []heldTag // tags that are here, in the order they came
	nextToServe  int       // index of the first that waits to be served
	writing      bool      // a write is under way
	outgoingTags []tagnet.Tag
	forwarded    int    // of outgoing
	bypassed     uint64 // tags passed on unserved since the unit was busy
}

// heldTag is a tag at a readout unit. A tag may come before its token, and then waits for it.
type heldTag struct {
	tagnet.Tag
	done bool // served, or of a MEP that was withdrawn
}

// bypassRatioX2 is how much work may be ahead of a tag that waits, in halves of its own part. A tag that is passed on
// loses its place and a loop, so parts of ordinary size, of which one or two are ahead, are waited for. The 99th
// percentile with 4 units, in virtual time (2026-11-21): passing on whenever the unit writes, 18 % more than never; at
// 2½, 14 % less (a fifth of the load, one part in 150 five times as large).
const bypassRatioX2 = 5

// newTagRing makes the order of readout unit ru for bus builder units with the given number of slots each.
func newTagRing(ru, bus, slots int, bypass bool) *tagRing {
	r := &tagRing{Transfers: newTransfers(bus, slots), ru: ru, bypass: bypass}
	for b := range bus {
		r.visitOrder = append(r.visitOrder, b)
	}
	return r
}

// A tagError is a tag that contradicts the tokens.
type tagError struct {
	Tag    tagnet.Tag
	BU     int
	Reason string
}

func (e *tagError) Error() string {
	return fmt.Sprintf("the tag of MEP %d for slot %d of builder unit %d, attempt %d: %s", e.Tag.MEP, e.Tag.Slot, e.BU,
		e.Tag.Attempt, e.Reason)
}

// VisitOrder implements Order.
func (r *tagRing) VisitOrder() []int { return r.visitOrder }

// AddCycle implements Order. Its tokens may be those that tags wait for, and may have been withdrawn before they came.
func (r *tagRing) AddCycle(b *tagnet.Batch, i int) error {
	first := r.nextPlace()
	if err := r.addCycle(b, i, r.firstHeldPlace()); err != nil {
		return err
	}
	for i := range r.heldTags {
		if h := &r.heldTags[i]; h.TokenPlace >= first {
			if err := r.matchToken(&h.Tag); err != nil {
				return err
			}
		}
	}
	r.updateQueue()
	return nil
}

// firstHeldPlace is the first place that a tag here stands for.
func (r *tagRing) firstHeldPlace() uint64 {
	first := r.nextPlace()
	for i := range r.heldTags {
		first = min(first, r.heldTags[i].TokenPlace)
	}
	return first
}

// ApplyGrant implements Order.
func (r *tagRing) ApplyGrant(bu int, g *placing.Grant) error {
	n, err := r.applyGrant(bu, g)
	if err != nil || n == noPlace {
		return err
	}
	for i := range r.heldTags {
		if r.heldTags[i].TokenPlace == n && r.bypassIfBusy(i) {
			r.updateQueue()
			break
		}
	}
	return nil
}

// AddTag implements TagOrder.
func (r *tagRing) AddTag(t *tagnet.Tag) error {
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

func (r *tagRing) builderOf(t *tagnet.Tag) int { return int(t.TokenPlace % uint64(r.placesPerCycle)) }

// bypassIfBusy decides whether a tag that is here is passed on unserved, since it would wait for more than
// bypassRatioX2 halves of its own part. It is asked when both the tag and its window are here: before, the part's size
// is not known, nor could it be served.
func (r *tagRing) bypassIfBusy(i int) bool {
	h := &r.heldTags[i]
	if h.done || !r.bypass || h.Loop == tagnet.MaxLoops || h.TokenPlace < r.firstPlace || h.TokenPlace >= r.nextPlace() ||
		r.TransferAt(h.TokenPlace).Stage != stageGranted {
		return false
	}
	ahead := uint64(0)
	for k := range r.heldTags[:i] {
		if x := &r.heldTags[k]; !x.done && x.TokenPlace < r.nextPlace() {
			ahead += uint64(r.TransferAt(x.TokenPlace).GrantedBytes)
		}
	}
	if 2*ahead <= bypassRatioX2*uint64(r.TransferAt(h.TokenPlace).GrantedBytes) {
		return false
	}
	h.done = true
	r.bypassed++
	return true
}

// matchToken tells whether a tag is of a token that came, or is still to come.
func (r *tagRing) matchToken(t *tagnet.Tag) error {
	if t.TokenPlace < r.firstPlace || t.TokenPlace >= r.nextPlace() {
		return nil // it is over, or not here yet
	}
	if x := r.TransferAt(t.TokenPlace); x.Stage == stageEmpty || x.MEP != t.MEP || x.Slot != t.Slot ||
		x.Attempt != t.Attempt {
		return &tagError{*t, r.builderOf(t), "no token says so"}
	}
	return nil
}

// Withdraw implements Order. The tags of what was withdrawn are passed on all the same, for the scheduler to check.
func (r *tagRing) Withdraw(w tagnet.Withdrawal) {
	r.Transfers.Withdraw(w)
	r.refreshWriting()
}

// MarkLost implements Order.
func (r *tagRing) MarkLost(bu int) {
	r.Transfers.MarkLost(bu)
	r.refreshWriting()
}

// refreshWriting lets go on what waited for a write that is orphaned.
func (r *tagRing) refreshWriting() {
	r.writing = false
	for i := range r.heldTags {
		if h := &r.heldTags[i]; !h.done && h.TokenPlace >= r.firstPlace && h.TokenPlace < r.nextPlace() &&
			r.TransferAt(h.TokenPlace).Stage == stageSent {
			r.writing = true
		}
	}
	r.updateQueue()
}

// updateQueue finds the first tag that waits to be served, and passes on what can be.
func (r *tagRing) updateQueue() {
	kept := r.heldTags[:0]
	r.nextToServe = -1
	for _, h := range r.heldTags {
		if !h.done && r.isTransferOver(&h.Tag) {
			h.done = true
			if r.IsLost(r.builderOf(&h.Tag)) { // the scheduler may not know yet, and takes no tag that is not served
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

// isTransferOver tells that a tag's transfer is done with, without having been served for it.
func (r *tagRing) isTransferOver(t *tagnet.Tag) bool {
	return t.TokenPlace < r.firstPlace || t.TokenPlace < r.nextPlace() && r.TransferAt(t.TokenPlace).Stage >= stageOrphaned
}

func (r *tagRing) awaitsService(h *heldTag) bool {
	return !h.done && (h.TokenPlace >= r.nextPlace() || r.TransferAt(h.TokenPlace).Stage < stageSent)
}

// NextAction implements Order.
func (r *tagRing) NextAction() (Action, uint64) {
	switch {
	case r.nextToServe == len(r.heldTags) && r.OpenTransfers() == 0:
		return WaitToken, 0
	case r.nextToServe == len(r.heldTags) || r.heldTags[r.nextToServe].TokenPlace >= r.nextPlace():
		return WaitTag, 0
	}
	n := r.heldTags[r.nextToServe].TokenPlace
	switch {
	case r.TransferAt(n).Stage == stageAnnounced:
		return WaitGrant, n
	case r.writing:
		return WaitWrite, n
	}
	return Send, n
}

// Serve implements Order: one part at a time.
func (r *tagRing) Serve(n uint64, _ int, places []uint64) []uint64 {
	r.markSent(n)
	r.writing = true
	for r.nextToServe < len(r.heldTags) && !r.awaitsService(&r.heldTags[r.nextToServe]) {
		r.nextToServe++
	}
	return append(places, n)
}

// Complete implements Order: the tag may be passed on.
func (r *tagRing) Complete(places []uint64) error {
	for _, n := range places {
		orphaned := n >= r.firstPlace && n < r.nextPlace() && r.TransferAt(n).Stage == stageOrphaned
		if err := r.Transfers.Complete([]uint64{n}); err != nil {
			return err
		}
		if !orphaned { // else its tag has gone on
			r.markServed(n)
		}
	}
	return nil
}

// markServed passes on the tag of a transfer that is done.
func (r *tagRing) markServed(n uint64) {
	r.writing = false
	for i := range r.heldTags {
		if h := &r.heldTags[i]; h.TokenPlace == n {
			h.done = true
			h.Served.Add(r.ru)
		}
	}
	r.updateQueue()
}

// AdvancePhase implements Order; there are no phases.
func (r *tagRing) AdvancePhase(int) {}

// NextForward implements TagOrder.
func (r *tagRing) NextForward() (tagnet.Tag, bool) {
	if r.forwarded == len(r.outgoingTags) {
		r.outgoingTags, r.forwarded = r.outgoingTags[:0], 0
		return tagnet.Tag{}, false
	}
	r.forwarded++
	return r.outgoingTags[r.forwarded-1], true
}

// BypassedTags implements TagOrder.
func (r *tagRing) BypassedTags() uint64 { return r.bypassed }
