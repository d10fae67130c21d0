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

// The way of an event to a viewer:
//
//	1 Due   (the builder unit's finisher)  no viewer may be shown anything before a time: Skip
//	2 Offer (the builder unit's finisher)  views the MEP; each viewer's picker names events; each is copied once for all
//	                                       viewers, and goes into the queues that have room
//	3 AppendEvents (a viewer's goroutine)  empties the queue
//
// The MEP is the builder unit's, and is not looked at after Offer. An event is nobody's to change once it is copied.

// Bounds.
const (
	// maxViewers of one builder unit: what they cost together is bounded.
	maxViewers = 256
	// maxQueuedEvents and maxQueuedBytes are what waits for one viewer at most: more than a viewer that is asked ten times
	// a second lets wait at the highest rate of a selection.
	maxQueuedEvents = 4096
	maxQueuedBytes  = 16 << 20
	// fragmentOverhead is what a fragment takes in a queue beside its data, about.
	fragmentOverhead = 48
)

// Tap is where viewers look. A nil Tap has none, and never will.
type Tap struct {
	// atomic
	viewers atomic.Pointer[[]*Viewer] // nil: nobody looks. What it points to is not changed
	counters
	builtEvents atomic.Uint64 // events that were built while somebody looked
	nextDue     atomic.Int64  // ns since began: no viewer may be shown an event before

	began time.Time // immutable

	offerMu sync.Mutex // guards what follows, the pickers of viewers, and changes of viewers
	packet  selection.Packet
	copies  []copiedEvent // of the events of this MEP, for all viewers
}

// copiedEvent is an event of the MEP that is offered, by its index.
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
	ShownEvents    uint64 `count:"events" help:"built events that were shown to viewers, each to each"`
	DroppedEvents  uint64 `count:"dropped" help:"built events that a viewer did not get since its queue was full"`
	UnreadableMEPs uint64 `count:"unreadable" help:"MEPs that could not be read for viewers"`
}

// New makes a Tap at which nobody looks.
func New() *Tap { return &Tap{began: time.Now()} }

// HasViewers says whether somebody looks. It costs one atomic load.
func (t *Tap) HasViewers() bool { return t != nil && t.viewers.Load() != nil }

// IsDue says whether a viewer may be shown an event at a time. If none may, the MEP need not be offered, but counted
// with Skip. It costs one atomic load too.
func (t *Tap) IsDue(now time.Time) bool { return int64(now.Sub(t.began)) >= t.nextDue.Load() }

// Skip counts the events of a MEP that is not offered.
func (t *Tap) Skip(events int) { t.builtEvents.Add(uint64(events)) }

// Offer shows a built MEP to the viewers at a time of now or before. It does not wait for them. The bytes are not
// looked at after it; nobody may write them meanwhile.
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
	clear(t.copies) // the viewers' alone from now on
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

// copyEvent copies event i of the MEP, once for all who want it.
func (t *Tap) copyEvent(i int, data bool) selection.Event {
	k := slices.IndexFunc(t.copies, func(c copiedEvent) bool { return c.index == i && (c.hasData || !data) })
	if k < 0 {
		k = len(t.copies)
		t.copies = append(t.copies, copiedEvent{i, data, t.packet.Event(i, data)})
	}
	return t.copies[k].event
}

// eventBytes is what an event takes in a queue, in bytes.
func eventBytes(e *selection.Event) int64 {
	n := len(e.Fragments) * fragmentOverhead
	for i := range e.Fragments {
		n += len(e.Fragments[i].Data)
	}
	return int64(n)
}

// Stats are the counters so far. Those of a nil Tap are 0.
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

// tooManyViewersError says that there are as many viewers as there may be.
type tooManyViewersError struct{ Viewers int }

// Error is a sentence.
func (e *tooManyViewersError) Error() string {
	return fmt.Sprintf("%d viewers look at this builder unit, which is the most: end one of them", e.Viewers)
}
