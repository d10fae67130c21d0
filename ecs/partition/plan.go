package partition

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ringlet/ecs/partition/nodes"
	"ringlet/node/config"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Plan lists what a command would do now, or why it is refused. It changes nothing.
func (p *Partition) Plan(_ context.Context, req *ecsv1.CommandRequest) *ecsv1.PlanResponse {
	st := p.runner.Status()
	name, args := req.GetCommand(), req.GetArguments()
	plan := &planner{
		partition:      p,
		response:       &ecsv1.PlanResponse{},
		state:          st.State,
		args:           args,
		partitionState: p.currentState(),
	}
	if c, err := fsm.ParseCommand(name); err == nil {
		switch fsm.EffectOf(st.State, c) {
		case fsm.CommandRefused:
			plan.addRefusal("%v", preconditionError(st.State, name, ""))
		case fsm.CommandAccepted:
			plan.addStep(partitionComponent, "nothing: it is %s already, or on the way there", st.State)
		case fsm.TransitionBegun:
			plan.command = c
			for _, a := range p.actions(c) {
				a.describe(plan)
			}
		}
	} else if name == commandClear || name == commandTrigger {
		plan.planRunCommand(name)
	} else {
		plan.planMemberChange(name, args["node"])
	}
	plan.response.Possible = len(plan.response.Refusals) == 0
	if !plan.response.Possible {
		plan.response.Steps = nil
	}
	return plan.response
}

// planner makes one plan: the state of the partition at its beginning, and the response.
type planner struct {
	partition *Partition
	response  *ecsv1.PlanResponse
	state     fsm.State
	command   fsm.Command
	args      map[string]string
	partitionState
}

func (plan *planner) addRefusal(format string, args ...any) {
	plan.response.Refusals = append(plan.response.Refusals, fmt.Sprintf(format, args...))
}

func (plan *planner) addStep(who, format string, args ...any) {
	plan.response.Steps = append(plan.response.Steps, &ecsv1.PlanStep{Component: who, What: fmt.Sprintf(format, args...)})
}

// excludedNodes are the nodes that are excluded from the next run, by name.
func (s *partitionState) excludedNodes() (out []absentNode) {
	for _, name := range slices.Sorted(maps.Keys(s.excluded)) {
		out = append(out, absentNode{name, "it was excluded"})
	}
	return out
}

// planLoading plans a load.
func planLoading(plan *planner) {
	p := plan.partition
	cfg, err := p.checks.completeConfiguration(plan.args["configuration"], strings.Split(plan.args["settings"], "\n"))
	present := p.cfg.Members.ByName()
	if err == nil {
		err = p.checks.checkMembers(cfg, present)
	}
	if err != nil {
		plan.response.Refusals = append(plan.response.Refusals, problemTexts(err)...)
		return
	}
	names := cfg.MemberNames()
	if names == nil {
		if names, err = layOut(&cfg, present); err != nil {
			plan.addRefusal("%v", err)
			return
		}
	}
	if cfg.InputFile() != "" { // a plan reads no file: every client that may only look may ask for one
		plan.addStep(nodes.ControlName, "reads the input %s to its end, and refuses it if it cannot be replayed", cfg.Input)
	}
	for i, role := range cfg.Roles() {
		plan.addStep(names[i], "becomes %s and goes through Loading to NotReady", describeUnits(role))
	}
}

// describeUnits names the units of a node.
func describeUnits(r config.Role) string {
	switch {
	case r.Folded():
		return fmt.Sprintf("readout unit %d and builder unit %d", r.RU, r.BU)
	case r.RU != config.NoUnit:
		return fmt.Sprintf("readout unit %d", r.RU)
	case r.BU != config.NoUnit:
		return fmt.Sprintf("builder unit %d", r.BU)
	}
	return "a node without units, on which the scheduler may run"
}

// participants are the nodes that would take part. It adds a refusal and returns false if the members are not known, or
// if the loss policies do not tolerate the absent ones.
func (plan *planner) participants() (who participants, ok bool) {
	l := plan.loadedConfig
	if l == nil || l.names == nil {
		plan.addRefusal("the members are not known, since load has failed: configure tries again to find them")
		return who, false
	}
	p := plan.partition
	excluded := plan.excludedNodes()
	who, err := p.members.selectParticipants(l, excluded,
		withSubstitutes(&l.cfg, l.names, excluded, plan.moves, p.members.livingMembers(p.cfg.Members.ByName())))
	if err != nil {
		plan.addRefusal("%v", err)
	}
	return who, err == nil
}

