package decision

import (
	"fmt"
	"time"

	"ringlet/filter"
	"ringlet/shmem"
)

// A result ring is where one builder unit writes its results to, one behind the other, and again from the beginning
// when it is full: so that results travel together which are not of events in a row, and so that each byte has one
// writer. The decision unit tells how many it has read; what has no place yet waits in the outbox.
//
//	1 addVerdict     (the builder unit)  verdicts on events in a row, with one answer
//	2 nextWrite      (sequential)        as many results as have places and fit a write
//	3 writeCompleted (parallel)          a write has its outcome
//	4 applyCredit    (a link's receiver) places are free again

const (
	maxRingCapacity    = 1 << 18 // RingCapacityFor of the largest packing is about half of it
	maxRuns            = 1 << 15 // verdicts that wait
	maxWrites          = 8       // under way at a time
	maxResultsPerWrite = 4096    // of a write: 64 KiB
)

// RingCapacityFor is how many results a ring must hold for MEPs of that many events: two writes and two MEPs, in whole
// pages.
func RingCapacityFor(packing int) int {
	const page = shmem.PageSize / ResultSize
	return (2*maxResultsPerWrite + 2*packing + page - 1) / page * page
}

// verdictRun is a verdict on events in a row.
type verdictRun struct {
	first         uint64
	events        uint32
	judgingMicros uint16
	verdict       filter.Verdict
}

// A Write is a remote write of results that nextWrite asks for.
type Write struct {
	Ref    shmem.Ref
	Offset uint32
	Data   []byte // must not change before writeCompleted; the outbox sees to that
	Cookie uint64
}

// OutboxStats count what became of results, on the side of the builder unit.
type OutboxStats struct {
	Judged          uint64 `count:"results_made" help:"results that the builder unit had for the decision unit"`
	Sent            uint64 `count:"results_sent" help:"results whose write has arrived at the decision unit"`
	Unacked         uint64 `count:"results_unheard" help:"results written when the decision unit was lost: nobody knows whether they arrived"`
	Dropped         uint64 `count:"results_dropped" help:"results that were not sent: too many waited, or there was no decision unit at the end"`
	AbandonedWrites uint64 `count:"result_writes_left" help:"writes of results that were under way as the run ended: nobody waits for them any more"`
	Unsent          uint64 `count:"results_waiting" kind:"level" help:"results that wait for the decision unit, or are under way; 0 after a run"`
}

// outbox is the pure core of the side that sends results. It is owned by one goroutine at a time.
type outbox struct {
	builder uint16

	runs       []verdictRun // a ring
	head, tail uint32

	ring           Message // the open one; Places 0: there is none
	ringGeneration uint32  // of the ring, so that outcomes of writes to one before are known
	ringData       []byte  // as the ring
	resultsWritten uint64  // results
	resultsRead    uint64  // by the decision unit
	resultsDone    uint64  // results whose writes have their outcome, and all before them
	writes         [maxWrites]struct {
		end      uint64 // 0: it is free
		finished bool
		n        uint32
	}
	oldest, newest uint32 // numbers of writes under way: [oldest, newest)

	stats OutboxStats
}

// newOutbox makes one.
func newOutbox(builder int) *outbox {
	return &outbox{builder: uint16(builder), runs: make([]verdictRun, maxRuns)}
}

// addVerdict takes a verdict on events in a row. False says that too many wait: it is dropped, and counted.
func (o *outbox) addVerdict(first uint64, n int, v filter.Verdict, took time.Duration) bool {
	o.stats.Judged += uint64(n)
	if o.tail-o.head == maxRuns || n < 1 {
		o.stats.Dropped += uint64(max(0, n))
		return false
	}
	o.runs[o.tail%maxRuns] = verdictRun{
		first:         first,
		events:        uint32(n),
		judgingMicros: clampMicros(took),
		verdict:       v,
	}
	o.tail++
	o.stats.Unsent += uint64(n)
	return true
}

// openRing takes where the ring is. What was under way to one before stays unacknowledged.
func (o *outbox) openRing(m Message) error {
	if m.Kind != KindOpen || m.RingCapacity == 0 || m.RingCapacity > maxRingCapacity {
		return fmt.Errorf("%w: it opens no ring of results", ErrMessage)
	}
	o.closeRing()
	// writes to the one before may still be read from there
	o.ring, o.ringData = m, make([]byte, int(m.RingCapacity)*ResultSize)
	return nil
}

