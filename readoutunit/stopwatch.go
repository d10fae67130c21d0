package readoutunit

import (
	"sync"
	"time"
)

// stopwatch adds up the time that one goroutine spends at something. Anybody may read it; what is under way counts too, so that a
// wait that does not end is seen while it lasts.
type stopwatch struct {
	mu    sync.Mutex // guards what follows
	total time.Duration
	since time.Time // zero: not at it
}

func (w *stopwatch) start() {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = now
}

// stop ends what start began; more than one stop is as one.
func (w *stopwatch) stop() {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.since.IsZero() {
		w.total += now.Sub(w.since)
	}
	w.since = time.Time{}
}

// turn starts or stops it.
func (w *stopwatch) turn(on bool) {
	if on {
		w.start()
	} else {
		w.stop()
	}
}

func (w *stopwatch) read() time.Duration {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		return w.total
	}
	return w.total + now.Sub(w.since)
}
