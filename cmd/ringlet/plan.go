package main

import (
	"errors"
	"fmt"

	"ringlet/lab/topology"
)

type planCmd struct {
	File    string   `arg:"" help:"The topology: a YAML file that describes a fat tree or a torus, and the nodes on it."`
	Nodes   int      `default:"0" help:"Plan with the first so many nodes only. 0 = all."`
	Without []string `help:"Plan without these nodes; the others move up."`
	Lost    []string `help:"Plan for a run that has lost these nodes: a dummy takes the seat of each."`
	Show    int      `default:"5" help:"Conflicts to describe. 0 = all."`
	Phase   int      `default:"-1" help:"Draw what the links carry in this phase of the order as given. -1 = the first with a conflict, if any."`
	Order   bool     `xor:"how" help:"Print the proposed order and nothing else: a name to a line, ~ where a dummy stands."`
	Seats   bool     `xor:"how" help:"Print the proposed order by rank and nothing else, for ringlet run: 0,1,-,2. Folded nodes only."`
	JSON    bool     `name:"json" xor:"how" help:"Print one JSON object."`
}

// Run checks a topology and proposes an order. Conflicts in the given order are an error; with --order or --seats, only
// the lack of a proposal is.
func (c *planCmd) Run(to streams) error {
	p, err := c.plan()
	if err != nil {
		return &exit{exitUsage, err}
	}
	if c.Order || c.Seats {
		return c.printProposal(to, p)
	}
	err = printResult(to.out, p, c.JSON, p.WriteText)
	if err == nil && p.GivenOrder.Conflicts > 0 {
		err = fmt.Errorf("plan: the order as given has conflicts in %d of %d phases", p.GivenOrder.Phases,
			p.GivenOrder.Places)
	}
	return err
}

func (c *planCmd) printProposal(to streams, p *topology.Plan) error {
	switch {
	case p.ProposedOrder == nil:
		return fmt.Errorf("plan: no order of nodes was found in which no two flows of a phase share a link: "+
			"ringlet plan %s shows the conflicts of the order as given", c.File)
	case c.Order:
		return p.WriteOrder(to.out)
	case !p.Folded:
		return &exit{exitUsage, errors.New("plan: seats are for folded nodes; here readout and builder units are apart")}
	}
	_, err := fmt.Fprintln(to.out, p.ProposedOrder.Seats)
	return err
}

func (c *planCmd) plan() (*topology.Plan, error) {
	t, err := topology.Load(c.File)
	if err != nil {
		return nil, err
	}
	if c.Nodes != 0 {
		if err := t.KeepFirst(c.Nodes); err != nil {
			return nil, err
		}
	}
	if len(c.Without) > 0 {
		if err := t.Without(c.Without...); err != nil {
			return nil, err
		}
	}
	if len(c.Lost) > 0 {
		if err := t.Lose(c.Lost...); err != nil {
			return nil, err
		}
	}
	return t.NewPlan(c.File, topology.Options{MaxConflicts: c.Show, MatrixPhase: c.Phase})
}
