package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc/status"

	"ringlet/internal/certs"
	"ringlet/internal/cluster"
	"ringlet/internal/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// An OutputError is an output that a node cannot write.
type OutputError struct {
	Node    string
	Problem string // a sentence
}

func (e *OutputError) Error() string { return fmt.Sprintf("on %s: %s", e.Node, e.Problem) }

// CheckOutput asks the nodes with builder units whether they can write the output of a run of that number, or of any
// with 0. It returns the highest number of a run that is recorded there already, and a sentence of each that has little
// room. The error joins an *OutputError of each that cannot.
func (c *Crew) CheckOutput(ctx context.Context, run uint32) (last uint32, short []string, err error) {
	if !c.cfg.WritesFiles() {
		return 0, nil, nil
	}
	warnings := make([]string, len(c.nodes))
	lasts := make([]uint32, len(c.nodes))
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		if !n.view.GetBuilder() || c.passed(n) {
			continue
		}
		wg.Go(func() {
			told, err := n.client.CheckOutput(ctx, &nodev1.CheckOutputRequest{
				Configuration: c.cfg.Effective(),
				Run:           run,
				Term:          n.term,
			})
			switch {
			case err != nil:
				errs[i] = &OutputError{
					n.name, "it cannot say whether the output can be written: " + status.Convert(err).Message(),
				}
			case told.GetProblem() != "":
				errs[i] = &OutputError{n.name, told.GetProblem()}
			}
			lasts[i] = told.GetLastRun()
			if w := told.GetWarning(); w != "" {
				warnings[i] = "on " + n.name + ": " + w
			}
		})
	}
	wg.Wait()
	for _, n := range lasts {
		last = max(last, n)
	}
	short = slices.DeleteFunc(warnings, func(w string) bool { return w == "" })
	return last, short, errors.Join(errs...)
}

// CheckOutputAt asks members of the cluster, in the order of ranks, whether those of them that would hold builder units
// can write the output of a configuration.
func CheckOutputAt(
	ctx context.Context, id *certs.Identity, term tagnet.Term, cfg config.Config, members []cluster.Member,
) error {
	roles := cfg.Roles()
	if !cfg.WritesFiles() || len(members) < len(roles) {
		return nil
	}
	if err := prepareOutput(&cfg); err != nil {
		return err
	}
	c := NewCrew(Options{Identity: id, Term: term}, cfg)
	defer c.Release()
	for rank, role := range roles {
		m := members[rank]
		one := &nodev1.Member{Name: m.Name, GrpcAddress: m.Meta.GRPCAddr, Builder: role.BU != config.None}
		if err := c.dial(one); err != nil {
			return err
		}
	}
	_, _, err := c.CheckOutput(ctx, 0)
	return err
}
