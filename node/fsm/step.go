package fsm

import (
	"fmt"
	"time"
)

// Status is everything the machine remembers. It is a value: copies never
// change. The zero Status is Offline, not included, nothing wrong.
type Status struct {
	State    State
	Command  Command // the one under way; zero in a stable state
	Seq      uint64  // number of the transition begun last
	Change   uint64  // number of changes until now
	Included bool    // takes part in the partition
	Degraded Cause   // zero: not degraded; else the reason given last
	Cause    Cause   // in Error and Recovering: what led to Error
	Forced   Cause   // the last transition was a Stop or Reset that went by force
	Faults   uint64  // faults since the component was loaded, also those after the first
}

// inputKind is the kind of an Input.
type inputKind uint8

// The kinds of input.
const (
	inputCommand inputKind = 1 + iota
	inputDone
	inputFailed
	inputTimeout
	inputProgress
	inputFault
	inputDegrade
	inputRestore
	inputInclude
	inputExclude
)

// input is something that happens to a component. Make it with commandInput,
// doneInput, failedInput, timeoutInput, progressInput, faultInput, degradeInput, restoreInput, includeInput.
type input struct {
	kind    inputKind
	command Command
	seq     uint64
	cause   Cause
}

// commandInput is a command of the run control.
func commandInput(c Command) input { return input{kind: inputCommand, command: c} }

// doneInput says that the work of transition seq is done.
func doneInput(seq uint64) input { return input{kind: inputDone, seq: seq} }

// failedInput says that the work of transition seq failed.
func failedInput(seq uint64, why Cause) input { return input{kind: inputFailed, seq: seq, cause: why} }

// timeoutInput says that the time armed for transition seq is over.
func timeoutInput(seq uint64) input { return input{kind: inputTimeout, seq: seq} }

// progressInput says that the work of transition seq has made progress: its time begins
// anew, so the time-out strikes a transition in which nothing moves for so long.
func progressInput(seq uint64) input { return input{kind: inputProgress, seq: seq} }

// faultInput says that something broke, whatever the component was doing.
func faultInput(why Cause) input { return input{kind: inputFault, cause: why} }

// degradeInput says that the component goes on with less than it should have.
func degradeInput(why Cause) input { return input{kind: inputDegrade, cause: why} }

// restoreInput says that the component has again what it should have.
func restoreInput() input { return input{kind: inputRestore} }

// includeInput says whether the component takes part in the partition.
func includeInput(in bool) input {
	if in {
		return input{kind: inputInclude}
	}
	return input{kind: inputExclude}
}

// String is the input as a transcript shows it.
func (in input) String() string {
	switch in.kind {
	case inputCommand:
		return in.command.String()
	case inputDone:
		return fmt.Sprintf("done #%d", in.seq)
	case inputFailed:
		return fmt.Sprintf("failed #%d: %s", in.seq, in.cause.What)
	case inputTimeout:
		return fmt.Sprintf("timeout #%d", in.seq)
	case inputProgress:
		return fmt.Sprintf("moved #%d", in.seq)
	case inputFault:
		return "fault: " + in.cause.What
	case inputDegrade:
		return "degraded: " + in.cause.What
	case inputRestore:
		return "restored"
	case inputInclude:
		return "included"
	case inputExclude:
		return "excluded"
	}
	return "no input"
}

// actionKind is what an action asks for.
type actionKind uint8

const (
	// actionDisarm: disarm the timer.
	actionDisarm actionKind = 1 + iota
	// actionAbandon: abandon what the component was doing in state From, give up the work under
	// way and put everything to rest at once. It is never answered.
	actionAbandon
	// actionRunCommand: do the work of Command, having given up the work under way if there is one;
	// answer with doneInput or failedInput of Seq.
	actionRunCommand
	// actionArm: arm the timer; after After, feed timeoutInput(Seq).
	actionArm
	// actionPublish: publish the new status.
	actionPublish
)

// action is something the shell has to carry out.
type action struct {
	Kind    actionKind
	Command Command       // Do
	Seq     uint64        // Do, arm
	After   time.Duration // Arm
	From    State         // Abandon
	Why     Cause         // Abandon
}

// String is the action as a transcript shows it.
func (a action) String() string {
	switch a.Kind {
	case actionDisarm:
		return "disarm"
	case actionAbandon:
		return fmt.Sprintf("abandon %s", a.From)
	case actionRunCommand:
		return fmt.Sprintf("do %s #%d", a.Command, a.Seq)
	case actionArm:
		return fmt.Sprintf("arm %v #%d", a.After, a.Seq)
	case actionPublish:
		return "publish"
	}
	return "no action"
}

// machine is what a component's state machine is made with. It is immutable.
type machine struct {
	Component string   // the name in causes and errors
	Timeouts  Timeouts // nil: the defaults of the table
}

