package cluster

import (
	"net"
	"slices"
	"time"
)

const (
	// rejoinInterval is how often a node looks whether it should join again.
	rejoinInterval = time.Second
	// strainedInterval is how long a node that goes on getting no answers leaves between two exchanges which showed that
	// the others have it.
	strainedInterval = 10 * time.Second
	// strainedScore is the score from which on gossip is not answered by more than one: 0 is well, 7 the worst. A busy
	// member is not answered once.
	strainedScore = 2
	// confirmTries is how often a node that is given up elsewhere asks at once whether its objection was heard.
	confirmTries = 5
)

// rejoinLoop finds the way back when those that this node joined are gone and come again, as a control does between two
// runs, and when they have given this node up while its link was cut: they tell it then in answer to an exchange, and
// otherwise when chance has them exchange all state with it.
func (c *Cluster) rejoinLoop() {
	tick := time.NewTicker(rejoinInterval)
	defer tick.Stop()
	var listed time.Time // when somebody last had this node in its list
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

// needsJoin says whether to join again: known says that somebody who was joined is a member, score how badly gossip is
// answered, and since when this node is known to be listed.
func needsJoin(connected bool, score int, since time.Duration) bool {
	return !connected || score >= strainedScore && since >= strainedInterval
}

// joinUntilListed joins until somebody has this node in its list: who has given it up says so first, and takes note of
// the objection next.
func (c *Cluster) joinUntilListed() bool {
	confirm := confirmRetry
	for range confirmTries {
		why := c.tryJoin()
		if why == nil {
			return true
		}
		c.log.Debug("those to join do not have this node", "join", c.cfg.Join, "err", why)
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

// hasMemberAt says whether one of the addresses is a member's.
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
