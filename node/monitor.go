package node

import (
	"context"
	"errors"
	"fmt"

	"ringlet/node/cluster"
	"ringlet/node/fsm"
	"ringlet/node/monitor"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// serveMonitor serves the state of this node to whoever watches over processes, if somebody may. What it returns ends
// that.
func (n *process) serveMonitor() (end func()) {
	if n.cfg.Monitor == nil {
		return func() {}
	}
	return monitor.Serve(n.cfg.Monitor, n.monitored(), n.log)
}

func (n *process) monitored() monitor.Process {
	p := monitor.Process{
		Live: func(ctx context.Context) error { return n.alive(ctx, n.members.Load()) },
		Ready: func() (string, error) {
			st := n.runner.Status()
			return st.State.String(), readiness(n.members.Load(), st)
		},
	}
	if n.cfg.Metrics != nil {
		p.Metrics = n.cfg.Metrics(func() *nodev1.Report { return n.report(0) })
	}
	return p
}

// readiness says why a node cannot be used. One in the cluster can, unless it is in Error.
func readiness(members *cluster.Cluster, st fsm.Status) error {
	switch {
	case members == nil:
		return errNotInCluster
	case st.State == fsm.Error:
		return fmt.Errorf("in Error: %w", st.Cause)
	}
	return nil
}

var errNotInCluster = errors.New("not in the cluster: looking for it, or on the way out")