// step is machine.Step of a nameless component with the default time-outs.
func step(s Status, in input) (Status, []action, error) {
	return machine{Component: "component"}.step(s, in)
}

// step takes one input. Errors, with the status unchanged and no actions:
// *PreconditionError for a forbidden command, *staleError for an end or time-out
// of a transition that is over.
func (m machine) step(s Status, in input) (Status, []action, error) {
	switch in.kind {
	case inputCommand:
		return m.handleCommand(s, in.command)
	case inputDone, inputFailed, inputTimeout, inputProgress:
		t, ok := transitionVia(s.State)
		if !ok || in.seq != s.Seq {
			return s, nil, &staleError{State: s.State, Input: in, Seq: s.Seq}
		}
		if in.kind == inputProgress {
			return s, []action{{Kind: actionDisarm}, {Kind: actionArm, Seq: s.Seq, After: m.Timeouts.ForCommand(t.Command)}}, nil
		}
		next, actions := m.finishTransition(s, t, in)
		return next, actions, nil
	case inputFault:
		next, actions := m.enterError(s, in.cause)
		return next, actions, nil
	}
	next, actions := m.setFlags(s, in)
	return next, actions, nil
}

// handleCommand begins a transition, accepts the command or refuses it.
func (m machine) handleCommand(s Status, c Command) (Status, []action, error) {
	switch EffectOf(s.State, c) {
	case CommandAccepted:
		return s, nil, nil
	case CommandRefused:
		return s, nil, &PreconditionError{
			Component: m.Component,
			State:     s.State,
			Command:   c,
			Allowed:   AllowedCommands(s.State),
		}
	case TransitionBegun:
	}
	t, _ := transitionOf(c)
	var actions []action
	if s.State.IsTransitional() {
		actions = append(actions, action{Kind: actionDisarm})
	}
	s.State, s.Command = t.Via, c
	s.Seq++
	s.Change++
	s.Forced = Cause{}
	return s, append(actions,
		action{Kind: actionRunCommand, Command: c, Seq: s.Seq},
		action{Kind: actionArm, Seq: s.Seq, After: m.Timeouts.ForCommand(c)},
		action{Kind: actionPublish}), nil
}

// finishTransition ends the transition t that is under way.
func (m machine) finishTransition(s Status, t Transition, in input) (Status, []action) {
	switch in.kind {
	case inputDone:
		return m.enterTarget(s, t), []action{{Kind: actionDisarm}, {Kind: actionPublish}}
	case inputFailed:
		return m.enterError(s, in.cause)
	}
	why := Cause{
		Kind: CauseTimeout, What: fmt.Sprintf("%s did not end in time", t.Command),
		Evidence: fmt.Sprintf("its time-out is %v", m.Timeouts.ForCommand(t.Command)),
	}.withDefaults(m.Component, s.State)
	if !t.Forced {
		return m.enterError(s, why)
	}
	actions := []action{{Kind: actionDisarm}, {Kind: actionAbandon, From: s.State, Why: why}, {Kind: actionPublish}}
	s = m.enterTarget(s, t)
	s.Forced = why
	return s, actions
}

// enterTarget puts the component into the target of t. One that begins anew is
// neither in Error nor degraded until it says so.
func (m machine) enterTarget(s Status, t Transition) Status {
	s.State, s.Command = t.To, 0
	s.Change++
	if t.To == NotReady || t.To == Offline {
		s.Cause, s.Degraded = Cause{}, Cause{}
	}
	if t.Command == Load {
		s.Faults = 0
	}
	return s
}

// enterError leads to Error. The first cause stays: what breaks afterwards is mostly
// its consequence, and is only counted.
func (m machine) enterError(s Status, why Cause) (Status, []action) {
	s.Faults++
	s.Change++
	if s.State == Error {
		return s, []action{{Kind: actionPublish}}
	}
	var actions []action
	if s.State.IsTransitional() {
		actions = append(actions, action{Kind: actionDisarm})
	}
	why = why.withDefaults(m.Component, s.State)
	actions = append(actions, action{Kind: actionAbandon, From: s.State, Why: why}, action{Kind: actionPublish})
	s.State, s.Command, s.Cause = Error, 0, why
	return s, actions
}

// setFlags sets and clears what stands beside the state.
func (m machine) setFlags(s Status, in input) (Status, []action) {
	before := s
	switch in.kind {
	case inputDegrade:
		s.Degraded = in.cause.withDefaults(m.Component, s.State)
	case inputRestore:
		s.Degraded = Cause{}
	case inputInclude:
		s.Included = true
	case inputExclude:
		s.Included = false
	}
	if s == before {
		return s, nil
	}
	s.Change++
	return s, []action{{Kind: actionPublish}}
}
