package connlimit

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// logInterval is how often a log hears of what goes on and on: who reads it wants to know once, and later that it is
// still so. A peer that is turned away and comes again does so ten times a second. A counter has each.
const logInterval = time.Minute

const (
	// Burst is how many equal lines are logged before the rest is only counted: a few hosts with a wrong certificate are
	// each named.
	Burst = 8
	// maxKinds bounds what is remembered, in case kinds are named by strangers. Those beyond share one.
	maxKinds = 256
)

// LogLimiter keeps a log from being flooded. The zero value is ready: it logs one line of a kind in an interval.
type LogLimiter struct {
	Burst int // lines of a kind in an interval; 0 is 1. Immutable

	mu      sync.Mutex
	periods map[string]*period // by kind
}

// period is the time in which a bounded number of lines of one kind is logged.
type period struct {
	began      time.Time
	logged     int
	unreported int
}

// Allow says whether to log what has happened now, and how often the like has happened unreported since it was logged
// last.
func (l *LogLimiter) Allow(kind string, now time.Time) (unreported int, yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.periods[kind]; !known && len(l.periods) >= maxKinds {
		kind = ""
	}
	w := l.periods[kind]
	if w == nil {
		if l.periods == nil {
			l.periods = map[string]*period{}
		}
		w = &period{began: now}
		l.periods[kind] = w
	}
	if now.Sub(w.began) >= logInterval {
		unreported = w.unreported
		*w = period{began: now}
	}
	if w.logged >= max(l.Burst, 1) {
		w.unreported++
		return 0, false
	}
	w.logged++
	return unreported, true
}

// LogUnreported logs how much is still unreported, a line for each kind: for the end of whatever was logged, so that
// nobody takes a few lines for all.
func (l *LogLimiter) LogUnreported(log *slog.Logger) {
	rest := l.takeUnreported()
	for _, kind := range slices.Sorted(maps.Keys(rest)) {
		log.Warn("more lines such as this were not told", "line", kind, "more_such", rest[kind])
	}
}

// takeUnreported takes out what is still unreported, by kind.
func (l *LogLimiter) takeUnreported() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := map[string]int{}
	for kind, w := range l.periods {
		if w.unreported > 0 {
			rest[kind] = w.unreported
			w.unreported = 0
		}
	}
	return rest
}
