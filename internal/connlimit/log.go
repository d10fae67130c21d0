package connlimit

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// every is how often a log hears of what goes on and on: who reads it wants to know once, and later that it is still
// so. A peer that is turned away and comes again does so ten times a second. A counter has each.
const every = time.Minute

const (
	// Burst is how many equal lines are told before the rest is only counted: a few hosts with a wrong certificate are
	// each named.
	Burst = 8
	// maxKinds bounds what is remembered, in case kinds are named by strangers. Those beyond share one.
	maxKinds = 256
)

// Log keeps a log from being flooded. The zero value is ready: it tells one line of a kind in Every.
type Log struct {
	Burst int // lines of a kind in Every; 0 is 1. Immutable

	mu   sync.Mutex
	told map[string]*period // by kind
}

// period is the time in which a bounded number of lines of one kind is told.
type period struct {
	began  time.Time
	told   int
	untold int
}

// Tell says whether to tell of what has happened now, and how often the like has happened untold since it was told
// last.
func (l *Log) Tell(kind string, now time.Time) (untold int, yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.told[kind]; !known && len(l.told) >= maxKinds {
		kind = ""
	}
	w := l.told[kind]
	if w == nil {
		if l.told == nil {
			l.told = map[string]*period{}
		}
		w = &period{began: now}
		l.told[kind] = w
	}
	if now.Sub(w.began) >= every {
		untold = w.untold
		*w = period{began: now}
	}
	if w.told >= max(l.Burst, 1) {
		w.untold++
		return 0, false
	}
	w.told++
	return untold, true
}

// TellRest tells how much is still untold, a line for each kind: for the end of whatever was logged, so that nobody
// takes a few lines for all.
func (l *Log) TellRest(log *slog.Logger) {
	rest := l.rest()
	for _, kind := range slices.Sorted(maps.Keys(rest)) {
		log.Warn("more lines such as this were not told", "line", kind, "more_such", rest[kind])
	}
}

// rest takes out what is still untold, by kind.
func (l *Log) rest() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := map[string]int{}
	for kind, w := range l.told {
		if w.untold > 0 {
			rest[kind] = w.untold
			w.untold = 0
		}
	}
	return rest
}
