package repeats

import (
	"sync"
	"time"
)

// Every is how often the log hears of what goes on and on: who reads it wants to know once, and later that it is
// still so.
const Every = time.Minute

// Log keeps a log from being flooded. The zero value is ready; any goroutine may use it.
type Log struct {
	mu   sync.Mutex
	told map[string]*repeat // by what is told
}

// repeat is one thing that was told.
type repeat struct {
	at   time.Time
	more int // times that it happened since, untold
}

// Tell says whether to tell of what has happened now, and how often it has happened untold since it was told last.
// The number of different words for what happens must be bounded: each is remembered.
func (l *Log) Tell(what string, now time.Time) (untold int, yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.told[what]
	if last != nil && now.Sub(last.at) < Every {
		last.more++
		return 0, false
	}
	if last != nil {
		untold = last.more
	}
	if l.told == nil {
		l.told = map[string]*repeat{}
	}
	l.told[what] = &repeat{at: now}
	return untold, true
}
