package core

import (
	"maps"
	"slices"
)

// What units keep for a successor of their scheduler.

// A TokenLog keeps the tokens of a readout unit whose MEPs may have no outcome, for Recall.Tokens. Its zero value is
// empty. It keeps the lists of the batches that it gets.
type TokenLog struct {
	batches []keptBatch   // in order; the first ones may be dropped
	single  []PlacedToken // tokens of dropped batches whose MEPs were held up, and earlier ones
	count   uint64        // tokens in all batches so far
}

type keptBatch struct {
	Batch
	below uint64 // every MEP in it is below
}

// AddEarlier adds tokens of cycles before the first batch.
func (l *TokenLog) AddEarlier(all []PlacedToken) { l.single = append(l.single, all...) }

// Add adds a batch, and drops what is no longer needed: MEPs below released have their outcome, but those held up.
func (l *TokenLog) Add(b Batch, released uint64, heldUp []uint64) {
	if b.Len() > 0 {
		k := keptBatch{Batch: b}
		for _, mep := range b.MEPs {
			if mep != NoMEP {
				l.count++
				k.below = max(k.below, mep+1)
			}
		}
		l.batches = append(l.batches, k)
	}
	n := 0
	for n < len(l.batches) && l.batches[n].below <= released {
		if len(heldUp) > 0 {
			l.single = l.batches[n].appendTokens(l.single, func(mep uint64) bool { return isIn(heldUp, mep) })
		}
		n++
	}
	l.batches = slices.Delete(l.batches, 0, n)
	l.single = slices.DeleteFunc(l.single, func(t PlacedToken) bool { return t.MEP < released && !isIn(heldUp, t.MEP) })
}

func isIn(sorted []uint64, mep uint64) bool {
	_, found := slices.BinarySearch(sorted, mep)
	return found
}

// appendTokens appends the tokens of a batch whose MEPs are wanted.
func (b *Batch) appendTokens(to []PlacedToken, wanted func(mep uint64) bool) []PlacedToken {
	for i := range b.Len() {
		for place := range b.PlacesPerCycle {
			if t, ok := b.Token(i, place); ok && wanted(t.MEP) {
				to = append(to, PlacedToken{Token: t, Cycle: b.FirstCycle + uint64(i)})
			}
		}
	}
	return to
}

// Tokens returns the tokens that are kept, and how many there were in all.
func (l *TokenLog) Tokens() (all []PlacedToken, count uint64) {
	all = slices.Clone(l.single)
	for i := range l.batches {
		all = l.batches[i].appendTokens(all, func(uint64) bool { return true })
	}
	return all, l.count
}

// A CutLog keeps the cuts of a readout unit whose MEPs may have no outcome, for Recall.Cuts. Its zero value has not
// begun.
type CutLog struct {
	next    *CutPosition      // nil: not begun
	cuts    []Cut             // of the MEPs before next.MEP
	earlier map[uint64]uint32 // events of MEPs before those, by MEP
	before  uint64            // events in the MEPs before the first
}

// Begin sets the position of the first cut, and the tokens of earlier MEPs.
func (l *CutLog) Begin(at CutPosition, earlier []PlacedToken) {
	l.next, l.before, l.earlier = &at, at.EventsBefore, map[uint64]uint32{}
	for _, t := range earlier {
		l.earlier[t.MEP] = t.Events
	}
}

// Next is the position of the next cut; nil before Begin.
func (l *CutLog) Next() *CutPosition { return l.next }

// Add adds cuts, and drops what is no longer needed: MEPs below released have their outcome, but those held up.
func (l *CutLog) Add(cuts []Cut, released uint64, heldUp []uint64) {
	if l.next == nil {
		return
	}
	l.cuts = append(l.cuts, cuts...)
	next := l.next.After(cuts)
	l.next = &next
	first := next.MEP - uint64(len(l.cuts))
	n := int(min(max(released, first)-first, uint64(len(l.cuts))))
	for i, c := range l.cuts[:n] {
		if mep := first + uint64(i); isIn(heldUp, mep) {
			l.earlier[mep] = c.Events
		}
	}
	l.cuts = slices.Delete(l.cuts, 0, n)
	maps.DeleteFunc(l.earlier, func(mep uint64, _ uint32) bool { return mep < released && !isIn(heldUp, mep) })
}

