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

// monitor serves the state of this node to whoever watches over processes, if somebody may. What it returns ends that.
func (n *process) monitor() (end func()) {
	if n.cfg.Monitor == nil {
		return func() {}
	}
	return monitor.Serve(n.cfg.Monitor, n.process(), n.log)
}

func (n *process) process() monitor.Process {
	p := monitor.Process{
		Live: func(ctx context.Context) error { return n.alive(ctx, n.members.Load()) },
		Ready: func() (string, error) {
			st := n.runner.Status()
			return st.State.String(), ready(n.members.Load(), st)
		},
	}
	if n.cfg.Metrics != nil {
		p.Metrics = n.cfg.Metrics(func() *nodev1.Report { return n.report(0) })
	}
	return p
}

// ready says why a node cannot be used. One in the cluster can, unless it is in Error.
func ready(members *cluster.Cluster, st fsm.Status) error {
	switch {
	case members == nil:
		return errNotIn
	case st.State == fsm.Error:
		return fmt.Errorf("in Error: %w", st.Cause)
	}
	return nil
}

var errNotIn = errors.New("not in the cluster: looking for it, or on the way out")
