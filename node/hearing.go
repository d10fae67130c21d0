package node

import (
	"fmt"
	"sync"

	"ringlet/filter"
	"ringlet/filter/decision"
)

// hearing is how the readout unit of a node hears decisions. They come from one link.
type hearing struct {
	mu     sync.Mutex // guards what follows; held while the decision unit is answered, which never waits
	reader decision.Reader
}

var errElsewhere = fmt.Errorf("%w: the decision unit is on another node", decision.ErrMessage)

// open takes that a decision unit is there.
func (h *hearing) open(epoch uint8) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reader.Open(epoch)
}

// shut takes that it is gone, or that this node ends its part in the run: its word counts no more, and is not answered.
// What it told stands: a builder unit had said so.
func (h *hearing) shut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reader.Close()
}

// take takes a message with decisions, calls rejected with each row of rejected events, and answers.
func (h *hearing) take(b []byte, rejected func(first, events uint64), answer func(decision.Message)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, ok, err := h.reader.Receive(b, func(first uint64, s decision.Span) {
		if s.Decision == filter.Rejected {
			rejected(first, s.Events)
		}
	})
	if ok {
		answer(m)
	}
	return err
}

func (h *hearing) stats() decision.ReaderStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reader.Stats()
}

// heard takes decisions that the decision unit tells, and answers. The readout unit may not be there yet: one that
// comes back hears from its greeting on.
func (s *session) heard(rank int, b []byte) error {
	h, ru := s.deciding.hears.Load(), s.ru.Load()
	switch {
	case rank != s.deciding.rank:
		return errElsewhere
	case h == nil:
		return errNotHere
	}
	return h.take(b, func(first, events uint64) {
		if ru != nil {
			ru.HandleRejected(first, events)
		}
	}, s.signalDecision)
}
