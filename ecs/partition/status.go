package partition

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/partition/fault"
	"ringlet/ecs/partition/nodes"
	"ringlet/node/config"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet/core"
)

// Status is the status of the partition with the tree of its components: TagNet, the nodes, their units.
func (p *Partition) Status() *ecsv1.PartitionStatus {
	st := p.runner.Status()
	now := p.currentState()
	l, nodeSet, run := now.loadedConfig, now.nodeSet, now.run
	out := &ecsv1.PartitionStatus{
		Root:    p.componentStatus(partitionComponent, partitionComponent, st),
		Run:     p.lastRun(),
		Allowed: allowedCommands(st.State),
		Version: p.cfg.Version,
		Since:   timestamppb.New(p.runner.StateSince()),
		Change:  st.Change,
		NoRun:   p.currentStartFailure(now),
	}
	out.Root.Included = true
	if l != nil {
		out.Configuration, out.ConfigurationHash = string(l.cfg.Effective()), l.cfg.Hash()
	}
	out.Root.Children = append(out.Root.Children, p.tagnetStatus(run, nodeSet))
	if run != nil {
		for _, s := range run.SourcesReadiness() {
			one := &ecsv1.SourceReadiness{Source: uint32(s.ID), Name: s.Name, Readiness: s.Readiness}
			out.Sources = append(out.Sources, one)
		}
	}
	seen := map[string]bool{}
	if nodeSet != nil {
		for i, rep := range nodeSet.Reports() {
			name := nodeSet.Names()[i]
			seen[name], seen[nodeSet.Processes()[i]] = true, true
			out.Root.Children = append(out.Root.Children, p.nodeStatus(name, i, rep, nodeSet, run))
		}
	}
	out.Root.Children = append(out.Root.Children, p.otherComponents(l, seen)...)
	return out
}

// componentStatus is the status of a state machine as a component of the tree.
func (p *Partition) componentStatus(name, kind string, st fsm.Status) *ecsv1.Component {
	c := &ecsv1.Component{
		Name:     name,
		Kind:     kind,
		State:    st.State.String(),
		InError:  st.State == fsm.Error,
		Included: st.Included,
		Degraded: !st.Degraded.IsZero(),
	}
	if st.State.IsTransitional() {
		c.InBetween = st.State.String()
	}
	for _, cause := range []fsm.Cause{st.Cause, st.Degraded, st.Forced} {
		if !cause.IsZero() {
			c.Cause = p.causeMessage(cause)
			break
		}
	}
	return c
}

// tagnetStatus is the scheduler as a component.
func (p *Partition) tagnetStatus(run *nodes.Run, nodeSet *nodes.NodeSet) *ecsv1.Component {
	c := &ecsv1.Component{
		Name:     "tagnet",
		Kind:     "tagnet",
		State:    fsm.Offline.String(),
		Included: true,
		Facts:    map[string]string{},
	}
	if nodeSet != nil {
		c.State = fsm.Ready.String()
		if on := nodeSet.TagnetNode(); on != "" {
			c.Facts["node"] = on
		}
	}
	if run != nil && !run.State().Begun.IsZero() {
		if on := run.SchedulerNode(); on != "" {
			c.Facts["node"] = on
		}
		r := run.LastStats().Registers
		c.State = fsm.Running.String()
		c.Facts["scheduler"], c.Facts["waits for"] = core.State(r.GetState()).String(), r.GetWaitingFor()
		if st := p.runner.Status().State; st == fsm.Paused {
			c.State = fsm.Paused.String()
		}
	}
	return c
}

