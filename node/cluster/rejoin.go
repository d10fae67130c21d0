package cluster

import (
	"net"
	"slices"
	"time"
)

const (
	// rejoinInterval is how often a node checks whether it must join again.
	rejoinInterval = time.Second
	// strainedInterval is the time between two joins of a node that gets few answers although the last join found it
	// listed.
	strainedInterval = 10 * time.Second
	// strainedScore is memberlist's health score from which more than one probe went unanswered: 0 is well, 7 the worst.
	// A busy member may miss one answer.
	strainedScore = 2
	// confirmTries is how often a node that others have given up checks at once whether they list it again.
	confirmTries = 5
)

// rejoinLoop joins again in two cases: the members that this node joined were gone and come back, like a control
// between two runs; or members have given this node up while its link was cut. In the second case they say so in an
// exchange of state, which would otherwise happen only by chance.
func (c *Cluster) rejoinLoop() {
	tick := time.NewTicker(rejoinInterval)
	defer tick.Stop()
	var listed time.Time // when a member last listed this node
	for {
		select {
		case <-c.stop:
			return
		case <-tick.C:
		}
		if !needsJoin(c.hasMemberAt(c.cfg.Join), c.list.GetHealthScore(), time.Since(listed)) {
			continue
		}
		if c.joinUntilListed() {
			listed = time.Now()
		}
	}
}

// needsJoin tells whether to join again: connected says that a node at a Join address is a member, score how badly
// gossip is answered, and since how long ago this node was last listed.
func needsJoin(connected bool, score int, since time.Duration) bool {
	return !connected || score >= strainedScore && since >= strainedInterval
}

// joinUntilListed joins until a member lists this node: a member that has given it up says so first, and notes its
// objection next.
func (c *Cluster) joinUntilListed() bool {
	confirm := confirmRetry
	for range confirmTries {
		why := c.tryJoin()
		if why == nil {
			return true
		}
		c.log.Debug("the members to join do not list this node", "join", c.cfg.Join, "err", why)
		if why.Why == joinUnreachable {
			return false
		}
		select {
		case <-c.stop:
			return false
		case <-time.After(confirm):
		}
		confirm *= 4
	}
	return false
}

// hasMemberAt tells whether a member has one of the addresses.
func (c *Cluster) hasMemberAt(addrs []string) bool {
	c.mu.Lock()
	members := make([]string, 0, len(c.members))
	for name, m := range c.members {
		if name != c.cfg.Name {
			members = append(members, m.Addr.String())
		}
	}
	c.mu.Unlock()
	for _, a := range addrs {
		resolved, err := net.ResolveTCPAddr("tcp", a)
		if err == nil && slices.Contains(members, resolved.AddrPort().String()) {
			return true
		}
	}
	return false
}
