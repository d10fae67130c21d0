package input

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// spansMost is the most spans that Once keeps, of all sources together; each has 16 bytes.
const spansMost = 2 << 20

// span is the events from first to last.
type span struct{ first, last uint64 }

// sourceKey names a list of spans: the fragments of a source, or its marks of missing fragments.
type sourceKey struct {
	source uint16
	marks  bool
}

// eventSpans are the events of a source in the inputs.
type eventSpans struct {
	earlier []span // of earlier inputs: in order, with gaps between them
	now     []span // of the current input, in the order in which they were read
}

// once knows which fragments the earlier inputs have. It keeps ranges of event numbers, since numbers are mostly
// consecutive.
type once struct {
	file  int // index of the current input
	seen  map[sourceKey]*eventSpans
	spans int
	most  int
}

func newOnce() *once { return &once{seen: map[sourceKey]*eventSpans{}, most: spansMost} }

// begin sets the current input.
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

// record says whether an earlier input has a fragment, and records that the current one has it. A mark stands for a
// missing fragment: it counts as a repetition if an earlier input has the mark or the fragment itself. A fragment does
// not count as a repetition of a mark.
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

// contains says whether an earlier input has an event of a source.
func (o *once) contains(whose sourceKey, event uint64) bool {
	h := o.seen[whose]
	if h == nil {
		return false
	}
	i, _ := slices.BinarySearchFunc(h.earlier, event, func(s span, e uint64) int { return cmp.Compare(s.last, e) })
	return i < len(h.earlier) && h.earlier[i].first <= event
}

// bound joins adjacent spans when there are too many. If less than a quarter becomes free, it returns an error: it
// would have to join more and more often.
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

// joined sorts spans, and joins those that overlap or are adjacent.
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

// passed is a Consumer that ignores all rows: with it, Each reads again what a killed conversion had done.
type passed struct{ until Position }

// errPassed ends Each when passed has reached its position.
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
