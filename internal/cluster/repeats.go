package cluster

import (
	"sync"
	"time"
)

// tellEvery is how often the log hears of what goes on and on: a node under a taken name that is started again and again meets each member ten times
// a second, and who reads the log wants to know once, and later that it is still so. Counters has each.
const tellEvery = time.Minute

// repeats keeps a log from being flooded. The zero value is ready.
type repeats struct {
	mu   sync.Mutex
	told map[string]*repeat // by what is told: a kind, or the name of a member
}

// repeat is one thing that was told.
type repeat struct {
	at   time.Time
	more int // times that it happened since, untold
}

// tell says whether to tell of what has happened now, and how often it has happened untold since it was told last.
func (r *repeats) tell(what string, now time.Time) (untold int, yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.told[what]
	if last != nil && now.Sub(last.at) < tellEvery {
		last.more++
		return 0, false
	}
	if last != nil {
		untold = last.more
	}
	if r.told == nil {
		r.told = map[string]*repeat{}
	}
	r.told[what] = &repeat{at: now}
	return untold, true
}