// planMembers plans the connections: which nodes take no part, and which are connected anew.
func planMembers(plan *planner) {
	who, ok := plan.participants()
	if !ok {
		return
	}
	for _, a := range who.absent {
		plan.addStep(a.Name, "takes no part: %s", a.Why)
	}
	if !plan.partition.members.nodeSetMatches(plan.nodeSet, who) {
		for _, name := range who.names {
			plan.addStep(name, "is connected anew, and brought to NotReady")
		}
	}
}

// planConfiguring plans the work of the participants in configure.
func planConfiguring(plan *planner) {
	who, ok := plan.participants()
	if !ok {
		return
	}
	for i, role := range who.cfg.Roles() {
		plan.addStep(who.names[i], "makes the memory of %s and its links, and goes through Configuring to Ready",
			describeUnits(role))
	}
}

func planClear(plan *planner) {
	for _, name := range plan.presentNodes() {
		plan.addStep(name, "gives back its memory and its links, and is brought to NotReady")
	}
}

func planNumber(plan *planner) {
	plan.addStep(nodes.ControlName, "takes the next run number and writes the record of the run")
}

func planBeginning(plan *planner) {
	if plan.nodeSet == nil {
		planNodes(plan)
		return
	}
	plan.addStep("tagnet", "begins on %s", cmp.Or(plan.nodeSet.TagnetNode(), "this process"))
	planNodes(plan)
}

func planPause(plan *planner) {
	plan.addStep("tagnet", "%ss", plan.command)
	planNodes(plan)
}

func planStopping(plan *planner) {
	if plan.args["abandon"] == "true" {
		plan.addStep("tagnet", "abandons %d MEPs under way", mepsInFlight(plan.run))
	} else {
		plan.addStep("tagnet", "issues no further MEP; %d under way are built", mepsInFlight(plan.run))
	}
	planNodes(plan)
	plan.addStep(nodes.ControlName, "closes the accounts and the record of the run")
}

// planNodes plans the transition of each node that is present.
func planNodes(plan *planner) {
	if plan.nodeSet == nil {
		plan.addRefusal("no nodes are known: load a configuration first")
		return
	}
	t := fsm.Transitions()[plan.command-fsm.Load]
	for _, name := range plan.presentNodes() {
		plan.addStep(name, "goes through %s to %s", t.Via, t.To)
	}
}

// presentNodes are the nodes of the NodeSet that are not lost.
func (plan *planner) presentNodes() (names []string) {
	if plan.nodeSet == nil {
		return nil
	}
	return slices.DeleteFunc(plan.nodeSet.Names(), func(name string) bool {
		return plan.nodeSet.Presence(name).Gone != ""
	})
}

func mepsInFlight(run *nodes.Run) uint64 {
	if run == nil {
		return 0
	}
	return run.LastStats().GetInFlight()
}

// planMemberChange plans an exclude, an include or a move.
func (plan *planner) planMemberChange(name, node string) {
	err, builds := plan.exclusionError(plan.state, name, node), plan.isBuilding(plan.state)
	to := plan.args["to"]
	if name == commandMove {
		err = mover{plan.partition}.mayMove(plan.partitionState, plan.state, node, to)
	}
	switch {
	case err != nil:
		plan.addRefusal("%v", err)
	case name == commandMove && builds:
		plan.addStep(node, "is lost to the run, if it is not lost yet")
		plan.addStep(to, "takes the units of %s in the run", node)
	case name == commandMove:
		plan.addStep(to, "has the units of %s in the next run", node)
	case builds && name == commandInclude:
		plan.addStep("tagnet", "gives the builder unit of %s MEPs again", node)
	case builds:
		plan.addStep("tagnet", "gives the builder unit of %s no more MEPs, and those it holds to others", node)
	case name == commandInclude:
		plan.addStep(node, "takes part in the next run")
	default:
		plan.addStep(node, "takes no part in the next run")
	}
}
