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

// serveMonitor serves the state of this node to process monitors, if a listener is configured; end ends that.
func (n *process) serveMonitor() (end func()) {
	if n.cfg.MonitorListener == nil {
		return func() {}
	}
	return monitor.Serve(n.cfg.MonitorListener, n.monitorProcess(), n.log)
}

func (n *process) monitorProcess() monitor.Process {
	p := monitor.Process{
		CheckLive: func(ctx context.Context) error { return n.checkAlive(ctx, n.members.Load()) },
		CheckReady: func() (string, error) {
			st := n.runner.Status()
			return st.State.String(), checkReady(n.members.Load(), st)
		},
	}
	if n.cfg.NewMetricsHandler != nil {
		p.MetricsHandler = n.cfg.NewMetricsHandler(func() *nodev1.Report { return n.report(0) })
	}
	return p
}

// checkReady says why a node cannot be used; nil if it is in the cluster and not in Error.
func checkReady(members *cluster.Cluster, st fsm.Status) error {
	switch {
	case members == nil:
		return errNotInCluster
	case st.State == fsm.Error:
		return fmt.Errorf("in Error: %w", st.Cause)
	}
	return nil
}

var errNotInCluster = errors.New("not in the cluster: looking for it, or on the way out")
