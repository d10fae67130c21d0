package stopwatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestStill(t *testing.T) {
	var s StallDetector
	at := func(sec int) time.Time { return time.Unix(int64(1000+sec), 0) }
	for _, step := range []struct {
		at    int
		count uint64
		want  time.Duration
	}{{0, 7, 0}, {5, 7, 5 * time.Second}, {6, 8, 0}, {9, 8, 3 * time.Second}, {10, 0, 0}, {70, 0, time.Minute}} {
		if got := s.Observe(at(step.at), step.count); got != step.want {
			t.Errorf("at %d s with %d: still for %v, not %v", step.at, step.count, got, step.want)
		}
	}
}

func TestWhileMoving(t *testing.T) {
	for name, moves := range map[string]int{"never": 0, "for a while": 40} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n, notified atomic.Uint64
				began := time.Now()
				ctx, cancel := WithStallTimeout(t.Context(), 2*time.Second, n.Load, func() { notified.Add(1) })
				for range moves {
					time.Sleep(time.Second)
					n.Add(1)
				}
				<-ctx.Done()
				var still *StallError
				if took := time.Since(began).Round(time.Second); !errors.As(context.Cause(ctx), &still) ||
					took != time.Duration(moves+2)*time.Second {
					t.Errorf("it ended after %v with %v", took, context.Cause(ctx))
				}
				cancel()
				if notified.Load() != uint64(moves) {
					t.Errorf("it moved %d times, and was told %d times", moves, notified.Load())
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Uint64
		ctx, cancel := WithStallTimeout(t.Context(), time.Hour, n.Load, nil)
		cancel() // and no goroutine is left
		if !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Error(context.Cause(ctx))
		}
	})
}

func TestEveryEndsOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		end := RunEvery(time.Second, func() { calls++ })
		time.Sleep(3500 * time.Millisecond)
		end()
		if calls != 3 {
			t.Errorf("%d calls, not 3", calls)
		}
		time.Sleep(5 * time.Second)
		if calls != 3 {
			t.Errorf("%d calls after the end", calls-3)
		}
	})
}
