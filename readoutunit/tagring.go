package readoutunit

import (
	"fmt"

	"ringlet/event/placing"
	"ringlet/tagnet"
)

// A Ring is an order in which the right to send passes from readout unit to readout unit, as tags.
type Ring interface {
	Order
	// Tag takes a tag. An error says what is wrong with it; it then had no effect.
	Tag(t *tagnet.Tag) error
	// Forward is the next tag that this unit is done with, to be passed on; each is given once.
	Forward() (tagnet.Tag, bool)
	// Bypassed is how many tags were passed on unserved since the unit was busy.
	Bypassed() uint64
}

// tagRing is the discipline of tokens that pass from sender to sender (TagNet-farm §III.D and §III.E). Tokens come
// ahead to all units, so that sizes are announced and windows granted when the tag comes: the token is the prefetched
// descriptor, the tag is the right to send. The unit serves tags in the order in which they come, and passes one on
// when its own write has its outcome. So the tag of a MEP is with one unit at a time, and its builder unit has one
// sender.
//
// A unit writes one MEP's part at a time: two would share its port, both tags would leave together, and stay together
// round the ring, while other ports idle. The next write begins when the outcome of the one before is here: its tag and
// its window mostly are.
//
// A tag that would wait long is passed on unserved where by-pass is allowed, and comes again; so tags may overtake one
// another. Without by-pass none does, so that the scheduler can check their order.
type tagRing struct {
	Transfers

	// immutable after newTagRing
	ru     int
	bypass bool
	visits []int // all builder units, in the order of their indices

	held     []heldTag // tags that are here, in the order they came
	next     int       // index of the first that waits to be served
	writing  bool      // a write is under way
	onward   []tagnet.Tag
	passed   int    // of onward
	bypassed uint64 // tags passed on unserved since the unit was busy
}

// heldTag is a tag at a readout unit. A tag may come before its token, and then waits for it.
type heldTag struct {
	tagnet.Tag
	done bool // served, or of a MEP that was withdrawn
}

// bypassHalves is how much work may be ahead of a tag that waits, in halves of its own part. A tag that is passed on
// loses its turn and a loop, so parts of ordinary size, of which one or two are ahead, are waited for. The 99th
// percentile with 4 units, in virtual time (2026-11-21): passing on whenever the unit writes, 18 % more than never; at
// 2½, 14 % less (a fifth of the load, one part in 150 five times as large).
const bypassHalves = 5

