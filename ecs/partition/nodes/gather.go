package nodes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"ringlet/ecs/partition/fault"
	"ringlet/internal/cluster"
	"ringlet/internal/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// Gather finds the nodes in the cluster, or makes them with a spawner, and meets them. Without names in the configuration it takes the
// first by name of those that have joined.
func (c *Crew) Gather(ctx context.Context, members *cluster.Cluster, spawner Spawner) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Patience)
	defer cancel()
	names := c.cfg.MemberNames()
	if spawner != nil {
		names = nil
		for _, role := range c.cfg.Roles() {
			names = append(names, role.Name)
		}
		err := spawner.Spawn(names, members.Addr().String(), func(name, how string) {
			c.SeeEnd(name, how)
		})
		if err != nil {
			return err
		}
	} else if names == nil {
		c.log.Info("waiting for nodes", "wanted", c.cfg.Nodes, "join", members.Addr())
		names = cluster.Units(members.Until(ctx, func(m map[string]cluster.Member) bool { return len(cluster.Units(m)) >= c.cfg.Nodes }))
		if len(names) < c.cfg.Nodes {
			return fmt.Errorf("%d nodes are wanted, and only %d have joined at %s: %s (%w)", c.cfg.Nodes, len(names),
				members.Addr(), strings.Join(names, ", "), context.Cause(ctx))
		}
		names = names[:c.cfg.Nodes]
	}
	waited, stop := c.faults.during(ctx)
	defer stop()
	if err := members.Wait(waited, names...); err != nil {
		return err
	}
	known := members.ByName()
	list := make([]cluster.Member, len(names))
	for rank, name := range names {
		m, ok := known[name]
		if !ok {
			return fmt.Errorf("%s has left again", name)
		}
		list[rank] = m
	}
	return c.Meet(waited, list)
}

// Meet connects to the node services of these members, which are in the order of ranks, speaks with each and begins to watch it. Where some
// do not answer before ctx ends, or refuse, Unmet tells which.
func (c *Crew) Meet(ctx context.Context, members []cluster.Member) error {
	for rank, role := range c.cfg.Roles() {
		m := members[rank]
		err := c.dial(&nodev1.Member{
			Name: m.Name, Rank: uint32(rank), QuicAddress: m.Meta.QUICAddr, GrpcAddress: m.Meta.GRPCAddr,
			Readout: role.RU != config.None, RuIndex: uint32(max(0, role.RU)),
			Builder: role.BU != config.None, BuIndex: uint32(max(0, role.BU)),
		})
		if err != nil {
			return err
		}
	}
	if err := c.greet(ctx); err != nil {
		return err
	}
	c.watch()
	return nil
}

// Unmet are the nodes that Meet or Rejoin did not come to speak with, and why, for each.
func Unmet(err error) map[string]string {
	unmet := map[string]string{}
	var several interface{ Unwrap() []error }
	if !errors.As(err, &several) {
		return unmet
	}
	for _, one := range several.Unwrap() {
		var known *fault.Error
		if errors.As(one, &known) {
			unmet[known.Component] = known.What
		}
	}
	return unmet
}

// dial connects to the service of a node and makes it the next of the crew.
func (c *Crew) dial(m *nodev1.Member) error {
	n, err := c.connect(m)
	if err != nil {
		return err
	}
	c.nodes = append(c.nodes, n)
	return nil
}

// connect connects to the service of a node.
func (c *Crew) connect(m *nodev1.Member) (*member, error) {
	conn, err := grpc.NewClient(m.GetGrpcAddress(),
		append(lasting(), grpc.WithTransportCredentials(c.opts.Identity.ClientCredentials(m.GetName(), c.opts.Log)))...)
	if err != nil {
		return nil, fmt.Errorf("node service of %s at %s: %w", m.GetName(), m.GetGrpcAddress(), err)
	}
	return &member{
		name:   m.GetName(),
		conn:   conn,
		client: nodev1.NewNodeClient(conn),
		view:   m,
		term:   termMessage(c.opts.Term),
		faults: c.faults,
	}, nil
}

// greet speaks with every node for the first time, so that one that must not be spoken with is found and named at once.
func (c *Crew) greet(ctx context.Context) error {
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() {
			errs[i] = n.greet(ctx)
			n.silent.Store(errs[i] != nil)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// greet tries until the node answers; a refusal, by either side, ends it.
func (m *member) greet(ctx context.Context) error {
	for {
		rep, err := m.client.Report(ctx, &nodev1.ReportRequest{Term: m.term})
		if err == nil {
			m.keep(rep)
			return nil
		}
		if fenced := tagnet.Fenced(err); fenced != nil {
			return m.unreachable(" refuses this control: " + fenced.Error())
		}
		if why := untrusted(err); why != nil {
			return m.unreachable(": " + why.Error())
		}
		select {
		case <-ctx.Done():
			return m.unreachable(" does not answer: " + status.Convert(err).Message())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (m *member) unreachable(why string) error {
	return &fault.Error{Fault: fault.Fault{
		Component: m.name,
		Part:      PartService,
		What:      "its node service at " + m.view.GetGrpcAddress() + why,
		Evidence:  "seen by the control",
	}}
}
