package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"ringlet/node"
	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	samplev1 "ringlet/proto/ringlet/sample/v1"
	tapv1 "ringlet/proto/ringlet/tap/v1"
	"ringlet/tagnet"
)

// An outputError is an output that a node cannot write.
type outputError struct {
	Node    string
	Problem string // a sentence
}

func (e *outputError) Error() string { return fmt.Sprintf("on %s: %s", e.Node, e.Problem) }

// CheckOutput asks the nodes whether their hosts allow what their units are to use, and those with builder units if
// they can write the output of a run of that number, or of any with 0. It returns the highest number of a run that is
// recorded there already, and a sentence of each that has little room. The error joins an *outputError of each that
// cannot.
func (c *NodeSet) CheckOutput(ctx context.Context, run uint32) (last uint32, short []string, err error) {
	var mu sync.Mutex // guards the results
	err = c.forEach(func(n *member) error {
		if !usesHostResources(&c.cfg, n.firstEntry) {
			return nil
		}
		answer, err := n.client.CheckOutput(ctx, &nodev1.CheckOutputRequest{
			Configuration: c.cfg.Effective(),
			Run:           run,
			Seat:          n.firstEntry,
			Term:          n.term,
		})
		switch {
		case err != nil:
			return &outputError{n.name, "it cannot say whether it can write the output and open the inputs: " +
				status.Convert(err).Message()}
		case answer.GetProblem() != "":
			return &outputError{n.name, answer.GetProblem()}
		}
		mu.Lock()
		defer mu.Unlock()
		last = max(last, answer.GetLastRun())
		if w := answer.GetWarning(); w != "" {
			short = append(short, "on "+n.name+": "+w)
		}
		return nil
	})
	slices.Sort(short)
	return last, short, err
}

// usesHostResources tells whether the units of an entry use more of their host than its network and memory.
func usesHostResources(c *config.Completed, entry *nodev1.Member) bool {
	return entry.GetBuilder() && c.WritesFiles() || entry.GetReadout() && c.HasLiveSources() ||
		entry.GetName() == c.DecisionNode && c.DecisionOutput != ""
}

// CheckOutputAt asks members of the cluster, in the order of ranks, whether they can have the units of a configuration,
// as CheckOutput does.
func CheckOutputAt(
	ctx context.Context, id *certs.Identity, term tagnet.Term, cfg config.Completed, members []cluster.Member,
) error {
	if !cfg.WritesFiles() && !cfg.HasLiveSources() && cfg.DecisionOutput == "" || len(members) < cfg.Nodes {
		return nil
	}
	if err := prepareOutput(&cfg); err != nil {
		return err
	}
	c := NewNodeSet(Options{Identity: id, Term: term}, cfg)
	defer c.CloseConnections()
	if err := c.dial(entriesOf(&cfg, members)...); err != nil {
		return err
	}
	_, _, err := c.CheckOutput(ctx, 0)
	return err
}

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
	c := NewNodeSet(Options{Identity: id, Term: term}, config.Completed{})
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

// maxSamplesBytes bounds a message of samples: one event may be that large.
const maxSamplesBytes = 64 << 20

// Builders are the names of the nodes with a builder unit that are there, in the order of ranks.
func (c *NodeSet) Builders() (names []string) {
	for _, n := range c.nodes {
		if n.firstEntry.GetBuilder() && !c.isUnavailable(n) {
			names = append(names, n.name)
		}
	}
	return names
}

// Tap passes on a sample of what a node builds until ctx ends or the node cannot be heard, and returns why: never nil.
func (c *NodeSet) Tap(ctx context.Context, name string, sel *tapv1.Selection, each func(*tapv1.Samples)) error {
	n, err := c.findMember(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := n.client.Tap(ctx, &nodev1.TapRequest{Selection: sel}, grpc.MaxCallRecvMsgSize(maxSamplesBytes))
	for err == nil {
		var m *tapv1.Samples
		if m, err = in.Recv(); err == nil {
			each(m)
		}
	}
	return err
}

// Sample passes on counters of a node until it has sent all that was asked for, ctx ends, send fails or the node cannot
// be heard, and returns why: nil where it has sent all.
func (c *NodeSet) Sample(ctx context.Context, q *samplev1.Question, send func(*samplev1.Samples) error) error {
	n, err := c.findMember(q.GetNode())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := n.client.Sample(ctx, q)
	for err == nil {
		var m *samplev1.Samples
		if m, err = in.Recv(); err == nil {
			err = send(m)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
