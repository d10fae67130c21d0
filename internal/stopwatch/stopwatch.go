package stopwatch

import (
	"sync"
	"time"
)

// Stopwatch adds up the time that one goroutine spends at something. Anybody may read it; what is under way counts too,
// so that a wait that does not end is seen while it lasts.
type Stopwatch struct {
	mu           sync.Mutex // guards what follows
	total        time.Duration
	runningSince time.Time // zero: not at it
}

// Start begins.
func (w *Stopwatch) Start() {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runningSince = now
}

// Stop ends what Start began; more than one stop is as one.
func (w *Stopwatch) Stop() {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.runningSince.IsZero() {
		w.total += now.Sub(w.runningSince)
	}
	w.runningSince = time.Time{}
}

// Total is the time so far.
func (w *Stopwatch) Total() time.Duration {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runningSince.IsZero() {
		return w.total
	}
	return w.total + now.Sub(w.runningSince)
}
