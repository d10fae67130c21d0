package cluster

import (
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// memberlist tells its user that a node is gone, not whether it said so. So a node that leaves first tells every
// member, over TCP, and waits until each has taken note: then its departure is never mistaken for a failure. Messages,
// u8 kind · name:
const (
	msgLeaving byte = 'L' // the named node is about to leave
	msgNoted   byte = 'N' // the named node knows that the receiver leaves
)

// announceLeave tells the others and waits for their answers, Timing.Leave at most.
func (c *Cluster) announceLeave() {
	c.mu.Lock()
	var others []Member
	c.unacked = map[string]bool{}
	for name, m := range c.members {
		if name != c.cfg.Name {
			others = append(others, m)
			c.unacked[name] = true
		}
	}
	c.acked = make(chan struct{})
	acked := c.acked
	if len(others) == 0 {
		close(acked)
	}
	c.mu.Unlock()

	deadline := time.After(c.cfg.Timing.Leave)
	notice := append([]byte{msgLeaving}, c.cfg.Name...)
	var sending sync.WaitGroup
	for _, m := range others {
		sending.Go(func() {
			if err := c.list.SendReliable(memberlistNode(m), notice); err != nil {
				c.log.Debug("leaving: not told", "member", m.Name, "err", err)
				c.onLeaveAck(m.Name)
			}
		})
	}
	select {
	case <-acked:
	case <-deadline:
		c.log.Debug("leaving: not everyone answered")
	}
	// A send ends within Timing.Stream. Nothing of ours may run on after Close.
	sending.Wait()
}

// memberlistNode is the little of a memberlist node that sending needs. Those of memberlist itself change under its
// lock.
func memberlistNode(m Member) *memberlist.Node {
	return &memberlist.Node{Name: m.Name, Addr: m.Addr.Addr().AsSlice(), Port: m.Addr.Port()}
}

// receive handles what another member sent. It must not block.
func (c *Cluster) receive(b []byte) {
	if len(b) < 2 {
		c.counters.BadMessages.Add(1)
		return
	}
	name := string(b[1:])
	switch b[0] {
	case msgLeaving:
		c.mu.Lock()
		m, ok := c.members[name]
		if ok {
			c.leaving[name] = true
		}
		list := c.list
		c.mu.Unlock()
		if !ok || list == nil || name == c.cfg.Name {
			return // gone already, as far as we know
		}
		if err := list.SendBestEffort(memberlistNode(m), append([]byte{msgNoted}, c.cfg.Name...)); err != nil {
			c.log.Debug("leaving of a member: not answered", "member", name, "err", err)
		}
	case msgNoted:
		c.onLeaveAck(name)
	default:
		c.counters.BadMessages.Add(1)
	}
}

// onLeaveAck takes a member off those that Close waits for.
func (c *Cluster) onLeaveAck(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.unacked[name] {
		return
	}
	delete(c.unacked, name)
	if len(c.unacked) == 0 {
		close(c.acked)
	}
}