// newTagRing makes the order of readout unit ru for bus builder units with the given number of slots each.
func newTagRing(ru, bus, slots int, bypass bool) *tagRing {
	r := &tagRing{Transfers: newTransfers(bus, slots), ru: ru, bypass: bypass}
	for b := range bus {
		r.visits = append(r.visits, b)
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

// Visits implements Order.
func (r *tagRing) Visits() []int { return r.visits }

// Cycle implements Order. Its tokens may be those that tags wait for, and may have been withdrawn before they came.
func (r *tagRing) Cycle(b *tagnet.Batch, i int) error {
	first := r.end()
	if err := r.cycle(b, i, r.keep()); err != nil {
		return err
	}
	for i := range r.held {
		if h := &r.held[i]; h.Place >= first {
			if err := r.matches(&h.Tag); err != nil {
				return err
			}
		}
	}
	r.settle()
	return nil
}

// keep is the first place that a tag here stands for.
func (r *tagRing) keep() uint64 {
	keep := r.end()
	for i := range r.held {
		keep = min(keep, r.held[i].Place)
	}
	return keep
}

// Grant implements Order.
func (r *tagRing) Grant(bu int, g *placing.Grant) error {
	n, err := r.grant(bu, g)
	if err != nil || n == noPlace {
		return err
	}
	for i := range r.held {
		if r.held[i].Place == n && r.passes(i) {
			r.settle()
			break
		}
	}
	return nil
}

// Tag implements Ring.
func (r *tagRing) Tag(t *tagnet.Tag) error {
	if err := r.matches(t); err != nil {
		return err
	}
	for i := range r.held {
		if r.held[i].Place == t.Place {
			return &tagError{*t, r.bu(t), "it is here already"}
		}
	}
	r.held = append(r.held, heldTag{*t, t.Served.Has(r.ru)})
	r.passes(len(r.held) - 1)
	r.settle()
	return nil
}

func (r *tagRing) bu(t *tagnet.Tag) int { return int(t.Place % uint64(r.width)) }

// passes decides whether a tag that is here is passed on unserved, since it would wait for more than bypassHalves
// halves of its own part. It is asked when both the tag and its window are here: before, the part's size is not known,
// nor could it be served.
func (r *tagRing) passes(i int) bool {
	h := &r.held[i]
	if h.done || !r.bypass || h.Loop == tagnet.MaxLoops || h.Place < r.base || h.Place >= r.end() ||
		r.At(h.Place).Stage != stageGranted {
		return false
	}
	ahead := uint64(0)
	for k := range r.held[:i] {
		if x := &r.held[k]; !x.done && x.Place < r.end() {
			ahead += uint64(r.At(x.Place).Size)
		}
	}
	if 2*ahead <= bypassHalves*uint64(r.At(h.Place).Size) {
		return false
	}
	h.done = true
	r.bypassed++
	return true
}

// matches tells whether a tag is of a token that came, or is still to come.
func (r *tagRing) matches(t *tagnet.Tag) error {
	if t.Place < r.base || t.Place >= r.end() {
		return nil // it is over, or not here yet
	}
	if x := r.At(t.Place); x.Stage == stageEmpty || x.MEP != t.MEP || x.Slot != t.Slot || x.Attempt != t.Attempt {
		return &tagError{*t, r.bu(t), "no token says so"}
	}
	return nil
}

// Withdraw implements Order. The tags of what was withdrawn are passed on all the same, for the scheduler to check.
func (r *tagRing) Withdraw(w tagnet.Withdrawal) {
	r.Transfers.Withdraw(w)
	r.unhold()
}

// Lose implements Order.
func (r *tagRing) Lose(bu int) {
	r.Transfers.Lose(bu)
	r.unhold()
}

// unhold lets go on what waited for a write that is left.
func (r *tagRing) unhold() {
	r.writing = false
	for i := range r.held {
		if h := &r.held[i]; !h.done && h.Place >= r.base && h.Place < r.end() && r.At(h.Place).Stage == stageSent {
			r.writing = true
		}
	}
	r.settle()
}

// settle finds the first tag that waits to be served, and passes on what can be.
func (r *tagRing) settle() {
	kept := r.held[:0]
	r.next = -1
	for _, h := range r.held {
		if !h.done && r.gone(&h.Tag) {
			h.done = true
			if r.Lost(r.bu(&h.Tag)) { // the scheduler may not know yet, and takes no tag that is not served
				h.Served.Add(r.ru)
			}
		}
		if h.done && (r.bypass || len(kept) == 0) {
			r.onward = append(r.onward, h.Tag)
			continue
		}
		if r.next < 0 && r.waits(&h) {
			r.next = len(kept)
		}
		kept = append(kept, h)
	}
	if r.held = kept; r.next < 0 {
		r.next = len(kept)
	}
}

// gone tells that a tag's transfer is done with, without having been served for it.
func (r *tagRing) gone(t *tagnet.Tag) bool {
	return t.Place < r.base || t.Place < r.end() && r.At(t.Place).Stage >= stageLeft
}

func (r *tagRing) waits(h *heldTag) bool {
	return !h.done && (h.Place >= r.end() || r.At(h.Place).Stage < stageSent)
}

// Turn implements Order.
func (r *tagRing) Turn() (Turn, uint64) {
	switch {
	case r.next == len(r.held) && r.Open() == 0:
		return ForToken, 0
	case r.next == len(r.held) || r.held[r.next].Place >= r.end():
		return ForTag, 0
	}
	n := r.held[r.next].Place
	switch {
	case r.At(n).Stage == stageAnnounced:
		return ForGrant, n
	case r.writing:
		return ForWrite, n
	}
	return Send, n
}

// Serve implements Order: one part at a time.
func (r *tagRing) Serve(n uint64, _ int, places []uint64) []uint64 {
	r.write(n)
	r.writing = true
	for r.next < len(r.held) && !r.waits(&r.held[r.next]) {
		r.next++
	}
	return append(places, n)
}

// Complete implements Order: the tag may be passed on.
func (r *tagRing) Complete(places []uint64) error {
	for _, n := range places {
		left := n >= r.base && n < r.end() && r.At(n).Stage == stageLeft
		if err := r.Transfers.Complete([]uint64{n}); err != nil {
			return err
		}
		if !left { // else its tag has gone on
			r.served(n)
		}
	}
	return nil
}

// served passes on the tag of a transfer that is done.
func (r *tagRing) served(n uint64) {
	r.writing = false
	for i := range r.held {
		if h := &r.held[i]; h.Place == n {
			h.done = true
			h.Served.Add(r.ru)
		}
	}
	r.settle()
}

// Passed implements Order; there are no phases.
func (r *tagRing) Passed(int) {}

// Forward implements Ring.
func (r *tagRing) Forward() (tagnet.Tag, bool) {
	if r.passed == len(r.onward) {
		r.onward, r.passed = r.onward[:0], 0
		return tagnet.Tag{}, false
	}
	r.passed++
	return r.onward[r.passed-1], true
}

// Bypassed implements Ring.
func (r *tagRing) Bypassed() uint64 { return r.bypassed }
