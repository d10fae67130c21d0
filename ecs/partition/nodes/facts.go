package nodes

import (
	"context"
	"io"
	"time"

	"ringlet/node"
	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// TagnetNode is the node on which the scheduler lives; empty: this process.
func (c *NodeSet) TagnetNode() string { return c.opts.TagnetNode }

// Facts are what the nodes say of themselves, for Config.Check.
func (c *NodeSet) Facts() []config.NodeFacts {
	facts := make([]config.NodeFacts, len(c.nodes))
	for i, rep := range c.Reports() {
		m := rep.GetMachine()
		facts[i] = config.NodeFacts{
			Name:        c.nodes[i].name,
			MemoryBytes: int64(m.GetMemoryBytes()),
			ShmBytes:    int64(m.GetShmBytes()),
			MachineID:   m.GetShares(),
		}
	}
	return facts
}

// RequestFacts asks members of the cluster what they have. Those that do not answer before ctx ends are left out.
func RequestFacts(ctx context.Context, id *certs.Identity, term tagnet.Term,
	members []cluster.Member) []config.NodeFacts {
	c := NewNodeSet(Options{Identity: id, Term: term}, config.Config{})
	defer c.CloseConnections()
	for _, m := range members {
		if err := c.dial(&nodev1.Member{Name: m.Name, GrpcAddress: m.Meta.GRPCAddr}); err != nil {
			c.log.Warn("a node cannot be asked what it has", "node", m.Name, "err", err)
		}
	}
	_ = c.awaitAnswers(ctx)
	var facts []config.NodeFacts
	for i, f := range c.Facts() {
		if c.nodes[i].latestReport() != nil {
			facts = append(facts, f)
		}
	}
	return facts
}

// Describe is what people may want to know of a node.
func (c *NodeSet) Describe(rank int) map[string]string {
	n := c.nodes[rank]
	rep := n.latestReport()
	about := map[string]string{"address": n.entry().GetGrpcAddress(), "data": n.entry().GetQuicAddress()}
	for key, v := range map[string]string{"version": rep.GetVersion(), "host": rep.GetMachine().GetHost()} {
		if v != "" {
			about[key] = v
		}
	}
	return about
}

// Profile writes a profile of a node.
func (c *NodeSet) Profile(ctx context.Context, w io.Writer, name, kind string, length time.Duration) error {
	n, err := c.findMember(name)
	if err != nil {
		return err
	}
	return node.ReadProfile(ctx, n.client, w, kind, length)
}
