package decision

import (
	"fmt"
	"time"

	"ringlet/filter"
	"ringlet/shmem"
)

// A result ring is the memory of the decision unit in which one builder unit writes its results one after the other,
// and again from the beginning when it is full. So results that travel together need not be of consecutive events, and
// each byte has one writer. The decision unit reports how many results it has read; results without a place wait in
// the outbox.
//
//	1 addVerdict     (the builder unit)  adds a verdict on consecutive events
//	2 nextWrite      (sequential)        returns as many results as have places and fit into a write
//	3 writeCompleted (parallel)          a write has its outcome
//	4 applyCredit    (a link's receiver) places are free again

const (
	maxRingCapacity    = 1 << 18 // RingCapacityFor of the largest packing is about half of it
	maxRuns            = 1 << 15 // verdicts that may wait
	maxWrites          = 8       // under way at a time
	maxResultsPerWrite = 4096    // of a write: 64 KiB
)

// RingCapacityFor returns how many results a ring must hold for MEPs of packing events: two writes and two MEPs, in
// whole pages.
func RingCapacityFor(packing int) int {
	const page = shmem.PageSize / ResultSize
	return (2*maxResultsPerWrite + 2*packing + page - 1) / page * page
}

// verdictRun is one verdict on consecutive events.
type verdictRun struct {
	first         uint64
	events        uint32
	judgingMicros uint16
	verdict       filter.Verdict
}

// A Write is a remote write of results that nextWrite returns.
type Write struct {
	Ref    shmem.Ref
	Offset uint32
	Data   []byte // must not change before writeCompleted; the outbox ensures that
	Cookie uint64
}

// OutboxStats count the results of a builder unit by their outcome.
type OutboxStats struct {
	Judged          uint64 `count:"results_made" help:"results that the builder unit had for the decision unit"`
	Sent            uint64 `count:"results_sent" help:"results whose write has arrived at the decision unit"`
	Unacked         uint64 `count:"results_unheard" help:"results under way when the decision unit was lost"`
	Dropped         uint64 `count:"results_dropped" help:"results not sent: too many waited, or there was no decision unit at the end"`
	AbandonedWrites uint64 `count:"result_writes_left" help:"writes of results without an outcome when the run ended"`
	Unsent          uint64 `count:"results_waiting" kind:"level" help:"results that wait for the decision unit, or are under way; 0 after a run"`
}

// outbox is the pure core of the sending side. One goroutine at a time owns it.
type outbox struct {
	builder uint16

	runs       []verdictRun // a ring buffer
	head, tail uint32

	ring           Message // the Open of the ring; RingCapacity 0: there is none
	ringGeneration uint32  // counts rings, so that outcomes of writes to earlier rings are recognised
	ringData       []byte  // the bytes of the ring, as written
	resultsWritten uint64  // results
	resultsRead    uint64  // by the decision unit
	resultsDone    uint64  // results whose writes, and all writes before, have their outcome
	writes         [maxWrites]struct {
		end      uint64 // 0: it is free
		finished bool
		n        uint32
	}
	oldest, newest uint32 // numbers of writes under way: [oldest, newest)

	stats OutboxStats
}

func newOutbox(builder int) *outbox {
	return &outbox{builder: uint16(builder), runs: make([]verdictRun, maxRuns)}
}

// addVerdict adds a verdict on n consecutive events. False: too many wait, and the verdict is dropped and counted.
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

// openRing begins with a new ring. Writes under way to the one before count as unacknowledged.
func (o *outbox) openRing(m Message) error {
	if m.Kind != KindOpen || m.RingCapacity == 0 || m.RingCapacity > maxRingCapacity {
		return fmt.Errorf("%w: kind %d with a ring of %d results, not kind %d with 1 to %d", ErrMessage, m.Kind,
			m.RingCapacity, KindOpen, maxRingCapacity)
	}
	o.closeRing()
	// a new slice: writes under way may still read the old one
	o.ring, o.ringData = m, make([]byte, int(m.RingCapacity)*ResultSize)
	return nil
}

// closeRing notes that the decision unit is gone. Waiting verdicts wait for the next one.
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

// close gives up writes under way and waiting verdicts, and returns how many results were written into the ring.
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

// writeFailed notes that a write will have no outcome, since the link is over: then its ring is closed, too.
func (o *outbox) writeFailed(cookie uint64) {
	if uint32(cookie>>32) == o.ringGeneration {
		o.closeRing()
	}
}

// nextWrite returns the next write, if one is possible now.
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

// writeCompleted notes the outcome of a write. It ignores writes to earlier rings.
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

// applyCredit notes how many results of the ring the decision unit has read.
func (o *outbox) applyCredit(m Message) error {
	switch {
	case m.Kind != KindCredit:
		return fmt.Errorf("%w: it is of kind %d, and credit is of kind %d", ErrMessage, m.Kind, KindCredit)
	case o.ring.RingCapacity == 0 || m.Epoch != o.ring.Epoch:
		return nil // from an earlier epoch
	case m.Number > o.resultsWritten || m.Number < o.resultsRead:
		return fmt.Errorf("%w: it says that %d results were read: %d were written, %d were read before", ErrMessage, m.Number,
			o.resultsWritten, o.resultsRead)
	}
	o.resultsRead = m.Number
	return nil
}

// epoch returns the epoch of the open ring.
func (o *outbox) epoch() (epoch uint8, open bool) { return o.ring.Epoch, o.ring.RingCapacity > 0 }

// idle says that no verdict waits and no write is under way.
func (o *outbox) idle() bool { return o.head == o.tail && o.oldest == o.newest }

// dropWaiting drops the waiting verdicts.
func (o *outbox) dropWaiting() {
	for ; o.head != o.tail; o.head++ {
		n := uint64(o.runs[o.head%maxRuns].events)
		o.stats.Dropped += n
		o.stats.Unsent -= n
	}
}

// snapshot returns the counters.
func (o *outbox) snapshot() OutboxStats { return o.stats }
