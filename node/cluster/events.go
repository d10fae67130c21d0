package cluster

import "ringlet/internal/registry"

// EventKind of an event.
type EventKind uint8

// The kinds.
const (
	memberJoined    EventKind = iota + 1 // came, or came back
	memberChanged                        // says something else of itself
	memberWithdrawn                      // said that it leaves
	memberFailed                         // fell silent
)

func (k EventKind) String() string {
	return registry.NameOf(k, "kind", "", "joined", "changed", "left", "failed")
}

// Event is a change of another member. It is a hint: see the package comment.
type Event struct {
	Kind   EventKind
	Member Member // as it is now, or was last
}

// enqueue takes an event for delivery. The caller holds mu. The queue has no bound of its own: it grows with the
// changes of members, which gossip bounds, and only while the watcher sleeps.
func (c *Cluster) enqueue(e Event) {
	close(c.membersChanged)
	c.membersChanged = make(chan struct{})
	if e.Member.Name == c.cfg.Name || c.cfg.OnEvent == nil {
		return
	}
	c.eventQueue = append(c.eventQueue, e)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// deliverEvents hands events to the watcher one by one, without a lock, until Close; what is queued by then is still
// handed over.
func (c *Cluster) deliverEvents() {
	defer close(c.ended)
	for stopped := false; !stopped; {
		select {
		case <-c.wake:
		case <-c.stop:
			stopped = true
		}
		c.mu.Lock()
		batch := c.eventQueue
		c.eventQueue = nil
		c.mu.Unlock()
		for _, e := range batch {
			c.cfg.OnEvent(e)
		}
	}
}
