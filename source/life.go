package source

import (
	"fmt"
	"time"

	"ringlet/source/live"
)

// defaultRequire is how long a start waits for a source that the run requires, unless its option says it.
const defaultRequire = 30 * time.Second

// SourceLife is how far a live source is in the life of the run.
type SourceLife struct {
	SourceID uint16
	live.LifeStatus
}

// AwaitsFrontends says that a start waits for front-ends of these sources.
func AwaitsFrontends(inputs []Input) bool {
	for i := range inputs {
		if o := &inputs[i].Options; o.Require > 0 || o.StartsLast {
			return true
		}
	}
	return false
}

// Group is a part of the live sources of a run.
type Group uint8

// Groups. The value is that of the node service.
const (
	AllSources Group = iota
	NotStartingLast
	StoppingFirst
)

// Includes says whether a source with these options is in the group.
func (g Group) Includes(o *Options) bool {
	switch g {
	case NotStartingLast:
		return !o.StartsLast
	case StoppingFirst:
		return o.StopsFirst
	}
	return true
}

// Want says where the run wants sources: Prepare, Begin, Pause or End. Sources that were opened on hold are read from
// the first Begin on. It does not wait.
func (l *Live) Want(c live.Command, of Group) {
	l.mu.Lock()
	if c != live.Prepare && l.onHold {
		l.onHold = false
		l.changed.Broadcast()
	}
	closed := l.closed
	l.mu.Unlock()
	for _, in := range l.intakes {
		if f, ok := in.feed.(live.Follower); ok && !closed && of.Includes(&in.options) {
			f.Want(c)
		}
	}
}

// Lives returns how far each source is whose front-end may follow the run, in order of source id.
func (l *Live) Lives() (out []SourceLife) {
	for i, in := range l.intakes {
		if f, ok := in.feed.(live.Follower); ok {
			out = append(out, SourceLife{uint16(l.firstSource + i), f.Life()})
		}
	}
	return out
}

// awaitHold waits while the sources are on hold, and reports meanwhile what is safe. mu is held.
func (in *intake) awaitHold() {
	for in.live.onHold && !in.live.intakeStopped() {
		in.live.changed.Wait()
	}
}

// maxRequire is the longest time that a start may wait for a source.
const maxRequire = time.Hour

// parseRequire reads the option require: how long a start waits for the source, or nothing.
func parseRequire(text string) (time.Duration, error) {
	if text == "" {
		return defaultRequire, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > maxRequire {
		return 0, fmt.Errorf("require=%s is no time between 1s and 1h: a start waits so long for the front-end", text)
	}
	return d, nil
}

// MaxConfig is the largest part of the configuration that a front-end may be given, in bytes.
const MaxConfig = 32 << 10
