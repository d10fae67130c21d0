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
//	1 Hand   (sequential: the pointer)  packed into spans once, added to the digest of each readout unit, under mu
//	2 tell   (sequential: one goroutine)  messages of all digests, signalled without a lock
//	3 heard  (parallel: a link's receiver each)  places for further messages
//
// Nothing is allocated per decision, and nobody waits for a readout unit.

// teller tells decisions to readout units. It is an Outlet.
type teller struct {
	// immutable
	epoch  uint8
	signal Signaler
	wake   chan struct{} // of one place
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup

	spans []found // the pointer's scratch

	mu    sync.Mutex // guards what follows; never held while somebody is signalled
	to    map[int]*digest
	ranks []int // of to, in the order in which they came
	gone  TellStats
}

// found is a span and its first event.
type found struct {
	first uint64
	Span
}

// tellEvery bounds what telling costs: 1000 messages/s to each readout unit that is never behind, each of 1 µs or so. A
// readout unit that frees memory by decisions has it later by so much.
const tellEvery = time.Millisecond

func startTeller(epoch uint8, signal Signaler) *teller {
	t := &teller{
		epoch:  epoch,
		signal: signal,
		wake:   make(chan struct{}, 1),
		to:     map[int]*digest{},
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.wg.Go(t.run)
	return t
}

// open begins to tell a rank that is told nothing, with the decision that is made next.
func (t *teller) open(rank int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.to[rank] = newDigest(t.epoch)
	t.ranks = append(t.ranks, rank)
}

// lose takes that a rank hears nothing more.
func (t *teller) lose(rank int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.to[rank]
	if d == nil {
		return
	}
	t.gone.add(d.shut())
	delete(t.to, rank)
	for i, r := range t.ranks {
		if r == rank {
			t.ranks = append(t.ranks[:i:i], t.ranks[i+1:]...) // a copy: the teller may go through the one before
			break
		}
	}
}

// end takes that a rank has ended its part in the run, and said what it has heard.
func (t *teller) end(rank int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.to[rank]; d != nil {
		d.end()
	}
}

// heard takes how many messages a rank has heard. False: that cannot be.
func (t *teller) heard(rank int, messages uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.to[rank]
	if d == nil {
		return true // it was lost, and its word was on the way
	}
	t.poke()
	return d.hear(messages)
}

// Hand implements Outlet.
func (t *teller) Hand(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.to) == 0 {
		return
	}
	t.spans = t.spans[:0]
	for ; len(b) > 0; b = b[ResultSize:] {
		event, decision := binary.LittleEndian.Uint64(b)&(maxEvent-1), filter.Decision(b[8])
		if n := len(t.spans); n > 0 {
			if s := &t.spans[n-1]; s.Decision == decision && s.first+s.Events == event {
				s.Events++
				continue
			}
		}
		t.spans = append(t.spans, found{event, Span{1, decision}})
	}
	for _, d := range t.to {
		for _, s := range t.spans {
			d.add(s.first, s.Events, s.Decision)
		}
	}
	t.poke()
}

func (t *teller) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run tells until nobody wants to know any more.
func (t *teller) run() {
	b := make([]byte, 0, MessageSize+mostSpans*spanSize)
	for {
		select {
		case <-t.wake:
		case <-t.ctx.Done():
			return
		}
		t.mu.Lock()
		ranks := t.ranks
		t.mu.Unlock()
		for _, rank := range ranks {
			t.tell(rank, b)
		}
		select {
		case <-time.After(tellEvery):
		case <-t.ctx.Done():
			return
		}
	}
}

// tell tells a rank all that it may be told now.
func (t *teller) tell(rank int, b []byte) {
	for {
		t.mu.Lock()
		var m []byte
		if d := t.to[rank]; d != nil {
			m = d.message(b)
		}
		t.mu.Unlock()
		if m == nil {
			return
		}
		if t.signal.Signal(rank, m) != nil {
			t.lose(rank) // the link is over, which who watches it is told
			return
		}
	}
}

// close ends telling: what was not heard is given up.
func (t *teller) close() {
	t.stop()
	t.wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.to {
		t.gone.add(d.shut())
	}
	clear(t.to)
	t.ranks = nil
}

// stats are the counters so far.
func (t *teller) stats() TellStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.gone
	for _, d := range t.to {
		s.add(d.stats)
	}
	return s
}
