package partition

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"ringlet/ecs/api"
	"ringlet/ecs/partition/nodes"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/tagnet/core"
)

// runStates are the states in which the partition takes commands to the scheduler of a run.
var runStates = []fsm.State{fsm.Running, fsm.Paused}

// runCommandError says why a command to the scheduler of a run cannot be carried out now; nil if it can.
func (s *partitionState) runCommandError(state fsm.State, name string) error {
	switch {
	case !slices.Contains(runStates, state):
		return preconditionError(state, name, "")
	case s.run == nil:
		return preconditionError(state, name, "the run has ended")
	case name == commandTrigger && s.loadedConfig.cfg.Trigger == "":
		return preconditionError(state, name, "its events come at their rate: load a configuration with the setting trigger")
	}
	return nil
}

// commandRun carries out a command to the scheduler of a run.
func (p *Partition) commandRun(user, name string, args map[string]string) (*ecsv1.CommandResponse, error) {
	p.conductor.commandMu.Lock()
	defer p.conductor.commandMu.Unlock()
	now, state := p.currentState(), p.runner.Status().State
	if err := now.runCommandError(state, name); err != nil {
		return nil, err
	}
	out := &ecsv1.CommandResponse{State: state.String(), Run: p.lastRun()}
	if name == commandTrigger {
		var err error
		if out.Message, err = triggerEvents(now.run, state, args["count"]); err != nil {
			return nil, err
		}
		return out, nil
	}
	if err := now.run.ClearRegisters(user); err != nil {
		return nil, preconditionError(state, name, err.Error())
	}
	out.Message = user + " cleared the high-water marks of the scheduler"
	p.publish(&ecsv1.Event{Kind: "cleared", Component: "tagnet", User: user, Text: out.Message, Severity: severityInfo})
	return out, nil
}

// triggerEvents triggers events by hand and says how many triggers were taken. An empty count is 1.
func triggerEvents(run *nodes.Run, state fsm.State, count string) (string, error) {
	n, err := strconv.ParseUint(cmp.Or(count, "1"), 10, 64)
	if err != nil || n < 1 || n > core.MaxTriggers {
		return "", &api.ArgumentError{Name: "arguments.count",
			Why: fmt.Sprintf("%s is not from 1 to %d: so many triggers may wait", count, core.MaxTriggers)}
	}
	taken, err := run.Trigger(n)
	if err != nil {
		return "", preconditionError(state, commandTrigger, err.Error())
	}
	text := fmt.Sprintf("%d of %d triggers taken", taken, n)
	if uint64(taken) < n {
		text += fmt.Sprintf(": at most %d may wait, and none is taken after the end of the events", core.MaxTriggers)
	}
	return text, nil
}

// planRunCommand plans a command to the scheduler of a run.
func (plan *planner) planRunCommand(name string) {
	if err := plan.runCommandError(plan.state, name); err != nil {
		plan.addRefusal("%v", err)
		return
	}
	if name == commandTrigger {
		plan.addStep("tagnet", "issues a MEP of one event for each trigger")
		return
	}
	plan.addStep("tagnet", "begins the high-water marks of its queues anew")
}
