package tap

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/event/selection"
)

// Viewer is one who looks. Take is for one goroutine at a time.
type Viewer struct {
	// immutable after View
	tap       *Tap
	selection selection.Selection
	queue     chan selection.Event

	picker selection.Picker // guarded by tap.offering

	// atomic
	counters
	picked atomic.Pointer[selection.Counts]
	bytes  atomic.Int64 // of the queue

	closing sync.Once
}

// View begins to look. The error is a *FullError.
func (t *Tap) View(sel selection.Selection, now time.Time) (*Viewer, error) {
	v := &Viewer{
		tap:       t,
		selection: sel,
		queue:     make(chan selection.Event, queueEvents),
		picker:    selection.NewPicker(sel, now),
	}
	v.picked.Store(new(selection.Counts))
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*Viewer
	if was := t.viewers.Load(); was != nil {
		all = slices.Clone(*was)
	}
	if len(all) >= maxViewers {
		return nil, &FullError{len(all)}
	}
	all = append(all, v)
	t.viewers.Store(&all)
	return v, nil
}

// Close ends it. What is in the queue is let go. A second Close does nothing.
func (v *Viewer) Close() {
	v.closing.Do(func() {
		t := v.tap
		t.mu.Lock()
		defer t.mu.Unlock()
		all := slices.DeleteFunc(slices.Clone(*t.viewers.Load()), func(w *Viewer) bool { return w == v })
		if len(all) == 0 {
			t.viewers.Store(nil)
			return
		}
		t.viewers.Store(&all)
	})
}

// Take appends events of the queue to a slice, without waiting for any: not more than about so many bytes, but one event
// at least if there is one.
func (v *Viewer) Take(into []selection.Event, bytes int) []selection.Event {
	for n := 0; n < bytes; {
		select {
		case e := <-v.queue:
			size := weight(&e)
			v.bytes.Add(-size)
			n += int(size)
			into = append(into, e)
		default:
			return into
		}
	}
	return into
}

// Counts are what became of events for one viewer, since it came.
type Counts struct {
	selection.Counts
	Dropped    uint64 // events that were picked and had no room in the queue
	Unreadable uint64 // MEPs that could not be read
}

// Counts so far.
func (v *Viewer) Counts() Counts {
	return Counts{Counts: *v.picked.Load(), Dropped: v.dropped.Load(), Unreadable: v.unreadable.Load()}
}
