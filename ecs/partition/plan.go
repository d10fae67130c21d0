package partition

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ringlet/ecs/partition/nodes"
	"ringlet/node/cluster"
	"ringlet/node/config"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Plan tells what a command would do now, and what forbids it.
func (p *Partition) Plan(_ context.Context, req *ecsv1.CommandRequest) *ecsv1.PlanResponse {
	st := p.runner.Status()
	name, args := req.GetCommand(), req.GetArguments()
	plan := &planner{
		partition: p,
		out:       &ecsv1.PlanResponse{},
		state:     st.State,
		args:      args,
		standing:  p.now(),
	}
	if c, err := fsm.ParseCommand(name); err == nil {
		switch fsm.EffectOf(st.State, c) {
		case fsm.Refused:
			plan.refuse("%v", forbidden(st.State, name, ""))
		case fsm.Accepted:
			plan.step(ownName, "nothing: it is %s already, or on the way there", st.State)
		case fsm.Begun:
			plan.command = c
			for _, a := range p.acts(c) {
				a.says(plan)
			}
		}
	} else {
		plan.beside(name, args["node"])
	}
	plan.out.Possible = len(plan.out.Refusals) == 0
	if !plan.out.Possible {
		plan.out.Steps = nil
	}
	return plan.out
}

// planner is what is known when a plan is made, and collects what it says.
type planner struct {
	partition *Partition
	out       *ecsv1.PlanResponse
	state     fsm.State
	command   fsm.Command
	args      map[string]string
	standing
}

func (plan *planner) refuse(format string, args ...any) {
	plan.out.Refusals = append(plan.out.Refusals, fmt.Sprintf(format, args...))
}

func (plan *planner) step(who, format string, args ...any) {
	plan.out.Steps = append(plan.out.Steps, &ecsv1.PlanStep{Component: who, What: fmt.Sprintf(format, args...)})
}

// absent are those who are excluded outside of a run.
func (s *standing) absent() (out []absentNode) {
	for _, name := range slices.Sorted(maps.Keys(s.excluded)) {
		out = append(out, absentNode{name, "it was excluded"})
	}
	return out
}

// sayLoading says what load does.
func sayLoading(plan *planner) {
	p := plan.partition
	cfg, err := p.configuration(plan.args["configuration"], strings.Split(plan.args["settings"], "\n"))
	present := p.cfg.Members.ByName()
	if err == nil {
		err = p.bears(cfg, present)
	}
	if err != nil {
		plan.out.Refusals = append(plan.out.Refusals, problems(err)...)
		return
	}
	names := cfg.MemberNames()
	if there := cluster.Units(present); names == nil && len(there) >= cfg.Nodes {
		names = there[:cfg.Nodes]
	}
	if names == nil {
		plan.refuse("%d nodes are wanted, and fewer have joined", cfg.Nodes)
		return
	}
	if cfg.InputFile() != "" { // a plan reads no file: everybody who may look may ask for one
		plan.step(nodes.Name, "reads the input %s to its end, and refuses it if it cannot be replayed", cfg.Input)
	}
	for i, role := range cfg.Roles() {
		plan.step(names[i], "becomes %s and goes through Loading to NotReady", units(role))
	}
}

// units says what a node is to hold.
func units(r config.Role) string {
	switch {
	case r.Folded():
		return fmt.Sprintf("readout unit %d and builder unit %d", r.RU, r.BU)
	case r.RU != config.None:
		return fmt.Sprintf("readout unit %d", r.RU)
	case r.BU != config.None:
		return fmt.Sprintf("builder unit %d", r.BU)
	}
	return "nothing but where the scheduler may live"
}

// taking is who would take part; a refusal if nobody can tell, or the policies do not bear it.
func (plan *planner) taking() (of takers, ok bool) {
	l := plan.loaded
	if l == nil || l.names == nil {
		plan.refuse("who the members are is not settled: configure tries once more what load could not")
		return of, false
	}
	p := plan.partition
	of, err := p.decide(l, plan.absent(), p.alive(p.cfg.Members.ByName()))
	if err != nil {
		plan.refuse("%v", err)
	}
	return of, err == nil
}

// sayMuster says who takes no part, and who is met anew.
func sayMuster(plan *planner) {
	of, ok := plan.taking()
	if !ok {
		return
	}
	for _, a := range of.absent {
		plan.step(a.Name, "takes no part: %s", a.Why)
	}
	if !plan.partition.keeps(plan.crew, of) {
		for _, name := range of.names {
			plan.step(name, "is met anew, and brought to NotReady")
		}
	}
}

// sayConfiguring says what becomes of those who take part.
func sayConfiguring(plan *planner) {
	of, ok := plan.taking()
	if !ok {
		return
	}
	for i, role := range of.cfg.Roles() {
		plan.step(of.names[i], "makes the memory of %s and its links, and goes through Configuring to Ready", units(role))
	}
}

func sayClear(plan *planner) {
	for _, name := range plan.there() {
		plan.step(name, "gives back what it has from before, and is brought to NotReady")
	}
}

func sayNumber(plan *planner) {
	plan.step(nodes.Name, "takes the next run number and writes the record of the run")
}

func sayBeginning(plan *planner) {
	if plan.crew == nil {
		sayNodes(plan)
		return
	}
	plan.step("tagnet", "begins on %s", cmp.Or(plan.crew.TagnetNode(), "this process"))
	sayNodes(plan)
}

func sayPause(plan *planner) {
	plan.step("tagnet", "%ss", plan.command)
	sayNodes(plan)
}

func sayStopping(plan *planner) {
	if plan.args["abandon"] == "true" {
		plan.step("tagnet", "abandons %d MEPs under way", inFlight(plan.run))
	} else {
		plan.step("tagnet", "issues no further MEP; %d under way are built", inFlight(plan.run))
	}
	sayNodes(plan)
	plan.step(nodes.Name, "closes the accounts and the record of the run")
}

// sayNodes says what every node does that is there.
func sayNodes(plan *planner) {
	if plan.crew == nil {
		plan.refuse("no nodes are known: load a configuration first")
		return
	}
	t := fsm.Transitions()[plan.command-fsm.Load]
	for _, name := range plan.there() {
		plan.step(name, "goes through %s to %s", t.Via, t.To)
	}
}

// there are the nodes of the crew that are not lost.
func (plan *planner) there() (names []string) {
	if plan.crew == nil {
		return nil
	}
	return slices.DeleteFunc(plan.crew.Names(), func(name string) bool { return plan.crew.Lost(name) != "" })
}

func inFlight(run *nodes.Run) uint64 {
	if run == nil {
		return 0
	}
	return run.LastStats().GetInFlight()
}

// beside says what it does to exclude or include a node.
func (plan *planner) beside(name, node string) {
	err, builds := plan.refuses(plan.state, name, node), plan.builds(plan.state)
	switch {
	case err != nil:
		plan.refuse("%v", err)
	case builds && name == include:
		plan.step("tagnet", "gives the builder unit of %s MEPs again", node)
	case builds:
		plan.step("tagnet", "gives the builder unit of %s no more MEPs, and those it holds to others", node)
	case name == include:
		plan.step(node, "takes part in the next run")
	default:
		plan.step(node, "takes no part in the next run")
	}
}
