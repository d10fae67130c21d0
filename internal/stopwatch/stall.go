package stopwatch

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// StallDetector tells for how long a count has not moved. It is a core without clock. The zero StallDetector begins
// with its first look.
type StallDetector struct {
	lastCount  uint64
	lastChange time.Time
}

// Observe takes the count at a time, and says for how long it has been what it is.
func (s *StallDetector) Observe(now time.Time, count uint64) time.Duration {
	if s.lastChange.IsZero() || count != s.lastCount {
		s.lastCount, s.lastChange = count, now
	}
	return now.Sub(s.lastChange)
}

// A StallError ends what was to go on while something moved.
type StallError struct{ StalledFor time.Duration }

func (e *StallError) Error() string { return fmt.Sprintf("nothing has moved for %v", e.StalledFor) }

// checkInterval is how often WithStallTimeout looks: nothing beside the seconds that it bears.
const checkInterval = 100 * time.Millisecond

// WithStallTimeout makes a context that ends when a count has not moved for so long, with a *StallError as its cause,
// or with ctx. It calls moved whenever the count has; nil: nobody wants to know. The caller must cancel it, after which
// neither function is called any more.
func WithStallTimeout(
	ctx context.Context, longest time.Duration, count func() uint64, moved func(),
) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(min(checkInterval, longest))
		defer tick.Stop()
		var s StallDetector
		s.Observe(time.Now(), count())
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				switch still := s.Observe(now, count()); {
				case still >= longest:
					cancel(&StallError{still})
				case still == 0 && moved != nil:
					moved()
				}
			}
		}
	}()
	return ctx, func() { cancel(nil); <-over }
}

// RunEvery calls do at an interval until what it returns is called, after which it is not called any more.
func RunEvery(interval time.Duration, do func()) (end func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				do()
			}
		}
	}()
	return sync.OnceFunc(func() { close(over); <-ended })
}
