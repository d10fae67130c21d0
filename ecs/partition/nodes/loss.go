package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ringlet/ecs/partition/fault"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// units are the units of the view that take part in a run: who is excluded, lost or leaves, and who comes back.
type units struct{ run *Run }

// handleLoss takes a lost node's unit out of the schedule.
func (u *units) handleLoss(x fault.Fault) {
	u.run.log.Warn("the run goes on without a node", "node", x.Component, "why", x.What)
	if err := u.run.excludeLost(x.Component); err != nil {
		u.run.faults.observe(fault.Observation{Kind: fault.ReportedByPeer, Fault: fault.Fault{
			Component: x.Component,
			Subsystem: fault.SubsystemScheduler,
			What:      fmt.Sprintf("it is gone, and could not be taken out of the schedule: %v", err),
			Evidence:  x.What,
		}})
		return
	}
	if u.run.opts.OnLost != nil {
		u.run.opts.OnLost(x)
	}
}

// excludeLost has the scheduler go on without the units of a node.
func (u *units) excludeLost(node string) error {
	var err error
	for _, held := range viewUnits(u.run.View(), "") {
		if held.Node == node && held.Readout {
			err = u.run.current().ExcludeRU(node)
		}
		if held.Node == node && held.Builder {
			_, lost := u.run.current().LoseBU(node)
			err = errors.Join(err, lost)
		}
	}
	return err
}

// Exclude takes a node's builder unit out of the schedule; a readout unit of the same node goes on sending.
func (u *units) Exclude(node string) (reissued int, err error) {
	if err := queryCore(u.run.faults, func(c *fault.Core) error { return c.Exclude(node) }); err != nil {
		return 0, err
	}
	if reissued, err = u.run.current().ExcludeBU(node); err != nil {
		_ = u.run.markIncluded(node) // it did not come about; who was lost meanwhile stays out
	}
	return reissued, err
}

// Include gives it MEPs again, and waits until the scheduler has it back: readout units first confirm the exclusion,
// then the unit frees its slots. Where that takes too long it stays out.
func (u *units) Include(ctx context.Context, node string) error {
	if err := queryCore(u.run.faults, func(c *fault.Core) error { return c.MayInclude(node) }); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, u.run.opts.timeoutFor(includeTimeout))
	defer cancel()
	if err := u.run.awaitIncluded(ctx, node); err != nil {
		if _, undone := u.run.current().ExcludeBU(node); undone != nil {
			err = errors.Join(err, fmt.Errorf("%s may still come back by itself: %w", node, undone))
		}
		return err
	}
	return u.run.markIncluded(node) // it may have been lost meanwhile
}

// includeTimeout is how long an inclusion may take: a write that is under way to a link which stands still has its
// outcome, or the link's end, within 5 s by QUIC, and the unit asks every 0.2 s. Mostly it is 0.3 s.
// includePollInterval is how often that is looked at.
const (
	includeTimeout      = 8 * time.Second
	includePollInterval = 50 * time.Millisecond
)

// awaitIncluded asks the scheduler to take a builder unit in until it has. The error is the last reason why it has not.
func (u *units) awaitIncluded(ctx context.Context, node string) error {
	return poll(ctx, includePollInterval, func() (bool, error) {
		why := u.run.current().IncludeBU(node)
		if why == nil {
			st, err := u.run.current().Stats()
			included := func(b *tagnet.BURegister) bool { return b.GetName() == node && !b.GetExcluded() }
			if err != nil || slices.ContainsFunc(st.GetBus(), included) {
				return true, err
			}
			why = fmt.Errorf("the builder unit of %s has not come back: it frees its slots when its sink has taken what is "+
				"whole, and then attaches", node)
		} else if !errors.Is(why, tagnet.NotNow) {
			return true, why
		}
		if u.run.IsDrained() {
			return true, fmt.Errorf("the run is over: %w", why)
		}
		return false, why
	})
}

func (u *units) markIncluded(node string) error {
	return queryCore(u.run.faults, func(c *fault.Core) error { return c.Include(node) })
}

// viewUnits are those of a view, and of the node with the decision unit.
func viewUnits(view *nodev1.View, decides string) (all []fault.Unit) {
	for _, m := range view.GetMembers() {
		all = append(all, fault.Unit{
			Node:     m.GetName(),
			Readout:  m.GetReadout(),
			Builder:  m.GetBuilder(),
			Decision: m.GetName() == decides,
		})
	}
	return all
}
