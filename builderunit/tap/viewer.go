package tap

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/event/selection"
)

// Viewer gets the events of a Tap that one selection picks, through a queue of its own. AppendEvents takes them out of
// the queue; only one goroutine at a time may call it.
type Viewer struct {
	// immutable after View
	tap         *Tap
	selection   selection.Selection
	builtBefore uint64 // events built before it was opened
	queue       chan selection.Event

	picker selection.Picker // guarded by tap.offerMu

	// atomic
	counters
	picked, skipped atomic.Uint64
	bytes           atomic.Int64 // of the events in the queue

	closing sync.Once
}

// OpenViewer adds a viewer. The error is a *tooManyViewersError.
func (t *Tap) OpenViewer(sel selection.Selection, now time.Time) (*Viewer, error) {
	t.offerMu.Lock()
	defer t.offerMu.Unlock()
	v := &Viewer{
		tap:         t,
		selection:   sel,
		builtBefore: t.builtEvents.Load(),
		queue:       make(chan selection.Event, maxQueuedEvents),
		picker:      selection.NewPicker(sel, now, t.builtEvents.Load()),
	}
	var viewers []*Viewer
	if was := t.viewers.Load(); was != nil {
		viewers = slices.Clone(*was)
	}
	if len(viewers) >= maxViewers {
		return nil, &tooManyViewersError{len(viewers)}
	}
	viewers = append(viewers, v)
	t.viewers.Store(&viewers)
	t.nextDue.Store(0)
	return v, nil
}

// Close removes the viewer and discards its queue. A second Close does nothing.
func (v *Viewer) Close() {
	v.closing.Do(func() {
		t := v.tap
		t.offerMu.Lock()
		defer t.offerMu.Unlock()
		viewers := slices.DeleteFunc(slices.Clone(*t.viewers.Load()), func(w *Viewer) bool { return w == v })
		if len(viewers) == 0 {
			t.viewers.Store(nil)
			return
		}
		t.viewers.Store(&viewers)
	})
}

// AppendEvents moves events from the queue to the end of a slice, and does not wait for any. It stops when they have
// the given number of bytes, so the last one may exceed it; of a queue that is not empty it takes at least one.
func (v *Viewer) AppendEvents(into []selection.Event, bytes int) []selection.Event {
	for n := 0; n < bytes; {
		select {
		case e := <-v.queue:
			size := eventBytes(&e)
			v.bytes.Add(-size)
			n += int(size)
			into = append(into, e)
		default:
			return into
		}
	}
	return into
}

// Counts says what happened to the events since the viewer was opened.
type Counts struct {
	selection.Counts
	Events     uint64 // events that were built
	Dropped    uint64 // events that were selected and had no room in the queue
	Unreadable uint64 // MEPs that could not be read
}

// Counts returns the counters so far.
func (v *Viewer) Counts() Counts {
	return Counts{
		Counts:     selection.Counts{Picked: v.picked.Load(), Skipped: v.skipped.Load()},
		Events:     v.tap.builtEvents.Load() - v.builtBefore,
		Dropped:    v.dropped.Load(),
		Unreadable: v.unreadable.Load(),
	}
}
