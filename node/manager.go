package node

import (
	"context"
	"errors"
	"fmt"

	"ringlet/node/cluster"
)

// notifyManager tells the service manager that the node serves, and from then on that it is alive; end ends that.
func (n *process) notifyManager(ctx context.Context, members *cluster.Cluster) (end func()) {
	n.cfg.Notifier.NotifyReady(fmt.Sprintf("in the cluster as %s, at %s", n.cfg.Name, members.Addr()))
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		n.cfg.Notifier.Watch(ctx, func(within context.Context) error { return n.checkAlive(within, members) })
	}()
	return func() {
		cancel()
		<-watched
		n.cfg.Notifier.NotifyStopping("leaving the cluster")
	}
}

var errStuck = errors.New("the node does not answer its own check: a goroutine holds a lock for too long")

// checkAlive checks that the state machine, the session and, if there is one, the cluster membership answer. A node in
// Error is alive: it waits for a recover command.
func (n *process) checkAlive(ctx context.Context, members *cluster.Cluster) error {
	answered := make(chan struct{})
	go func() { // this goroutine stays if a part is stuck: the service manager then ends the process
		defer close(answered)
		_ = n.runner.Status()
		_, _ = n.sessionAndRequest()
		if members != nil {
			_ = members.Members()
		}
	}()
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return errStuck
	}
}
