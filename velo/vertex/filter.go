package vertex

import (
	"errors"
	"fmt"
	"time"

	"ringlet/event/selection"
	"ringlet/filter"
	"ringlet/velo"
)

// errNoFragments refuses an event without a fragment of type velo.BankType.
var errNoFragments = errors.New("the event has no fragment of a vertex detector: the sources must be its boards")

// finderFilter is a Finder as a filter.Filter.
type finderFilter struct{ f *Finder }

// newFilter makes a Filter for one goroutine.
func newFilter(d *Detector) *finderFilter { return &finderFilter{NewFinder(d)} }

// Judge looks for a secondary vertex. It ignores the deadline, since the size of an event bounds its time.
func (f *finderFilter) Judge(_ time.Time, e *selection.Event) (filter.Verdict, error) {
	if _, _, err := f.f.AddEvent(e); err != nil {
		return filter.Verdict{}, err
	}
	r := f.f.Find(nil)
	return f.f.Verdict(&r), nil
}

// AddEvent begins a new event and adds all its boards. It ignores fragments of other types. An event without a board is
// an error.
func (f *Finder) AddEvent(e *selection.Event) (boards, clusters int, err error) {
	f.BeginEvent()
	for i := range e.Fragments {
		fragment := &e.Fragments[i]
		if fragment.Type != velo.BankType {
			continue
		}
		board, err := velo.ParseBoard(fragment.Data)
		if err == nil && board.Event() != uint16(e.Number) {
			err = fmt.Errorf("the fragment is of an event that ends with %d", board.Event())
		}
		if err == nil {
			err = f.AddBoard(board)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("event %d, source %d: %w", e.Number, fragment.Source, err)
		}
		boards++
		clusters += board.NumClusters()
	}
	if boards == 0 {
		return 0, 0, errNoFragments
	}
	return boards, clusters, nil
}
