package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"ringlet/internal/nodename"
	"ringlet/node/cluster"
	"ringlet/node/fsm"
	"ringlet/node/monitor"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// group is the nodes of a process, and what the process has once for all of them: its certificate, its service manager
// and its monitor. Beside these, each node is on its own.
type group struct {
	// immutable
	cfg   Config
	nodes []*process

	mu           sync.Mutex // guards the fields below
	joined, left int        // nodes that have joined the cluster so far, and that have left it again
	endWatch     func()     // ends the reports to the service manager; nil: there are none
}

// Run runs the nodes of a process until ctx ends, all have left as requested, or one cannot go on: that ends the
// others, too.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	g := &group{cfg: cfg}
	for place := range max(1, cfg.Nodes) {
		n, err := newNode(cfg.forNode(place), g)
		if err != nil {
			for _, n := range g.nodes {
				n.close()
			}
			return err
		}
		g.nodes = append(g.nodes, n)
	}
	defer g.serveMonitor()()
	return g.serve(ctx)
}

// forNode is the configuration of one node of the process.
func (c Config) forNode(place int) Config {
	c.Name = nodename.Join(c.Name, place)
	for _, port := range []*int{&c.Ports.Data, &c.Ports.Service, &c.Ports.Gossip} {
		if *port != 0 {
			*port += place
		}
	}
	return c
}

// serve runs the nodes, and returns the first failure.
func (g *group) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { g.cfg.Identity.Watch(ctx, g.nodes[0].log) })
	failures := make(chan error, len(g.nodes))
	var running sync.WaitGroup
	for _, n := range g.nodes {
		running.Go(func() {
			defer n.close()
			if err := n.serve(ctx); err != nil {
				failures <- err
				cancel()
			}
		})
	}
	running.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

// noteJoined notes that a node is in the cluster. When all are, it tells the service manager that the process serves,
// and from then on that it is alive. leave is called before the node leaves the cluster; the last one ends that.
func (g *group) noteJoined(n *process) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.joined++; g.joined == len(g.nodes) {
		g.cfg.Notifier.NotifyReady("in the cluster as " + g.describe())
		ctx, cancel := context.WithCancel(context.Background())
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			g.cfg.Notifier.Watch(ctx, g.checkAlive)
		}()
		g.endWatch = func() { cancel(); <-watched }
	}
	return func() {
		g.mu.Lock()
		g.left++
		last, end := g.left == g.joined, g.endWatch
		g.mu.Unlock()
		if !last {
			return
		}
		if end != nil {
			end()
		}
		g.cfg.Notifier.NotifyStopping("leaving the cluster")
	}
}

// describe lists the nodes with the addresses of their gossip.
func (g *group) describe() string {
	var list []string
	for _, n := range g.nodes {
		text := n.cfg.Name
		if members := n.members.Load(); members != nil {
			text += fmt.Sprintf(", at %s", members.Addr())
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

// checkAlive checks that every node answers.
func (g *group) checkAlive(ctx context.Context) error {
	for _, n := range g.nodes {
		if err := n.checkAlive(ctx); err != nil {
			return g.withName(n, err)
		}
	}
	return nil
}

// withName adds the name of a node to an error, if the process has several.
func (g *group) withName(n *process, err error) error {
	if len(g.nodes) == 1 {
		return err
	}
	return fmt.Errorf("%s: %w", n.cfg.Name, err)
}

// serveMonitor serves the states of the nodes to process monitors, if a listener is configured; end ends that.
func (g *group) serveMonitor() (end func()) {
	if g.cfg.MonitorListener == nil {
		return func() {}
	}
	return monitor.Serve(g.cfg.MonitorListener, g.monitorProcess(), g.nodes[0].log)
}

func (g *group) monitorProcess() monitor.Process {
	p := monitor.Process{CheckLive: g.checkAlive, CheckReady: g.checkReady}
	if g.cfg.NewMetricsHandler != nil {
		reports := map[string]func() *nodev1.Report{}
		for _, n := range g.nodes {
			reports[n.cfg.Name] = func() *nodev1.Report { return n.report(0) }
		}
		p.MetricsHandler = g.cfg.NewMetricsHandler(reports)
	}
	return p
}

// checkReady returns the states of the nodes, and why the first one that cannot be used cannot.
func (g *group) checkReady() (states string, err error) {
	var list []string
	for _, n := range g.nodes {
		st := n.runner.Status()
		text := st.State.String()
		if len(g.nodes) > 1 {
			text = n.cfg.Name + " " + text
		}
		list = append(list, text)
		if why := checkReady(n.members.Load(), st); why != nil && err == nil {
			err = g.withName(n, why)
		}
	}
	return strings.Join(list, ", "), err
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

var errStuck = errors.New("the node does not answer its own check: a goroutine holds a lock for too long")

// checkAlive checks that the state machine, the session and, if there is one, the cluster membership answer. A node in
// Error is alive: it waits for a recover command.
func (n *process) checkAlive(ctx context.Context) error {
	answered := make(chan struct{})
	go func() { // this goroutine stays if a part is stuck: the service manager then ends the process
		defer close(answered)
		_ = n.runner.Status()
		_, _ = n.sessionAndRequest()
		if members := n.members.Load(); members != nil {
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
