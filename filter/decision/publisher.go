package decision

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"ringlet/filter"
)

// Pipeline of a decision for the readout units:
//
//	1 Publish     (sequential: decideLoop)     packs decisions into spans once, and adds them to the delivery queue of
//	                                           each readout unit, under mu
//	2 sendPending (sequential: one goroutine)  signals the messages of all delivery queues, without a lock
//	3 ackReader   (parallel: a link's receiver each)  frees places for further messages
//
// No step allocates per decision, and none waits for a readout unit.

// publisher sends decisions to readout units. It is an Outlet.
type publisher struct {
	// immutable
	epoch    uint8
	signaler Signaler
	wake     chan struct{} // capacity 1
	ctx      context.Context
	stop     context.CancelFunc
	wg       sync.WaitGroup

	spans []numberedSpan // scratch of Publish

	mu          sync.Mutex // guards the fields below; not held during Signal
	readers     map[int]*deliveryQueue
	readerRanks []int // keys of readers, in the order in which they came
	closedStats DeliveryStats
}

// numberedSpan is a span and its first event.
type numberedSpan struct {
	first uint64
	Span
}

// publishInterval is the least time between two messages to a readout unit. It bounds the cost of sending: 1000
// messages/s to each readout unit that keeps up, about 1 µs each. In turn a decision reaches a readout unit, and frees
// memory there, up to this time later.
const publishInterval = time.Millisecond

func startPublisher(epoch uint8, signal Signaler) *publisher {
	t := &publisher{
		epoch:    epoch,
		signaler: signal,
		wake:     make(chan struct{}, 1),
		readers:  map[int]*deliveryQueue{},
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.wg.Go(t.run)
	return t
}

// addReader begins to send to a rank without a queue, from the next decision on.
func (t *publisher) addReader(rank int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readers[rank] = newDeliveryQueue(t.epoch)
	t.readerRanks = append(t.readerRanks, rank)
}

// removeReader stops sending to a rank.
func (t *publisher) removeReader(rank int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.readers[rank]
	if d == nil {
		return
	}
	t.closedStats.add(d.close())
	delete(t.readers, rank)
	for i, r := range t.readerRanks {
		if r == rank {
			// into a new array: run may be iterating over the old one
			t.readerRanks = append(t.readerRanks[:i:i], t.readerRanks[i+1:]...)
			break
		}
	}
}

// endReader notes that a rank has ended its part in the run, and has acknowledged all that it received.
func (t *publisher) endReader(rank int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.readers[rank]; d != nil {
		d.endReader()
	}
}

// ackReader notes how many messages a rank has received. False: the number is impossible.
func (t *publisher) ackReader(rank int, messages uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.readers[rank]
	if d == nil {
		return true // the rank was lost after it had sent this
	}
	t.notify()
	return d.ack(messages)
}

// Publish implements Outlet.
func (t *publisher) Publish(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.readers) == 0 {
		return
	}
	t.spans = t.spans[:0]
	for ; len(b) > 0; b = b[ResultSize:] {
		event, decision := binary.LittleEndian.Uint64(b)&(maxEventNumber-1), filter.Decision(b[8])
		if n := len(t.spans); n > 0 {
			if s := &t.spans[n-1]; s.Decision == decision && s.first+s.Events == event {
				s.Events++
				continue
			}
		}
		t.spans = append(t.spans, numberedSpan{event, Span{1, decision}})
	}
	for _, d := range t.readers {
		for _, s := range t.spans {
			d.add(s.first, s.Events, s.Decision)
		}
	}
	t.notify()
}

func (t *publisher) notify() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run sends messages until close.
func (t *publisher) run() {
	b := make([]byte, 0, MessageSize+maxSpans*spanSize)
	for {
		select {
		case <-t.wake:
		case <-t.ctx.Done():
			return
		}
		t.mu.Lock()
		ranks := t.readerRanks
		t.mu.Unlock()
		for _, rank := range ranks {
			t.sendPending(rank, b)
		}
		select {
		case <-time.After(publishInterval):
		case <-t.ctx.Done():
			return
		}
	}
}

// sendPending sends a rank all messages that it may get now.
func (t *publisher) sendPending(rank int, b []byte) {
	for {
		t.mu.Lock()
		var m []byte
		if d := t.readers[rank]; d != nil {
			m = d.nextMessage(b)
		}
		t.mu.Unlock()
		if m == nil {
			return
		}
		if t.signaler.Signal(rank, m) != nil {
			t.removeReader(rank) // the link is over, and RankLost will be called
			return
		}
	}
}

// close ends the sending: decisions that are not acknowledged are given up.
func (t *publisher) close() {
	t.stop()
	t.wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.readers {
		t.closedStats.add(d.close())
	}
	clear(t.readers)
	t.readerRanks = nil
}

// stats returns the counters so far.
func (t *publisher) stats() DeliveryStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.closedStats
	for _, d := range t.readers {
		s.add(d.stats)
	}
	return s
}