// Recall fills in what a successor needs to know, also of the tokens that the Recall has.
func (l *CutLog) Recall(r *Recall) {
	if l.next == nil {
		return
	}
	r.NextCut, r.Cuts, r.EventsBefore = l.next, slices.Clone(l.cuts), l.before
	first := l.next.MEP - uint64(len(l.cuts))
	for i := range r.Tokens {
		t := &r.Tokens[i]
		if t.MEP >= first && t.MEP < l.next.MEP {
			t.Events = l.cuts[t.MEP-first].Events
		} else {
			t.Events = l.earlier[t.MEP]
		}
	}
}

// An OutcomeLog keeps the last outcomes of a builder unit in a run, for Recall.Outcomes: those of which a successor of
// the scheduler may not hear from readout units. It drops an outcome when both are true:
//
//   - a MEP has been built since whose number is a window higher. Its token was issued when the MEP of the outcome was
//     below the released watermark, and the readout units that live were told so, at the latest with that token;
//   - the unit has had more outcomes since than it has slots. So one was of a token that the scheduler issued after it
//     had taken this outcome, and a MEP that was held up is held up no more.
//
// Outcomes are dropped block by block.
type OutcomeLog struct {
	window uint64
	slots  int
	blocks []outcomeBlock // the oldest first
	kept   int            // outcomes in all blocks
	newest uint64         // highest MEP number so far
	totals OutcomeTotals
}

type outcomeBlock struct {
	outcomes []Feedback // never more than its capacity
	newest   uint64     // highest MEP number when the last one came
}

// maxOutcomeBlock is the number of outcomes in a block, where the window is not small.
const maxOutcomeBlock = 256

// NewOutcomeLog makes a log for a builder unit with a number of slots. window is at least how many MEPs there may be
// between the released watermark and the next MEP.
func NewOutcomeLog(window, slots int) *OutcomeLog {
	return &OutcomeLog{window: uint64(max(1, window)), slots: max(1, slots)}
}

// Add adds an outcome.
func (l *OutcomeLog) Add(f Feedback) {
	if l.last() == nil || len(l.last().outcomes) == cap(l.last().outcomes) {
		l.addBlock()
	}
	b := l.last()
	l.newest = max(l.newest, f.MEP)
	b.outcomes, b.newest = append(b.outcomes, f), l.newest
	l.kept++
	l.totals.add(f, 1)
}

// last is the newest block; nil if there is none.
func (l *OutcomeLog) last() *outcomeBlock {
	if len(l.blocks) == 0 {
		return nil
	}
	return &l.blocks[len(l.blocks)-1]
}

// addBlock adds an empty block, with the memory of the oldest one if that is no longer needed.
func (l *OutcomeLog) addBlock() {
	var memory []Feedback
	for len(l.blocks) > 0 && l.newest-l.blocks[0].newest >= l.window && l.kept-len(l.blocks[0].outcomes) > l.slots {
		memory = l.blocks[0].outcomes
		l.kept -= len(memory)
		l.blocks = slices.Delete(l.blocks, 0, 1)
	}
	if memory == nil {
		memory = make([]Feedback, 0, max(1, min(maxOutcomeBlock, l.window/16)))
	}
	l.blocks = append(l.blocks, outcomeBlock{outcomes: memory[:0]})
}

// Forget removes the last n outcomes: the scheduler may not have taken them before it excluded the unit.
func (l *OutcomeLog) Forget(n int) {
	for n = min(n, l.kept); n > 0; {
		b := l.last()
		from := len(b.outcomes) - min(n, len(b.outcomes))
		for _, f := range b.outcomes[from:] {
			l.totals.add(f, ^uint64(0)) // minus one
			l.kept--
			n--
		}
		if b.outcomes = b.outcomes[:from]; from == 0 {
			l.blocks = l.blocks[:len(l.blocks)-1]
		}
	}
}

// Outcomes returns the outcomes that are kept, and how many there were in all.
func (l *OutcomeLog) Outcomes() (all []Feedback, totals OutcomeTotals) {
	for i := range l.blocks {
		all = append(all, l.blocks[i].outcomes...)
	}
	return all, l.totals
}
