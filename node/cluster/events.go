package cluster

import "ringlet/internal/registry"

// Kind of an event.
type Kind uint8

// The kinds.
const (
	joined    Kind = iota + 1 // came, or came back
	changed                   // says something else of itself
	withdrawn                 // said that it leaves
	failed                    // fell silent
)

func (k Kind) String() string {
	return registry.NameOf(k, "kind", "", "joined", "changed", "left", "failed")
}

// Event is a change of another member. It is a hint: see the package comment.
type Event struct {
	Kind   Kind
	Member Member // as it is now, or was last
}

// enqueue takes an event for delivery. The caller holds mu. The queue has no bound of its own: it grows with the
// changes of members, which gossip bounds, and only while the watcher sleeps.
func (c *Cluster) enqueue(e Event) {
	close(c.changed)
	c.changed = make(chan struct{})
	if e.Member.Name == c.cfg.Name || c.cfg.OnEvent == nil {
		return
	}
	c.queue = append(c.queue, e)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// deliver hands events to the watcher one by one, without a lock, until Close; what is queued by then is still handed
// over.
func (c *Cluster) deliver() {
	defer close(c.ended)
	for stopped := false; !stopped; {
		select {
		case <-c.wake:
		case <-c.stop:
			stopped = true
		}
		c.mu.Lock()
		batch := c.queue
		c.queue = nil
		c.mu.Unlock()
		for _, e := range batch {
			c.cfg.OnEvent(e)
		}
	}
}
