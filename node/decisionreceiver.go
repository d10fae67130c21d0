package node

import (
	"fmt"
	"sync"

	"ringlet/filter"
	"ringlet/filter/decision"
)

// decisionReceiver is how the readout unit of a node hears decisions. They come from one link.
type decisionReceiver struct {
	mu     sync.Mutex // guards what follows; held while the decision unit is answered, which never waits
	reader decision.Reader
}

var errOtherDecisionNode = fmt.Errorf("%w: the decision unit is on another node", decision.ErrMessage)

// connect takes that a decision unit is there.
func (h *decisionReceiver) connect(epoch uint8) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reader.Open(epoch)
}

// disconnect takes that it is gone, or that this node ends its part in the run: its word counts no more, and is not
// answered. What it told stands: a builder unit had said so.
func (h *decisionReceiver) disconnect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reader.Close()
}

// receive takes a message with decisions, calls rejected with each row of rejected events, and answers.
func (h *decisionReceiver) receive(b []byte, rejected func(first, events uint64), answer func(decision.Message)) error {
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

func (h *decisionReceiver) stats() decision.ReaderStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reader.Stats()
}

// receiveDecisions takes decisions that the decision unit tells, and answers. The readout unit may not be there yet:
// one that comes back hears from its greeting on.
func (s *session) receiveDecisions(rank int, b []byte) error {
	h, ru := s.decisions.receiver.Load(), s.ru.Load()
	switch {
	case rank != s.decisions.nodeRank:
		return errOtherDecisionNode
	case h == nil:
		return errNoSuchUnit
	}
	return h.receive(b, func(first, events uint64) {
		if ru != nil {
			ru.HandleRejected(first, events)
		}
	}, s.sendDecisionMessage)
}