// closeRing takes that the decision unit is gone. What waits waits for the next one.
func (o *outbox) closeRing() {
	for ; o.oldest != o.newest; o.oldest++ {
		w := &o.writes[o.oldest%maxWrites]
		if !w.finished {
			o.stats.Unacked += uint64(w.n)
			o.stats.Unsent -= uint64(w.n)
		}
	}
	o.ringGeneration = (o.ringGeneration + 1) & (1<<31 - 1) // the highest bit of a cookie is the caller's
	o.ring, o.ringData = Message{}, nil
	o.resultsWritten, o.resultsRead, o.resultsDone, o.oldest, o.newest = 0, 0, 0, 0, 0
}

// close gives up what is under way and what waits, and returns how many results were written into the ring.
func (o *outbox) close() (written uint64) {
	written = o.resultsWritten
	for i := o.oldest; i != o.newest; i++ {
		if !o.writes[i%maxWrites].finished {
			o.stats.AbandonedWrites++
		}
	}
	o.closeRing()
	o.dropWaiting()
	return written
}

// writeFailed takes that a write will have no outcome, since the link is over: so is the ring, if it is still that one.
func (o *outbox) writeFailed(cookie uint64) {
	if uint32(cookie>>32) == o.ringGeneration {
		o.closeRing()
	}
}

// nextWrite is the next write, if there is one that can be made now.
func (o *outbox) nextWrite() (w Write, ok bool) {
	places := uint64(o.ring.RingCapacity)
	if places == 0 || o.head == o.tail || o.newest-o.oldest == maxWrites {
		return w, false
	}
	at := o.resultsWritten % places
	n := min(places-(o.resultsWritten-min(o.resultsRead, o.resultsDone)), places-at, maxResultsPerWrite)
	b := o.ringData[at*ResultSize : at*ResultSize]
	for ; n > 0 && o.head != o.tail; n-- {
		r := &o.runs[o.head%maxRuns]
		one := Result{
			Event:      r.first,
			Builder:    o.builder,
			Decision:   r.verdict.Decision,
			Epoch:      o.ring.Epoch,
			Score:      r.verdict.Score,
			TookMicros: r.judgingMicros,
		}
		b = b[:len(b)+ResultSize]
		one.Put(b[len(b)-ResultSize:])
		r.first++
		if r.events--; r.events == 0 {
			o.head++
		}
	}
	if len(b) == 0 {
		return w, false
	}
	slot := &o.writes[o.newest%maxWrites]
	slot.n, slot.finished = uint32(len(b)/ResultSize), false
	o.resultsWritten += uint64(slot.n)
	slot.end = o.resultsWritten
	w = Write{
		Ref:    o.ring.Ref,
		Offset: uint32(at * ResultSize),
		Data:   b,
		Cookie: uint64(o.ringGeneration)<<32 | uint64(o.newest),
	}
	o.newest++
	return w, true
}

// writeCompleted takes the outcome of a write. One to a ring before means nothing.
func (o *outbox) writeCompleted(cookie uint64, err error) {
	number := uint32(cookie)
	if uint32(cookie>>32) != o.ringGeneration || number-o.oldest >= o.newest-o.oldest {
		return
	}
	w := &o.writes[number%maxWrites]
	if w.finished {
		return
	}
	w.finished = true
	o.stats.Unsent -= uint64(w.n)
	if err != nil {
		o.stats.Unacked += uint64(w.n)
	} else {
		o.stats.Sent += uint64(w.n)
	}
	for ; o.oldest != o.newest && o.writes[o.oldest%maxWrites].finished; o.oldest++ {
		o.resultsDone = o.writes[o.oldest%maxWrites].end
	}
}

// applyCredit takes how many results the decision unit has read of the ring.
func (o *outbox) applyCredit(m Message) error {
	switch {
	case m.Kind != KindCredit:
		return fmt.Errorf("%w: it gives no credit", ErrMessage)
	case o.ring.RingCapacity == 0 || m.Epoch != o.ring.Epoch:
		return nil // of a life before
	case m.Number > o.resultsWritten || m.Number < o.resultsRead:
		return fmt.Errorf("%w: credit for %d results, of %d that were written and %d that were read", ErrMessage, m.Number,
			o.resultsWritten, o.resultsRead)
	}
	o.resultsRead = m.Number
	return nil
}

// epoch is that of the open ring.
func (o *outbox) epoch() (epoch uint8, open bool) { return o.ring.Epoch, o.ring.RingCapacity > 0 }

// idle says that everything that can be sent has been.
func (o *outbox) idle() bool { return o.head == o.tail && o.oldest == o.newest }

// dropWaiting gives up what waits.
func (o *outbox) dropWaiting() {
	for ; o.head != o.tail; o.head++ {
		n := uint64(o.runs[o.head%maxRuns].events)
		o.stats.Dropped += n
		o.stats.Unsent -= n
	}
}

// snapshot gives the counters.
func (o *outbox) snapshot() OutboxStats { return o.stats }
