package transport

import (
	"fmt"
	"time"
)

// A connection lives as long as small packets of its own pass. A link whose datagrams do not would wait for ever, and
// so would whoever writes to it. So somebody looks, once in a while, for how long nothing has been heard of what was
// sent.

const (
	watchInterval = time.Second
	// stuckTimeout is three times as long as a silent peer is believed to live.
	stuckTimeout = 15 * time.Second
)

// A stuckError says that a link was given up although its connection lives.
type stuckError struct{ After time.Duration }

func (e *stuckError) Error() string {
	return fmt.Sprintf("nothing that was sent has arrived for %v, although the connection lives: look whether the path "+
		"still carries full packets (its MTU may have changed) and all UDP packets between the two nodes", e.After)
}

// watch gives the link up when nothing has arrived for too long.
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
		if silent >= max(stuckTimeout, l.minTimeout) {
			l.fail(&stuckError{After: silent.Round(time.Second)})
			return
		}
	}
}
