package partition

import (
	"slices"

	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
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
	}
	return nil
}

// commandRun carries out a command to the scheduler of a run.
func (p *Partition) commandRun(user, name string) (*ecsv1.CommandResponse, error) {
	p.conductor.commandMu.Lock()
	defer p.conductor.commandMu.Unlock()
	now, state := p.currentState(), p.runner.Status().State
	if err := now.runCommandError(state, name); err != nil {
		return nil, err
	}
	if err := now.run.ClearRegisters(user); err != nil {
		return nil, preconditionError(state, name, err.Error())
	}
	out := &ecsv1.CommandResponse{State: state.String(), Run: p.lastRun(),
		Message: user + " cleared the high-water marks of the scheduler"}
	p.publish(&ecsv1.Event{Kind: "cleared", Component: "tagnet", User: user, Text: out.Message, Severity: severityInfo})
	return out, nil
}

// planRunCommand plans a command to the scheduler of a run.
func (plan *planner) planRunCommand(name string) {
	if err := plan.runCommandError(plan.state, name); err != nil {
		plan.addRefusal("%v", err)
		return
	}
	plan.addStep("tagnet", "begins the high-water marks of its queues anew")
}
