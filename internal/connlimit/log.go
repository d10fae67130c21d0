package connlimit

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// logInterval is how often a repeated event is logged again. A refused peer, for example, may come back ten times a
// second: its first line and one a minute tell the reader enough. Counters count each.
const logInterval = time.Minute

const (
	// Burst is how many lines of a kind are logged in an interval before the rest is only counted: if a few hosts have a
	// wrong certificate, the log names each.
	Burst = 8
	// maxKinds bounds the memory, since strangers may choose the kinds. Further kinds share one.
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

// Allow says whether the caller should log a line of a kind now, and how many such lines it has suppressed since the
// last one that was logged.
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

// LogUnreported logs how many lines of each kind were suppressed and not reported yet. The caller calls it at the end,
// so that a reader of the log does not take the few lines for all.
func (l *LogLimiter) LogUnreported(log *slog.Logger) {
	rest := l.takeUnreported()
	for _, kind := range slices.Sorted(maps.Keys(rest)) {
		log.Warn("more lines such as this were not logged", "line", kind, "more_such", rest[kind])
	}
}

// takeUnreported returns the suppressed lines that are not reported yet, by kind, and counts them as reported.
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
