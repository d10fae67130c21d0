package cluster

import "ringlet/internal/registry"

// EventKind of an event.
type EventKind uint8

// The kinds.
const (
	memberJoined    EventKind = iota + 1 // joined, or came back
	memberChanged                        // changed its metadata
	memberWithdrawn                      // announced that it leaves
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

// enqueue queues an event for delivery. mu is held. The queue has no bound of its own: it grows only while OnEvent
// blocks, with the changes of members, which gossip bounds.
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

// deliverEvents calls OnEvent with events one by one, without a lock, until Close, and then with those still queued.
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
