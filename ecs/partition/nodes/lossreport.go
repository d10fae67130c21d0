package nodes

import (
	"cmp"
	"slices"
	"time"

	"ringlet/ecs/partition/fault"
	"ringlet/internal/nodename"
)

// Losses are told once of all nodes of a process.

// setHandling notes that losses are being handled, or that they are handled.
func (u *units) setHandling(all []fault.Fault, is bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.handling == nil {
		u.handling = map[string]struct{}{}
	}
	for _, x := range all {
		if delete(u.handling, x.Component); is {
			u.handling[x.Component] = struct{}{}
		}
	}
}

// reportLosses logs and publishes losses, which were noted when they began. If they took only some of the nodes of a
// process, it waits for those of the others for a moment: the sockets of a process that ends close one by one.
func (u *units) reportLosses(losses []Loss) {
	for began := time.Now(); u.handlesOthers(losses) || u.awaitsOthers(losses) && time.Since(began) < selfReportTimeout; {
		time.Sleep(linkPollInterval)
	}
	u.mu.Lock()
	var mine []Loss
	u.unreported = slices.DeleteFunc(u.unreported, func(l Loss) bool {
		is := u.shareProcess(losses, l.Component)
		if is {
			mine = append(mine, l)
		}
		return is
	})
	u.mu.Unlock()
	for _, loss := range u.joinByProcess(mine) {
		u.run.log.Warn(loss.String())
		if u.run.opts.OnLost != nil {
			u.run.opts.OnLost(loss)
		}
	}
}

// processOf is the process that has the units of a node.
func (u *units) processOf(node string) string {
	if n, err := u.run.findMember(node); err == nil {
		node = cmp.Or(n.process(), node)
	}
	return nodename.ProcessOf(node)
}

// shareProcess says that one of the nodes that are lost has the process of a node.
func (u *units) shareProcess(losses []Loss, node string) bool {
	process := u.processOf(node)
	return slices.ContainsFunc(losses, func(l Loss) bool { return u.processOf(l.Component) == process })
}

// handlesOthers says that the loss of a node is being handled which shares the process of one that is lost.
func (u *units) handlesOthers(losses []Loss) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name := range u.handling {
		if u.shareProcess(losses, name) {
			return true
		}
	}
	return false
}

// awaitsOthers says that a node takes part still which shares the process of one that is lost.
func (u *units) awaitsOthers(losses []Loss) bool {
	return slices.ContainsFunc(u.run.nodes, func(n *member) bool {
		return !u.run.Presence(n.name).HasLeftRun() && u.shareProcess(losses, n.name)
	})
}

// joinByProcess joins the losses of nodes that share a process, in the order of ranks.
func (u *units) joinByProcess(losses []Loss) (joined []Loss) {
	names := u.run.Names()
	slices.SortStableFunc(losses, func(a, b Loss) int {
		return slices.Index(names, a.Component) - slices.Index(names, b.Component)
	})
	processes := map[string]int{} // index in joined
	for _, l := range losses {
		process := u.processOf(l.Component)
		i, known := processes[process]
		if !known {
			processes[process] = len(joined)
			joined = append(joined, l)
			continue
		}
		joined[i].add(l)
	}
	return joined
}
