package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ringlet/ecs/api"
	"ringlet/internal/control"
	"ringlet/node/cluster"
	"ringlet/node/config"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Plan tells what a command would do now, and what forbids it.
func (p *Partition) Plan(_ context.Context, req *ecsv1.CommandRequest) *ecsv1.PlanResponse {
	st := p.runner.Status()
	p.mu.Lock()
	l, crew, run := p.loaded, p.crew, p.run
	excluded := p.excludedNow()
	p.mu.Unlock()
	plan := &planner{out: &ecsv1.PlanResponse{}, state: st.State}
	name, args := req.GetCommand(), req.GetArguments()
	if c, err := fsm.ParseCommand(name); err == nil {
		switch fsm.EffectOf(st.State, c) {
		case fsm.Refused:
			plan.refuse("%v", &api.PreconditionError{State: st.State.String(), Command: name, Allowed: allowed(st.State)})
		case fsm.Accepted:
			plan.step(Name, "nothing: it is %s already, or on the way there", st.State)
		case fsm.Begun:
			p.planStep(plan, c, args, l, crew, run, excluded)
		}
	} else {
		p.planBeside(plan, name, args["node"], l, run, excluded)
	}
	plan.out.Possible = len(plan.out.Refusals) == 0
	if !plan.out.Possible {
		plan.out.Steps = nil
	}
	return plan.out
}

// planner collects.
type planner struct {
	out   *ecsv1.PlanResponse
	state fsm.State
}

func (p *planner) refuse(format string, args ...any) {
	p.out.Refusals = append(p.out.Refusals, fmt.Sprintf(format, args...))
}

func (p *planner) step(who, format string, args ...any) {
	p.out.Steps = append(p.out.Steps, &ecsv1.PlanStep{Component: who, What: fmt.Sprintf(format, args...)})
}

// excludedNow are those who are excluded outside of a run. The caller holds mu.
func (p *Partition) excludedNow() []Absent {
	var out []Absent
	for name := range p.excluded {
		out = append(out, Absent{name, "it was excluded"})
	}
	slices.SortFunc(out, func(a, b Absent) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (p *Partition) planStep(plan *planner, c fsm.Command, args map[string]string, l *loaded, crew *control.Crew, run *control.Run, excluded []Absent) {
	switch c {
	case fsm.Load:
		p.planLoad(plan, args)
		return
	case fsm.Configure:
		p.planConfigure(plan, l, excluded)
		return
	case fsm.Start:
		p.mu.Lock()
		stale := p.stale
		p.mu.Unlock()
		if stale || !p.whole(crew) {
			p.planConfigure(plan, l, excluded)
		}
		plan.step(control.Name, "takes the next run number and writes the record of the run")
		plan.step("tagnet", "begins on %s", crew.Seat())
	case fsm.Stop:
		if args["abandon"] == "true" {
			plan.step("tagnet", "abandons %d MEPs under way", inFlight(run))
		} else {
			plan.step("tagnet", "issues no further MEP; %d under way are built", inFlight(run))
		}
	case fsm.Pause, fsm.Resume:
		plan.step("tagnet", "%ss", c)
	default:
	}
	if crew == nil {
		plan.refuse("no nodes are known: load a configuration first")
		return
	}
	t := fsm.Transitions()[c-fsm.Load]
	for _, name := range crew.Names() {
		if crew.Lost(name) == "" {
			plan.step(name, "goes through %s to %s", t.Via, t.To)
		}
	}
	if c == fsm.Stop {
		plan.step(control.Name, "closes the accounts and the record of the run")
	}
}

func inFlight(run *control.Run) uint64 {
	if run == nil {
		return 0
	}
	return run.LastStats().Registers.InFlight
}

func (p *Partition) planLoad(plan *planner, args map[string]string) {
	cfg, err := p.configuration(args["configuration"], strings.Split(args["settings"], "\n"))
	present := p.cfg.Members.ByName()
	if err == nil {
		err = p.bears(cfg, present)
	}
	if err != nil {
		var e *api.ConfigurationError
		errors.As(configurationError(err), &e)
		plan.out.Refusals = append(plan.out.Refusals, e.Problems...)
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
		plan.step(control.Name, "reads the input %s to its end, and refuses it if it cannot be replayed", cfg.Input)
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

func (p *Partition) planConfigure(plan *planner, l *loaded, absent []Absent) {
	if l == nil || l.names == nil {
		plan.refuse("who the members are is not settled: configure tries once more what load could not")
		return
	}
	absent = withUnjoined(absent, l.names, p.cfg.Members.ByName())
	cfg, names, err := Muster(l.cfg, l.names, absent)
	if err != nil {
		plan.refuse("%v", err)
		return
	}
	for _, a := range absent {
		plan.step(a.Name, "takes no part: %s", a.Why)
	}
	for i, role := range cfg.Roles() {
		plan.step(names[i], "makes the memory of %s and its links, and goes through Configuring to Ready", units(role))
	}
}

func (p *Partition) planBeside(plan *planner, name, node string, l *loaded, run *control.Run, excluded []Absent) {
	inRun := run != nil && (plan.state == fsm.Running || plan.state == fsm.Paused)
	switch {
	case !slices.Contains(beside, plan.state):
		plan.refuse("%v", &api.PreconditionError{State: plan.state.String(), Command: name, Allowed: allowed(plan.state)})
	case !l.knows(node):
		plan.refuse("there is no node called %q: members are %s", node, strings.Join(l.members(), ", "))
	case inRun && name == include:
		plan.step("tagnet", "gives the builder unit of %s MEPs again", node)
	case inRun:
		if err := run.Standing().MayExclude(node); err != nil {
			plan.refuse("%v", err)
			return
		}
		plan.step("tagnet", "gives the builder unit of %s no more MEPs, and those it holds to others", node)
	case name == include:
		plan.step(node, "takes part in the next run")
	default:
		if _, _, err := Muster(l.cfg, l.names, append(excluded, Absent{node, "it is to be excluded"})); err != nil {
			plan.refuse("%v", err)
			return
		}
		plan.step(node, "takes no part in the next run")
	}
}
