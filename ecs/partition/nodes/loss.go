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

// handleLoss takes a lost node's unit out of the schedule.
func (r *Run) handleLoss(x fault.Fault) {
	r.log.Warn("the run goes on without a node", "node", x.Component, "why", x.What)
	if err := r.excludeLost(x.Component); err != nil {
		r.faults.observe(fault.Observation{Kind: fault.ReportedByPeer, Fault: fault.Fault{
			Component: x.Component,
			Subsystem: fault.SubsystemScheduler,
			What:      fmt.Sprintf("it is gone, and could not be taken out of the schedule: %v", err),
			Evidence:  x.What,
		}})
		return
	}
	if r.opts.OnLost != nil {
		r.opts.OnLost(x)
	}
}

// excludeLost has the scheduler go on without the units of a node.
func (r *Run) excludeLost(node string) error {
	var err error
	for _, u := range viewUnits(r.View(), "") {
		if u.Node == node && u.Readout {
			err = r.scheduler().ExcludeRU(node)
		}
		if u.Node == node && u.Builder {
			_, lost := r.scheduler().LoseBU(node)
			err = errors.Join(err, lost)
		}
	}
	return err
}

// Exclude takes a node's builder unit out of the schedule; a readout unit of the same node goes on sending.
func (r *Run) Exclude(node string) (reissued int, err error) {
	if err := queryCore(r.faults, func(c *fault.Core) error { return c.Exclude(node) }); err != nil {
		return 0, err
	}
	if reissued, err = r.scheduler().ExcludeBU(node); err != nil {
		_ = r.markIncluded(node) // it did not come about; who was lost meanwhile stays out
	}
	return reissued, err
}

// Include gives it MEPs again, and waits until the scheduler has it back: readout units first confirm the exclusion,
// then the unit frees its slots. Where that takes too long it stays out.
func (r *Run) Include(ctx context.Context, node string) error {
	if err := queryCore(r.faults, func(c *fault.Core) error { return c.MayInclude(node) }); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.timeoutFor(includeTimeout))
	defer cancel()
	if err := r.awaitIncluded(ctx, node); err != nil {
		if _, undone := r.scheduler().ExcludeBU(node); undone != nil {
			err = errors.Join(err, fmt.Errorf("%s may still come back by itself: %w", node, undone))
		}
		return err
	}
	return r.markIncluded(node) // it may have been lost meanwhile
}

// includeTimeout is how long an inclusion may take: a write that is under way to a link which stands still has its
// outcome, or the link's end, within 5 s by QUIC, and the unit asks every 0.2 s. Mostly it is 0.3 s.
// includePollInterval is how often that is looked at.
const (
	includeTimeout      = 8 * time.Second
	includePollInterval = 50 * time.Millisecond
)

// awaitIncluded asks the scheduler to take a builder unit in until it has. The error is the last reason why it has not.
func (r *Run) awaitIncluded(ctx context.Context, node string) error {
	tick := time.NewTicker(includePollInterval)
	defer tick.Stop()
	for {
		why := r.scheduler().IncludeBU(node)
		if why != nil && !errors.Is(why, tagnet.NotNow) {
			return why
		}
		if why == nil {
			st, err := r.scheduler().Stats()
			if err != nil {
				return err
			}
			included := func(b *tagnet.BURegister) bool { return b.GetName() == node && !b.GetExcluded() }
			if slices.ContainsFunc(st.GetBus(), included) {
				return nil
			}
			why = fmt.Errorf("the builder unit of %s has not come back: it frees its slots when its sink has taken what is "+
				"whole, and then attaches", node)
		}
		select {
		case <-tick.C:
		case <-r.Drained():
			return fmt.Errorf("the run is over: %w", why)
		case <-ctx.Done():
			return why
		}
	}
}

func (r *Run) markIncluded(node string) error {
	return queryCore(r.faults, func(c *fault.Core) error { return c.Include(node) })
}

// MayExclude says why a node's builder unit cannot be taken out; nil if it can.
func (r *Run) MayExclude(node string) error {
	return queryCore(r.faults, func(c *fault.Core) error { return c.MayExclude(node) })
}

// InactiveBuilders lists the nodes whose builder unit takes no MEPs now.
func (r *Run) InactiveBuilders() []string { return queryCore(r.faults, (*fault.Core).InactiveBuilders) }

// WasDegraded says whether a unit was lost or excluded at any time of the run.
func (r *Run) WasDegraded() bool { return queryCore(r.faults, (*fault.Core).WasDegraded) }

// Losses are the nodes that the run goes on without since they are lost, each as its cause is known now.
func (c *Crew) Losses() []fault.Fault { return queryCore(c.faults, (*fault.Core).Losses) }

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
