package cluster

import (
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// memberlist reports that a node is gone, but not whether it announced that. So a node that leaves first sends a
// message to every member, over TCP, and waits for their acknowledgements: then no member takes its departure for a
// failure. Messages, u8 kind · name:
const (
	msgLeaving    byte = 'L' // the named node is about to leave
	msgLeaveNoted byte = 'N' // the named node has noted that the receiver leaves
)

// announceLeave announces that this node leaves, and waits for the acknowledgements, Timing.LeaveTimeout at most.
func (c *Cluster) announceLeave() {
	c.mu.Lock()
	var others []Member
	c.leaveUnacked = map[string]bool{}
	for name, m := range c.members {
		if name != c.cfg.Name {
			others = append(others, m)
			c.leaveUnacked[name] = true
		}
	}
	c.leaveAcked = make(chan struct{})
	acked := c.leaveAcked
	if len(others) == 0 {
		close(acked)
	}
	c.mu.Unlock()

	deadline := time.After(c.cfg.Timing.LeaveTimeout)
	notice := append([]byte{msgLeaving}, c.cfg.Name...)
	var sending sync.WaitGroup
	for _, m := range others {
		sending.Go(func() {
			if err := c.list.SendReliable(memberlistNode(m), notice); err != nil {
				c.log.Debug("leaving: a member could not be notified", "member", m.Name, "err", err)
				c.onLeaveAck(m.Name)
			}
		})
	}
	select {
	case <-acked:
	case <-deadline:
		c.log.Debug("leaving: not every member has acknowledged it")
	}
	// A send ends within Timing.StreamTimeout. No goroutine of this package may run on after Close.
	sending.Wait()
}

// memberlistNode has the fields of a memberlist node that sending needs. memberlist changes its own nodes under its
// lock.
func memberlistNode(m Member) *memberlist.Node {
	return &memberlist.Node{Name: m.Name, Addr: m.Addr.Addr().AsSlice(), Port: m.Addr.Port()}
}

// handleMessage handles a message of another member. It must not block.
func (c *Cluster) handleMessage(b []byte) {
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
			c.leavingMembers[name] = true
		}
		list := c.list
		c.mu.Unlock()
		if !ok || list == nil || name == c.cfg.Name {
			return // to this node the member is gone already
		}
		if err := list.SendBestEffort(memberlistNode(m), append([]byte{msgLeaveNoted}, c.cfg.Name...)); err != nil {
			c.log.Debug("leaving of a member: not answered", "member", name, "err", err)
		}
	case msgLeaveNoted:
		c.onLeaveAck(name)
	default:
		c.counters.BadMessages.Add(1)
	}
}

// onLeaveAck notes that a member has acknowledged, or need not be waited for.
func (c *Cluster) onLeaveAck(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.leaveUnacked[name] {
		return
	}
	delete(c.leaveUnacked, name)
	if len(c.leaveUnacked) == 0 {
		close(c.leaveAcked)
	}
}
