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
//	1 Publish     (sequential: the pointer)  packed into spans once, added to the delivery queue of each readout
//	                                         unit, under mu
//	2 sendPending (sequential: one goroutine)  messages of all delivery queues, signalled without a lock
//	3 ackReader   (parallel: a link's receiver each)  places for further messages
//
// Nothing is allocated per decision, and nobody waits for a readout unit.

// publisher tells decisions to readout units. It is an Outlet.
type publisher struct {
	// immutable
	epoch    uint8
	signaler Signaler
	wake     chan struct{} // of one place
	ctx      context.Context
	stop     context.CancelFunc
	wg       sync.WaitGroup

	spans []numberedSpan // the pointer's scratch

	mu          sync.Mutex // guards what follows; never held while somebody is signalled
	readers     map[int]*deliveryQueue
	readerRanks []int // of to, in the order in which they came
	closedStats DeliveryStats
}

// numberedSpan is a span and its first event.
type numberedSpan struct {
	first uint64
	Span
}

// publishInterval bounds what telling costs: 1000 messages/s to each readout unit that is never behind, each of 1 µs or
// so. A readout unit that frees memory by decisions has it later by so much.
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

// addReader begins to tell a rank that is told nothing, with the decision that is made next.
func (t *publisher) addReader(rank int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readers[rank] = newDeliveryQueue(t.epoch)
	t.readerRanks = append(t.readerRanks, rank)
}

// removeReader takes that a rank hears nothing more.
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
			// a copy: the publisher may go through the one before
			t.readerRanks = append(t.readerRanks[:i:i], t.readerRanks[i+1:]...)
			break
		}
	}
}

// endReader takes that a rank has ended its part in the run, and said what it has heard.
func (t *publisher) endReader(rank int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.readers[rank]; d != nil {
		d.endReader()
	}
}

// ackReader takes how many messages a rank has heard. False: that cannot be.
func (t *publisher) ackReader(rank int, messages uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.readers[rank]
	if d == nil {
		return true // it was lost, and its word was on the way
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

// run tells until nobody wants to know any more.
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

// sendPending tells a rank all that it may be told now.
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
			t.removeReader(rank) // the link is over, which who watches it is told
			return
		}
	}
}

// close ends telling: what was not heard is given up.
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

// stats are the counters so far.
func (t *publisher) stats() DeliveryStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.closedStats
	for _, d := range t.readers {
		s.add(d.stats)
	}
	return s
}
