package stopwatch

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// StallDetector tells for how long a count has not changed. It has no clock. The zero StallDetector begins with the
// first call of Observe.
type StallDetector struct {
	lastCount  uint64
	lastChange time.Time
}

// Observe takes the count at the time now, and returns for how long it has had this value.
func (s *StallDetector) Observe(now time.Time, count uint64) time.Duration {
	if s.lastChange.IsZero() || count != s.lastCount {
		s.lastCount, s.lastChange = count, now
	}
	return now.Sub(s.lastChange)
}

// A StallError is the cause of a context that ended since a count did not change.
type StallError struct{ StalledFor time.Duration }

func (e *StallError) Error() string { return fmt.Sprintf("nothing has moved for %v", e.StalledFor) }

// checkInterval is how often WithStallTimeout reads the count: short against its time-outs, which are seconds.
const checkInterval = 100 * time.Millisecond

// WithStallTimeout makes a context that ends with ctx, or when count has not changed for longest, then with a
// *StallError as its cause. It calls moved each time that it finds the count changed; moved may be nil. The caller must
// call the returned function: after that neither count nor moved is called.
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

// RunEvery calls do at an interval until the caller calls end. When end returns, do is not running and will not run
// again.
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
