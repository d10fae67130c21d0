package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"ringlet/ecs/partition/fault"
	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// Connect connects to the node services of these members, which are in the order of ranks, speaks with each and begins
// to watch it. Where some do not answer before ctx ends, or refuse, UnreachableNodes tells which.
func (c *NodeSet) Connect(ctx context.Context, members []cluster.Member) error {
	if err := c.dial(entriesOf(&c.cfg, members)...); err != nil {
		return err
	}
	if err := c.awaitAnswers(ctx); err != nil {
		return err
	}
	c.watch.begin()
	return nil
}

// UnreachableNodes are the nodes that Connect or Rejoin did not come to speak with, and why, for each.
func UnreachableNodes(err error) map[string]string {
	unreachable := map[string]string{}
	var several interface{ Unwrap() []error }
	if !errors.As(err, &several) {
		return unreachable
	}
	for _, one := range several.Unwrap() {
		var known *fault.Error
		if errors.As(one, &known) {
			unreachable[known.Component] = known.What
		}
	}
	return unreachable
}

// entriesOf are the places that members, in the order of ranks, have in the view of a configuration.
func entriesOf(cfg *config.Config, members []cluster.Member) (entries []*nodev1.Member) {
	for rank, role := range cfg.Roles() {
		m := members[rank]
		entries = append(entries, &nodev1.Member{
			Name:        m.Name,
			Rank:        uint32(rank),
			QuicAddress: m.Meta.QUICAddr,
			GrpcAddress: m.Meta.GRPCAddr,
			Readout:     role.RU != config.NoUnit,
			RuIndex:     uint32(max(0, role.RU)),
			Builder:     role.BU != config.NoUnit,
			BuIndex:     uint32(max(0, role.BU)),
		})
	}
	return entries
}

// dial connects to the services of nodes and makes them the next of the set.
func (c *NodeSet) dial(entries ...*nodev1.Member) error {
	for _, m := range entries {
		n, err := c.newMember(m)
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
	}
	return nil
}

// newMember connects to the service of a node.
func (c *NodeSet) newMember(m *nodev1.Member) (*member, error) {
	to, err := c.opts.dialService(m)
	if err != nil {
		return nil, err
	}
	conn := newSwapConn(to)
	return &member{
		name:       m.GetName(),
		conn:       conn,
		client:     nodev1.NewNodeClient(conn),
		firstEntry: m,
		term:       termMessage(c.opts.Term),
		faults:     c.faults,
	}, nil
}

// dialService makes a connection to the service of a node.
func (o *Options) dialService(m *nodev1.Member) (*grpc.ClientConn, error) {
	creds := o.Identity.ClientCredentials(m.GetName(), o.Log)
	conn, err := grpc.NewClient(m.GetGrpcAddress(), append(o.dialOptions(), grpc.WithTransportCredentials(creds))...)
	if err != nil {
		return nil, fmt.Errorf("node service of %s at %s: %w", m.GetName(), m.GetGrpcAddress(), err)
	}
	return conn, nil
}

// awaitAnswers speaks with every node for the first time, so that one that must not be spoken with is found and named
// at once.
func (c *NodeSet) awaitAnswers(ctx context.Context) error {
	return c.forEach(func(n *member) error {
		err := n.awaitAnswer(ctx)
		n.unresponsive.Store(err != nil)
		return err
	})
}

// awaitAnswer tries until the node answers; a refusal, by either side, ends it.
func (m *member) awaitAnswer(ctx context.Context) error {
	return poll(ctx, retryInterval, func() (bool, error) {
		rep, err := m.client.Report(ctx, &nodev1.ReportRequest{Term: m.term})
		if err == nil {
			m.storeReport(rep)
			return true, nil
		}
		if fenced := tagnet.AsFencedError(err); fenced != nil {
			return true, m.unreachableError(" refuses this control: " + fenced.Error())
		}
		if why := certificateRefusal(err); why != nil {
			return true, m.unreachableError(": " + why.Error())
		}
		words := status.Convert(err).Message()
		return false, m.unreachableError(" does not answer: " + cmp.Or(certs.ExplainUnanswered(words), words))
	})
}

func (m *member) unreachableError(why string) error {
	return &fault.Error{Fault: fault.SeenByControl(m.name, fault.SubsystemNodeService,
		"its node service at "+m.entry().GetGrpcAddress()+why)}
}