// nodeStatus is a node with its units as a component.
func (p *Partition) nodeStatus(name string, rank int, rep *nodev1.Report, nodeSet *nodes.NodeSet,
	run *nodes.Run) *ecsv1.Component {
	st := rep.GetStatus()
	c := &ecsv1.Component{
		Name:      name,
		Kind:      "node",
		State:     st.GetState(),
		InBetween: st.GetInBetween(),
		InError:   st.GetState() == fsm.Error.String(),
		Included:  true,
		Degraded:  st.GetDegraded(),
		Facts:     nodeSet.Describe(rank),
		Cause:     nodeCause(st.GetCause()),
	}
	if c.State == "" {
		c.State = "unknown"
	}
	newProcess, joined := p.cfg.Members.ByName()[name]
	noteNewProcess(c.Facts, newProcess.Meta.GRPCAddr)
	if lost := nodeSet.Presence(name).Gone; lost != "" {
		c.State, c.Included, c.InError = "lost", false, true
		c.Cause = &ecsv1.Cause{Component: name, What: lost, Code: causeCodeNodeGone}
		for _, x := range nodeSet.Losses() {
			if x.Component == name {
				c.Cause = recordCause(x, causeCodeNodeLost, nil)
			}
		}
		if joined && run == nil && p.runner.Status().State != fsm.Error {
			c.Cause.Advice = configureAdvice
		}
	}
	if how := nodeSet.Presence(name).Withdrawn; how != "" {
		c.State, c.Included, c.InError = fsm.Offline.String(), false, false
		c.Cause = &ecsv1.Cause{Component: name, What: how, Code: "left"}
	}
	cfg := nodeSet.Configuration()
	readout, builder := cfg.LossPolicies()
	role := cfg.Roles()[rank]
	c.Facts["role"] = unitsOf(role).Word()
	unit := func(kind string, index int, loss config.LossPolicy, in bool) {
		c.Children = append(c.Children, &ecsv1.Component{
			Name:      fmt.Sprintf("%s unit %d", kind, index),
			Kind:      kind,
			State:     c.State,
			InBetween: c.InBetween,
			InError:   c.InError,
			Included:  in,
			Degraded:  c.Degraded,
			Loss:      loss.String(),
		})
	}
	if role.RU != config.NoUnit {
		unit("readout", role.RU, readout, c.Included)
	}
	if role.BU != config.NoUnit {
		unit("builder", role.BU, builder, c.Included && (run == nil || !slices.Contains(run.InactiveBuilders(), name)))
	}
	return c
}

// noteNewProcess adds the address of the process of a member for which another node substitutes; empty: there is none.
func noteNewProcess(facts map[string]string, address string) {
	if address != "" && facts["substitute"] != "" {
		facts["new_process"] = address
	}
}

// configureAdvice is the advice for a lost node whose process has joined the cluster again, when there is no run.
const configureAdvice = "Its process is in the cluster again: give configure, which takes it in."

// Codes of the cause of a node that is gone.
const (
	causeCodeNodeLost = "lost" // the run goes on without it
	causeCodeNodeGone = "gone" // any other
)

func nodeCause(c *nodev1.Cause) *ecsv1.Cause {
	if c == nil {
		return nil
	}
	return recordCause(fault.FromCause(c), c.GetCode(), nil)
}

// otherComponents are the members that take no part, and the spare nodes: those of the cluster that are no members.
func (p *Partition) otherComponents(l *loadedConfig, seen map[string]bool) []*ecsv1.Component {
	var out []*ecsv1.Component
	if l != nil {
		for _, a := range l.absent {
			seen[a.Name] = true
			out = append(out, &ecsv1.Component{
				Name:  a.Name,
				Kind:  "node",
				State: fsm.Offline.String(),
				Cause: &ecsv1.Cause{Component: a.Name, What: a.Why, Code: "absent"},
			})
		}
	}
	for _, m := range p.cfg.Members.Members() {
		if seen[m.Name] || !m.Meta.Roles.HoldsUnit() {
			continue
		}
		out = append(out, &ecsv1.Component{
			Name:  m.Name,
			Kind:  "node",
			State: fsm.Offline.String(),
			Spare: true,
			Facts: map[string]string{
				"address": m.Meta.GRPCAddr,
				"version": m.Meta.Version,
				"role":    m.Meta.Roles.Word(),
				"spare":   l.spareReason(m.Name),
			},
		})
	}
	return out
}

// spareReason says why a node that has joined takes no part.
func (l *loadedConfig) spareReason(node string) string {
	switch {
	case l == nil:
		return "no configuration is loaded"
	case l.hasMember(node):
		return "load has not connected to the members"
	}
	return "it is no member of the configuration"
}
