package nodes

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc/status"

	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
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
func usesHostResources(c *config.Config, entry *nodev1.Member) bool {
	return entry.GetBuilder() && c.WritesFiles() || entry.GetReadout() && c.HasLiveSources() ||
		entry.GetName() == c.DecisionNode && c.DecisionOutput != ""
}

// CheckOutputAt asks members of the cluster, in the order of ranks, whether they can have the units of a configuration,
// as CheckOutput does.
func CheckOutputAt(
	ctx context.Context, id *certs.Identity, term tagnet.Term, cfg config.Config, members []cluster.Member,
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
