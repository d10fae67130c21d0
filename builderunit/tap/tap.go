package tap

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/event/selection"
)

// The way of an event to a viewer:
//
//	1 IsDue (the builder unit's finisher)  false before the time of the next event for any viewer: Skip
//	2 Offer (the builder unit's finisher)  parses the MEP; each viewer's picker selects events; each is copied once for
//	                                       all viewers, and goes into the queues that have room
//	3 AppendEvents (a viewer's goroutine)  empties the queue
//
// The builder unit owns the MEP, which is not read after Offer. No goroutine changes an event once it is copied.

// Bounds.
const (
	// maxViewers is how many viewers one builder unit may have, which bounds what they cost together.
	maxViewers = 256
	// maxQueuedEvents and maxQueuedBytes bound what waits for one viewer: more than waits for a viewer that takes events
	// ten times a second at the highest rate of a selection.
	maxQueuedEvents = 4096
	maxQueuedBytes  = 16 << 20
	// fragmentOverhead is about how many bytes a fragment takes in a queue besides its data.
	fragmentOverhead = 48
)

// Tap shows built events to viewers. A nil Tap never has viewers.
type Tap struct {
	// atomic
	viewers atomic.Pointer[[]*Viewer] // nil: there are none. The slice is never changed, only replaced
	counters
	builtEvents atomic.Uint64 // events built while there were viewers
	nextDue     atomic.Int64  // ns since began: no viewer may be shown an event before

	began time.Time // immutable

	offerMu sync.Mutex // guards the fields below, the pickers of viewers, and changes of viewers
	packet  selection.Packet
	copies  map[copyKey]selection.Event // of events of this MEP, for all viewers
}

// copyKey names the copy of an event of the offered MEP: its index, and whether the copy has data.
type copyKey struct {
	index   int
	hasData bool
}

// counters are the counters of a Tap, or of one Viewer.
type counters struct{ queued, dropped, unreadable atomic.Uint64 }

// Stats are the counters of a Tap.
type Stats struct {
	Viewers        int    `kind:"level" help:"viewers that look at built events now"`
	ShownEvents    uint64 `count:"events" help:"built events shown to viewers, each to each"`
	DroppedEvents  uint64 `count:"dropped" help:"built events that a viewer missed: its queue was full"`
	UnreadableMEPs uint64 `count:"unreadable" help:"MEPs that could not be read for viewers"`
}

// New returns a Tap without viewers.
func New() *Tap { return &Tap{began: time.Now(), copies: map[copyKey]selection.Event{}} }

// HasViewers says whether there are viewers. It costs one atomic load.
func (t *Tap) HasViewers() bool { return t != nil && t.viewers.Load() != nil }

// IsDue says whether any viewer may be shown an event at a time. If not, the caller need not offer the MEP, but must
// count it with Skip. It costs one atomic load, too.
func (t *Tap) IsDue(now time.Time) bool { return int64(now.Sub(t.began)) >= t.nextDue.Load() }

// Skip counts the events of a MEP that is not offered.
func (t *Tap) Skip(events int) { t.builtEvents.Add(uint64(events)) }

// Offer shows a MEP that was built at or before now to the viewers. It does not wait for them. It does not read the
// bytes after it has returned; until then they must not change.
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
	clear(t.copies) // from now on only the viewers have them
}

// enqueue puts event i into a viewer's queue, or drops it.
func (t *Tap) enqueue(v *Viewer, i int) {
	if len(v.queue) == cap(v.queue) || v.bytes.Load() >= maxQueuedBytes { // it would be dropped after the copy
		t.countDropped(v)
		return
	}
	if v.selection.NeedsData() && t.packet.CopiedSize(i) > maxQueuedBytes {
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

// copyEvent returns a copy of event i of the MEP; with data, the copy has the bytes of the fragments. All viewers share
// one copy and must not change it: the first call makes the copy, later calls find it.
func (t *Tap) copyEvent(i int, data bool) selection.Event {
	if e, is := t.copies[copyKey{i, true}]; is {
		return e
	}
	e, is := t.copies[copyKey{i, false}]
	if is && !data {
		return e
	}
	e = t.packet.Event(i, data)
	t.copies[copyKey{i, data}] = e
	return e
}

// eventBytes returns how many bytes an event takes in a queue.
func eventBytes(e *selection.Event) int64 {
	n := len(e.Fragments) * fragmentOverhead
	for i := range e.Fragments {
		n += len(e.Fragments[i].Data)
	}
	return int64(n)
}

// Stats returns the counters so far. Those of a nil Tap are 0.
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

// tooManyViewersError says that there are maxViewers viewers already.
type tooManyViewersError struct{ Viewers int }

func (e *tooManyViewersError) Error() string {
	return fmt.Sprintf("%d viewers look at this builder unit, which is the most: end one of them", e.Viewers)
}
