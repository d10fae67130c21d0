package decision

import (
	"context"
	"errors"
	"sync"
	"time"

	"ringlet/filter"
)

// Sender sends the verdicts of a builder unit to the decision unit. It never makes the builder unit wait: verdicts
// that cannot be sent are counted.
type Sender struct {
	// immutable
	write func(Write) error // may wait; may call WriteCompleted
	wake  chan struct{}     // capacity 1
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu     sync.Mutex // guards what follows
	outbox *outbox
}

// NewSender returns the Sender of a builder unit. The caller then passes messages by HandleMessage and each verdict by
// AddVerdict, and at the end calls Flush and Close.
func NewSender(builder int, write func(Write) error) *Sender {
	s := &Sender{write: write, wake: make(chan struct{}, 1), outbox: newOutbox(builder)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.wg.Go(s.send)
	return s
}

// AddVerdict adds a verdict on n events from first on.
func (s *Sender) AddVerdict(first uint64, n int, v filter.Verdict, took time.Duration) {
	s.mu.Lock()
	s.outbox.addVerdict(first, n, v, took)
	s.mu.Unlock()
	s.notify()
}

// HandleMessage handles a message of the decision unit.
func (s *Sender) HandleMessage(m Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.notify()
	if m.Kind == KindOpen {
		return s.outbox.openRing(m)
	}
	return s.outbox.applyCredit(m)
}

// UnitLost notes that the decision unit is gone. Another one may come.
func (s *Sender) UnitLost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outbox.closeRing()
}

// WriteCompleted notes the outcome of a write.
func (s *Sender) WriteCompleted(cookie uint64, err error) {
	s.mu.Lock()
	s.outbox.writeCompleted(cookie, err)
	s.mu.Unlock()
	s.notify()
}

func (s *Sender) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Sender) send() {
	for {
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return
		}
		for s.ctx.Err() == nil {
			s.mu.Lock()
			w, ok := s.outbox.nextWrite()
			s.mu.Unlock()
			if !ok {
				break
			}
			if err := s.write(w); err != nil { // the link is over, and with it the decision unit
				s.mu.Lock()
				s.outbox.writeFailed(w.Cookie)
				s.mu.Unlock()
			}
		}
	}
}

var errUnsent = errors.New("results did not reach the decision unit")

// Flush waits until all results have arrived, as long as there is a decision unit.
func (s *Sender) Flush(ctx context.Context) error {
	for {
		s.mu.Lock()
		idle := s.outbox.idle()
		_, open := s.outbox.epoch()
		s.mu.Unlock()
		switch {
		case idle:
			return nil
		case !open || ctx.Err() != nil:
			return errUnsent
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}

// Close stops the Sender, and returns how many results it wrote into the open ring. It counts unsent results as
// dropped.
func (s *Sender) Close() (written uint64) {
	s.stop()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outbox.close()
}

// Stats returns the counters so far.
func (s *Sender) Stats() OutboxStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outbox.snapshot()
}
