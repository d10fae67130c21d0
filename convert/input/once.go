package input

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// spansMost bounds what Once holds of all sources together, 16 bytes each.
const spansMost = 2 << 20

// span is events that follow each other, both ends among them.
type span struct{ first, last uint64 }

// sourceKey is whose events spans are: the fragments of a source, or the marks of those that did not come.
type sourceKey struct {
	source uint16
	marks  bool
}

// eventSpans is which events of a source inputs have.
type eventSpans struct {
	earlier []span // of the inputs before this one: in order, apart from each other
	now     []span // of this one, as they came
}

// once knows which fragments the inputs before this one have. Numbers of events mostly follow each other, so it holds
// ranges of them.
type once struct {
	file  int // the input that is read
	seen  map[sourceKey]*eventSpans
	spans int
	most  int
}

func newOnce() *once { return &once{seen: map[sourceKey]*eventSpans{}, most: spansMost} }

// begin says which input is read from now on.
func (o *once) begin(file int) {
	if file == o.file {
		return
	}
	o.file, o.spans = file, 0
	for _, h := range o.seen {
		h.earlier, h.now = joined(append(h.earlier, h.now...)), nil
		o.spans += len(h.earlier)
	}
}

// record says whether an input before this one has a fragment, and keeps in mind that this one has it. A mark stands
// for a fragment that did not come, so an input has it, too, if it has the fragment; not the other way round.
func (o *once) record(source uint16, event uint64, mark bool) (again bool, err error) {
	if o.contains(sourceKey{source, false}, event) || mark && o.contains(sourceKey{source, true}, event) {
		return true, nil
	}
	h := o.seen[sourceKey{source, mark}]
	if h == nil {
		h = &eventSpans{}
		o.seen[sourceKey{source, mark}] = h
	}
	if n := len(h.now); n > 0 && event >= h.now[n-1].first && (event <= h.now[n-1].last || event == h.now[n-1].last+1) {
		h.now[n-1].last = max(event, h.now[n-1].last)
		return false, nil
	}
	h.now = append(h.now, span{event, event})
	o.spans++
	return false, o.bound()
}

// contains says whether an input before this one has an event of a source.
func (o *once) contains(whose sourceKey, event uint64) bool {
	h := o.seen[whose]
	if h == nil {
		return false
	}
	i, _ := slices.BinarySearchFunc(h.earlier, event, func(s span, e uint64) int { return cmp.Compare(s.last, e) })
	return i < len(h.earlier) && h.earlier[i].first <= event
}

// bound joins what follows each other when there are too many spans. If that does not free a quarter, it gives up: each
// next time would come sooner.
func (o *once) bound() error {
	if o.spans <= o.most {
		return nil
	}
	o.spans = 0
	for _, h := range o.seen {
		h.now = joined(h.now)
		o.spans += len(h.earlier) + len(h.now)
	}
	if o.spans > o.most-o.most/4 {
		return fmt.Errorf("--once cannot keep in mind which fragments the inputs have: their event numbers have more "+
			"than %d gaps; give it fewer runs at a time", o.most-o.most/4)
	}
	return nil
}

// joined puts spans in order, and joins those that overlap or follow each other.
func joined(s []span) []span {
	slices.SortFunc(s, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	kept := s[:0]
	for _, one := range s {
		if n := len(kept); n > 0 && (one.first <= kept[n-1].last || one.first-1 == kept[n-1].last) {
			kept[n-1].last = max(kept[n-1].last, one.last)
			continue
		}
		kept = append(kept, one)
	}
	return kept
}

// passed takes nothing: with it Each goes once more through what an earlier conversion has done.
type passed struct{ until Position }

// errPassed says that all of it is passed.
var errPassed = errors.New("passed")

func (*passed) Row(*Row) error      { return nil }
func (*passed) Bad(*BadError) error { return nil }
func (*passed) Dropped(uint16)      {}
func (p *passed) Done(next Position, _ int64) error {
	if next == p.until {
		return errPassed
	}
	return nil
}
