package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"ringlet/ecs/partition/fault"
	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// Meet connects to the node services of these members, which are in the order of ranks, speaks with each and begins to
// watch it. Where some do not answer before ctx ends, or refuse, Unmet tells which.
func (c *Crew) Meet(ctx context.Context, members []cluster.Member) error {
	for rank, role := range c.cfg.Roles() {
		m := members[rank]
		err := c.dial(&nodev1.Member{
			Name:        m.Name,
			Rank:        uint32(rank),
			QuicAddress: m.Meta.QUICAddr,
			GrpcAddress: m.Meta.GRPCAddr,
			Readout:     role.RU != config.None,
			RuIndex:     uint32(max(0, role.RU)),
			Builder:     role.BU != config.None,
			BuIndex:     uint32(max(0, role.BU)),
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
	to, err := c.call(m)
	if err != nil {
		return nil, err
	}
	conn := roadTo(to)
	return &member{
		name:   m.GetName(),
		conn:   conn,
		client: nodev1.NewNodeClient(conn),
		view:   m,
		term:   termMessage(c.opts.Term),
		faults: c.faults,
	}, nil
}

// call makes a connection to the service of a node.
func (c *Crew) call(m *nodev1.Member) (*grpc.ClientConn, error) {
	creds := c.opts.Identity.ClientCredentials(m.GetName(), c.opts.Log)
	conn, err := grpc.NewClient(m.GetGrpcAddress(), append(c.opts.lasting(), grpc.WithTransportCredentials(creds))...)
	if err != nil {
		return nil, fmt.Errorf("node service of %s at %s: %w", m.GetName(), m.GetGrpcAddress(), err)
	}
	return conn, nil
}

// greet speaks with every node for the first time, so that one that must not be spoken with is found and named at once.
func (c *Crew) greet(ctx context.Context) error {
	return c.every(func(n *member) error {
		err := n.greet(ctx)
		n.silent.Store(err != nil)
		return err
	})
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
			words := status.Convert(err).Message()
			return m.unreachable(" does not answer: " + cmp.Or(certs.Unanswered(words), words))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (m *member) unreachable(why string) error {
	return &fault.Error{Fault: fault.Seen(m.name, fault.PartService,
		"its node service at "+m.seat().GetGrpcAddress()+why)}
}
