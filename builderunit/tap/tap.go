package tap

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/event/selection"
)

// How an event gets to a viewer:
//
//	1 IsDue (the builder unit's finisher)  no viewer is due yet: Skip
//	2 Offer (the builder unit's finisher)  reads the MEP; each viewer's picker names events; each is copied once for all
//	                                       viewers, and put into the queues that have space
//	3 AppendEvents (a viewer's goroutine)  empties the queue
//
// The MEP belongs to the builder unit, and the tap does not read it after Offer. A copied event never changes.

// Bounds.
const (
	// maxViewers of one builder unit bounds what the viewers cost together.
	maxViewers = 256
	// maxQueuedEvents and maxQueuedBytes bound one viewer's queue: more than a viewer that reads ten times a second lets
	// wait at the highest rate of a selection.
	maxQueuedEvents = 4096
	maxQueuedBytes  = 16 << 20
	// fragmentOverhead is about what a fragment takes in a queue beside its data, in bytes.
	fragmentOverhead = 48
)

// Tap is where viewers look at built events. A nil Tap never has viewers.
type Tap struct {
	// atomic
	viewers atomic.Pointer[[]*Viewer] // nil: no viewers. The slice never changes
	counters
	builtEvents atomic.Uint64 // events that were built while there were viewers
	nextDue     atomic.Int64  // ns since began: before this, no viewer is due for an event

	began time.Time // immutable

	offerMu sync.Mutex // guards the fields below, the pickers of viewers, and changes of viewers
	packet  selection.Packet
	copies  []copiedEvent // events of the present MEP, for all viewers
}

// copiedEvent is an event of the MEP that is being offered, by its index.
type copiedEvent struct {
	index   int
	hasData bool
	event   selection.Event
}

// counters are those of a Tap, and of one Viewer.
type counters struct{ queued, dropped, unreadable atomic.Uint64 }

// Stats are the counters of a Tap.
type Stats struct {
	Viewers        int    `kind:"level" help:"viewers that look at built events now"`
	ShownEvents    uint64 `count:"events" help:"built events that were shown to viewers, counted once for each viewer"`
	DroppedEvents  uint64 `count:"dropped" help:"built events that a viewer did not get since its queue was full"`
	UnreadableMEPs uint64 `count:"unreadable" help:"MEPs that could not be read for viewers"`
}

// New makes a Tap without viewers.
func New() *Tap { return &Tap{began: time.Now()} }

// HasViewers tells whether there are viewers. It costs one atomic load.
func (t *Tap) HasViewers() bool { return t != nil && t.viewers.Load() != nil }

// IsDue tells whether a viewer is due for an event at a time. If none is, the caller need not offer the MEP, but counts
// it with Skip. It costs one atomic load.
func (t *Tap) IsDue(now time.Time) bool { return int64(now.Sub(t.began)) >= t.nextDue.Load() }

// Skip counts the events of a MEP that is not offered.
func (t *Tap) Skip(events int) { t.builtEvents.Add(uint64(events)) }

// Offer shows a built MEP to the viewers, at a time not after now. It does not wait for them, and does not read the
// bytes after it returns; no other goroutine may write them meanwhile.
func (t *Tap) Offer(now time.Time, meta selection.Meta, mep []byte) {
	if !t.HasViewers() {
		return
	}
	t.offerMu.Lock()
	defer t.offerMu.Unlock()
	viewers := t.viewers.Load()
	if viewers == nil {
		return
	}
	if err := t.packet.Parse(meta, mep); err != nil {
		t.unreadable.Add(1)
		for _, v := range *viewers {
			v.unreadable.Add(1)
		}
		return
	}
	at := t.builtEvents.Load()
	t.builtEvents.Add(uint64(t.packet.NumEvents()))
	due := time.Duration(math.MaxInt64)
	for _, v := range *viewers {
		before := v.picker.Counts()
		v.picker.Pick(now, &t.packet, at, func(i int) { t.enqueue(v, i) })
		if c := v.picker.Counts(); c != before {
			v.picked.Store(c.Picked)
			v.skipped.Store(c.Skipped)
		}
		due = min(due, v.picker.NextDue().Sub(t.began))
	}
	t.nextDue.Store(int64(due))
	clear(t.copies) // the viewers own these events now
	t.copies = t.copies[:0]
}

// enqueue puts event i into a viewer's queue, or drops it.
func (t *Tap) enqueue(v *Viewer, i int) {
	if len(v.queue) == cap(v.queue) || v.bytes.Load() >= maxQueuedBytes { // not worth the copy
		t.countDropped(v)
		return
	}
	e := v.selection.TrimEvent(t.copyEvent(i, v.selection.NeedsData()))
	size := eventBytes(&e)
	if v.bytes.Add(size) > maxQueuedBytes && size < v.bytes.Load() {
		v.bytes.Add(-size)
		t.countDropped(v)
		return
	}
	select {
	case v.queue <- e:
		t.queued.Add(1)
		v.queued.Add(1)
	default:
		v.bytes.Add(-size)
		t.countDropped(v)
	}
}

func (t *Tap) countDropped(v *Viewer) {
	t.dropped.Add(1)
	v.dropped.Add(1)
}

// copyEvent copies event i of the MEP, once for all viewers that want it.
func (t *Tap) copyEvent(i int, data bool) selection.Event {
	k := slices.IndexFunc(t.copies, func(c copiedEvent) bool { return c.index == i && (c.hasData || !data) })
	if k < 0 {
		k = len(t.copies)
		t.copies = append(t.copies, copiedEvent{i, data, t.packet.Event(i, data)})
	}
	return t.copies[k].event
}

// eventBytes is how many bytes an event takes in a queue.
func eventBytes(e *selection.Event) int64 {
	n := len(e.Fragments) * fragmentOverhead
	for i := range e.Fragments {
		n += len(e.Fragments[i].Data)
	}
	return int64(n)
}

// Stats are the counters so far, all 0 for a nil Tap.
func (t *Tap) Stats() Stats {
	if t == nil {
		return Stats{}
	}
	s := Stats{ShownEvents: t.queued.Load(), DroppedEvents: t.dropped.Load(), UnreadableMEPs: t.unreadable.Load()}
	if viewers := t.viewers.Load(); viewers != nil {
		s.Viewers = len(*viewers)
	}
	return s
}

// tooManyViewersError says that the builder unit has as many viewers as it may have.
type tooManyViewersError struct{ Viewers int }

func (e *tooManyViewersError) Error() string {
	return fmt.Sprintf("%d viewers look at this builder unit, which is the most: end one of them", e.Viewers)
}
