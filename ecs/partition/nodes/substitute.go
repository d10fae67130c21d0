package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"ringlet/ecs/partition/fault"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// checkSubstitute says why a node cannot substitute for a member, of which before is a report: it is busy, or what the
// units read or write is not there.
func (u *units) checkSubstitute(ctx context.Context, n *member, before *nodev1.Report) error {
	rep, entry := n.latestReport(), n.entry()
	switch state := rep.GetStatus().GetState(); state {
	case fsm.Running.String(), fsm.Paused.String():
		return fmt.Errorf("%s cannot substitute for %s: it is %s in run %d", n.process(), n.name, state, rep.GetRun())
	}
	if entry.GetReadout() && rep.GetMachine().GetHost() != before.GetMachine().GetHost() {
		if name := u.run.cfg.HostBoundSource(int(entry.GetRuIndex())); name != "" {
			return fmt.Errorf("%s cannot substitute for %s: the source %s is on host %s", n.process(), n.name, name,
				before.GetMachine().GetHost())
		}
	}
	if !usesHostResources(&u.run.cfg, entry) {
		return nil
	}
	answer, err := n.client.CheckOutput(ctx, &nodev1.CheckOutputRequest{
		Configuration: u.run.cfg.Effective(),
		Seat:          entry,
		Term:          n.term,
	})
	if why := answer.GetProblem(); err == nil && why != "" {
		err = errors.New(why)
	}
	if err != nil {
		return fmt.Errorf("%s cannot substitute for %s: %w", n.process(), n.name, err)
	}
	return nil
}

// announceSubstitute tells the scheduler and the other nodes whose certificate counts for the units of a lost node.
func (u *units) announceSubstitute(ctx context.Context, n *member) error {
	by := n.entry().GetSubstitute()
	if by == "" && !n.hadSubstitute {
		return nil
	}
	n.hadSubstitute = true
	if err := u.freeSubstitute(ctx, n, by); err != nil {
		return err
	}
	if err := u.run.current().SetSubstitute(n.name, by); err != nil {
		return err
	}
	return errors.Join(requestEach(slices.DeleteFunc(slices.Clone(u.run.nodes), func(m *member) bool {
		return m == n || u.run.isUnavailable(m)
	}), func(m *member) error {
		_, err := m.client.Substitute(ctx, &nodev1.SubstituteRequest{
			Term:       m.term,
			View:       u.run.View().GetNumber(),
			Rank:       n.entry().GetRank(),
			Substitute: by,
		})
		return err
	})...)
}

// freeSubstitute has the certificate of a spare no longer count for another lost node, for which it has tried in vain
// to substitute: each certificate has one place in the view.
func (u *units) freeSubstitute(ctx context.Context, n *member, by string) error {
	for _, m := range u.run.nodes {
		if m == n || by == "" || m.entry().GetSubstitute() != by {
			continue
		}
		entry := proto.CloneOf(m.entry())
		entry.Substitute = ""
		m.newEntry.Store(entry)
		if err := u.announceSubstitute(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// GiveUpNode has the run go on without a node, whose units another process is to have.
func (u *units) GiveUpNode(node, why string) {
	if u.run.Presence(node).Lost {
		return
	}
	u.run.observe(fault.Observation{Kind: fault.SilentToControl, Fault: fault.Fault{
		Component: node,
		What:      why,
		Evidence:  "asked of the control",
	}})
}

// HasProcess tells whether the process of a node has the units of a member, and takes part.
func (u *units) HasProcess(member, process string) bool {
	n, err := u.run.findMember(member)
	return err == nil && n.process() == process && !u.run.Presence(member).Lost && !u.run.isUnavailable(n)
}
