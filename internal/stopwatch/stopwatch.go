package stopwatch

import (
	"sync"
	"time"
)

// Stopwatch adds up the time between Start and Stop of one goroutine. Any goroutine may read Total; it includes the
// time since a Start without Stop, so that a wait that does not end is seen while it lasts.
type Stopwatch struct {
	mu           sync.Mutex // guards the fields below
	total        time.Duration
	runningSince time.Time // zero: stopped
}

// Start starts the stopwatch.
func (w *Stopwatch) Start() {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runningSince = now
}

// Stop stops it; a second Stop has no effect.
func (w *Stopwatch) Stop() {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.runningSince.IsZero() {
		w.total += now.Sub(w.runningSince)
	}
	w.runningSince = time.Time{}
}

// Total is the time so far, the current one included.
func (w *Stopwatch) Total() time.Duration {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runningSince.IsZero() {
		return w.total
	}
	return w.total + now.Sub(w.runningSince)
}
