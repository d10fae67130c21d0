package transport

import (
	"fmt"
	"time"
)

// A carrier's connection lives as long as its small keep-alive packets pass. If the path drops the link's datagrams
// alone, the link and its writers would wait for ever. So watch checks every second for how long no ack has come for
// what was sent.

const (
	watchInterval = time.Second
	// defaultStuckTimeout is three times the time after which a silent peer counts as gone.
	defaultStuckTimeout = 15 * time.Second
)

// A stuckError says that this node ended a link although its connection lives.
type stuckError struct{ After time.Duration }

func (e *stuckError) Error() string {
	return fmt.Sprintf("nothing that was sent has arrived for %v, although the connection lives: check whether the path "+
		"still carries full packets (its MTU may have changed) and all UDP packets between the two nodes", e.After)
}

// watch ends the link when no ack has arrived for too long.
func (l *datagramEngine) watch() {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.down:
			return
		}
		l.mu.Lock()
		silent := time.Duration(l.core.SilentFor(monotonicNow()))
		l.mu.Unlock()
		if silent >= l.stuckTimeout {
			l.fail(&stuckError{After: silent.Round(time.Second)})
			return
		}
	}
}
